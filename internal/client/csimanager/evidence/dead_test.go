package evidence_test

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// TestWhatTheTableShowsOfADeadFileSystem: who only reads goes on reading what is read-only.
func TestWhatTheTableShowsOfADeadFileSystem(t *testing.T) {
	e := &entry.Entry{Pubs: map[ids.Alloc]*entry.Publication{
		"writes": {HostPath: "/m", Presence: volume.Present},
		"reads":  {HostPath: "/m", Presence: volume.Present, ReadOnly: true},
		"gone":   {HostPath: "/m", Presence: volume.Absent},
	}}
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
		if got := evidence.Dead(e, "reads", table); got != c.read {
			t.Errorf("%+v, to a reader: %q", c.m, got)
		}
		if got := evidence.Dead(e, "writes", table); got != c.write {
			t.Errorf("%+v, to a writer: %q", c.m, got)
		}
		if got := evidence.Dead(e, "gone", table); got != "" {
			t.Errorf("%+v, to one to whom it is not published: %q", c.m, got)
		}
	}
}
