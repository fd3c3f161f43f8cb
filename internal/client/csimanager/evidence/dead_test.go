package alive

import (
	"testing"

	"berth/internal/port/hostfs"
)

// TestWhatTheTableShowsOfADeadFileSystem: who only reads goes on reading what is read-only.
func TestWhatTheTableShowsOfADeadFileSystem(t *testing.T) {
	for _, c := range []struct {
		m           hostfs.Mount
		read, write string
	}{
		{hostfs.Mount{Path: "/m"}, "", ""},
		{hostfs.Mount{Path: "/m", ReadOnly: true}, "", "its file system has become read-only"},
		{hostfs.Mount{Path: "/m", Dead: "emergency_ro"}, "", "its file system has given up (emergency_ro)"},
		{hostfs.Mount{Path: "/m", Dead: "shutdown"}, "its file system has given up (shutdown)",
			"its file system has given up (shutdown)"},
		{hostfs.Mount{Path: "/elsewhere", ReadOnly: true}, "", ""},
	} {
		table := hostfs.TableOf(c.m)
		if got := shown(table, "/m", false); got != c.read {
			t.Errorf("%+v, to a reader: %q", c.m, got)
		}
		if got := shown(table, "/m", true); got != c.write {
			t.Errorf("%+v, to a writer: %q", c.m, got)
		}
	}
}
