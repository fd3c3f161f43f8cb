package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// spoil changes a byte of the entry that names a namespace, in the log of a server that does not run.
func (m *machine) spoil(name string) {
	m.t.Helper()
	segments, err := filepath.Glob(filepath.Join(m.data, "server", "raft", "wal", "*.wal"))
	must(m.t, err)
	for _, path := range segments {
		data, err := os.ReadFile(path)
		must(m.t, err)
		if at := bytes.Index(data, []byte(name)); at >= 0 {
			data[at] ^= 1
			must(m.t, os.WriteFile(path, data, 0o600))
			return
		}
	}
	m.t.Fatalf("no segment in %s has %s", m.data, name)
}

// TestThreeServersMendTheirLogs: given three servers that were stopped, and whose logs were damaged meanwhile, each in
// another place, when they start, then each gets from the others what it lacks, says so, and knows all there was.
func TestThreeServersMendTheirLogs(t *testing.T) {
	all := three(t)
	first := all[0]
	for i := range all {
		first.mustCLI("namespace", "apply", fmt.Sprintf("damaged-%d", i+1))
	}
	first.mustCLI("namespace", "apply", "the-last")
	first.voters(3, 0)
	for _, m := range all {
		must(t, m.stop())
	}
	for i, m := range all {
		m.alarm = "the log is damaged"
		m.spoil(fmt.Sprintf("damaged-%d", i+1))
	}
	for _, m := range all {
		m.launch()
	}
	for i, m := range all {
		m.answers()
		m.voters(3, 0)
		list := m.mustCLI("namespace", "list")
		for _, name := range []string{"damaged-1", "damaged-2", "damaged-3", "the-last"} {
			if !strings.Contains(list, name) {
				t.Errorf("s%d does not know namespace %s:\n%s", i+1, name, list)
			}
		}
		if !m.logged("the log is mended") {
			t.Errorf("s%d does not say that its log was mended", i+1)
		}
	}
}
