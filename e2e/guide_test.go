package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// filesOf writes the files that a page shows under their names to the machine.
func (m *machine) filesOf(page string) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs", page))
	must(m.t, err)
	file := regexp.MustCompile("(?s)`/etc/berth/([\\w.]+)`[^`]*:\n\n```hcl\n(.*?)```")
	shown := file.FindAllStringSubmatch(string(text), -1)
	if len(shown) == 0 {
		m.t.Fatalf("%s shows no file of /etc/berth", page)
	}
	for _, f := range shown {
		must(m.t, os.WriteFile(filepath.Join(m.root, f[1]), []byte(f[2]), 0o600))
	}
}

// TestTheGuideOfVolumesIsPlayed: given the files that docs/reference/storage.md shows, when its commands are run, then
// each does what it is for, from the making of a volume to its end.
func TestTheGuideOfVolumesIsPlayed(t *testing.T) {
	m := newMachine(t, true)
	m.filesOf("reference/storage.md")
	m.guide("reference/storage.md", "A volume from its making to its end")
	if left, _, err := m.api.Volumes().List(t.Context(), nil); err != nil || len(left) > 0 {
		t.Errorf("volumes are left: %+v, %v", left, err)
	}
	made, _, err := m.api.Volumes().ListSnapshots(t.Context(), "local-csi", nil, nil)
	must(t, err)
	if len(made.Snapshots) != 1 {
		t.Fatalf("there are %d snapshots, the guide makes one", len(made.Snapshots))
	}
	m.must("volume", "snapshot", "delete", "local-csi", made.Snapshots[0].ID)
}
