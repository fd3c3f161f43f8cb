package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVolumesWhoseDiskIsAwayAreKeptOrGivenUp: given a volume of the bundled plugin, made by a version that did not
// remember which store is the node's, when the directory is empty at the next start, then no store begins there and the
// log names the volume; put back, it is served; away for good, the command that the log names says what is lost, asks,
// and is refused beside an agent, and afterwards another store begins.
func TestVolumesWhoseDiskIsAwayAreKeptOrGivenUp(t *testing.T) {
	m := newMachine(t, true)
	m.alarm = "the bundled storage plugin"
	m.create("data", "local-csi")
	m.dies()
	volumes, disk := filepath.Join(m.data, "volumes"), filepath.Join(m.root, "disk")
	// One by one, as the root directory of a disk that is mounted there.
	move := func(from, to string) {
		t.Helper()
		list, err := os.ReadDir(from)
		must(t, err)
		for _, e := range list {
			must(t, os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
		}
	}
	must(t, os.Mkdir(disk, 0o700))
	move(volumes, disk)
	must(t, os.Remove(volumes+".identity"))
	give := []string{"operator", "forget-volumes", "-yes", m.data}
	away := func() {
		t.Helper()
		m.launch()
		m.answers()
		m.eventually("the refusal", func() bool {
			return m.logged("level=ERROR", "default/data", "mount it on "+volumes,
				"berth operator forget-volumes "+m.data)
		})
		m.eventually("the plugin's status to say why", func() bool {
			out, _ := m.cli("plugin", "status", "local-csi")
			return strings.Contains(out, "ended before it served: Error:") &&
				strings.Contains(out, "mount it on "+volumes)
		})
		m.cliRefuses(give, "uses it")
		m.dies()
		if list, err := os.ReadDir(volumes); err != nil || len(list) > 0 {
			t.Fatalf("it made %v: %v", list, err)
		}
	}
	away()
	m.cliRefuses([]string{"operator", "check-data", m.data}, "default/data")
	move(disk, volumes)
	m.cliRefuses(give, "its store is not missing")
	m.start()
	m.awaitPlugin("local-csi")
	m.dies()
	move(volumes, disk)
	if err := os.Remove(volumes + ".identity"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	m.cliRefuses([]string{"operator", "forget-volumes", m.data}, "default/data", "give -yes")
	away()
	m.says(m.mustCLI(give...), "default/data", "are given up")
	m.start()
	m.awaitPlugin("local-csi")
	m.remove("data")
}
