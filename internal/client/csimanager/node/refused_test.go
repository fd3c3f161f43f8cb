package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
)

// TestWhatWasRefusedAtOnceLeavesNothing: no directory, and no id file that would name it at the next start. What an
// earlier call may have made keeps both, and so does what is mounted.
func TestWhatWasRefusedAtOnceLeavesNothing(t *testing.T) {
	no := &csi.Error{Finality: csi.Final, Retry: volume.RetryNever}
	for name, c := range map[string]struct {
		verb   entry.Verb
		before volume.Presence
		err    error
		there  bool // it is mounted
		after  volume.Presence
	}{
		"publish":                  {entry.Publish, volume.Absent, no, false, volume.Absent},
		"publish after a doubt":    {entry.Publish, volume.Uncertain, no, false, volume.Uncertain},
		"publish of unknown end":   {entry.Publish, volume.Absent, errors.New("lost"), false, volume.Uncertain},
		"publish that was mounted": {entry.Publish, volume.Absent, no, true, volume.Uncertain},
		"publish that was not sent": {entry.Publish, volume.Absent, notSent{errors.New("disk")}, false,
			volume.Absent},
		"stage":                  {entry.Stage, volume.Absent, no, false, volume.Absent},
		"stage after a doubt":    {entry.Stage, volume.Uncertain, no, false, volume.Uncertain},
		"stage that was mounted": {entry.Stage, volume.Absent, no, true, volume.Uncertain},
	} {
		t.Run(name, func(t *testing.T) {
			vs, dir := madeState(t, "a"), t.TempDir()
			k, s := keeperOf(t, vs), entry.Step{Verb: c.verb, Alloc: "a"}
			vs.entry.Staging.HostPath = filepath.Join(dir, "s", "x")
			vs.entry.Pubs["a"].HostPath = filepath.Join(dir, "p", "x", "m")
			path, ours := evidence.Traces(vs.entry, s)
			alloc := s.Alloc
			if c.verb == entry.Stage {
				alloc = ""
			}
			err := errors.Join(hostfs.MakeDir(path), evidence.WriteIDFile(k.cfg.Codec, vs.entry, alloc))
			if err != nil {
				t.Fatal(err)
			}
			if c.there {
				mounted(t, path, 0)
			}
			*vs.entry.PresenceOf(s) = volume.Uncertain
			if err := k.finish(testKey, s, c.before, c.err); !errors.Is(err, c.err) {
				t.Errorf("it ended with %v", err)
			}
			if now := *vs.entry.PresenceOf(s); now != c.after {
				t.Errorf("it is %s, want %s", now, c.after)
			}
			for _, p := range ours {
				if _, err := os.Lstat(p); (err == nil) != c.after.Exists() {
					t.Errorf("%s: %v", p, err)
				}
			}
		})
	}
}
