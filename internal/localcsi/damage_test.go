package localcsi

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/localcsi/datadir"
)

// Given the plugin's directory with two volumes and a snapshot, when a record is damaged, then what it is of is left
// alone and named, and the others are served; when the file that says whose directory it is, is damaged or gone, then
// nothing is served, with what to do; and put back, everything is as before.
func TestADamagedRecordIsLeftAloneOrRefused(t *testing.T) {
	w := newWorld(t, "", nil)
	hurt := w.create(createReq("hurt", 16*mib, mountCap("ext4", single)))
	well := w.create(createReq("well", 16*mib, mountCap("ext4", single)))
	snap := w.snap("snap", hurt)
	w.stop()
	meta := filepath.Join(filepath.Dir(w.image(hurt)), "meta.json")
	place := filepath.Join(w.cfg.DataDir, datadir.IdentityFile)
	for name, c := range map[string]struct {
		path   string
		damage func([]byte) []byte // nil: it is deleted
	}{
		"no record":           {meta, nil},
		"a record of 0 bytes": {meta, func([]byte) []byte { return nil }},
		"half a record":       {meta, func(b []byte) []byte { return b[:len(b)/2] }},
		"nothing recorded":    {meta, func([]byte) []byte { return []byte("null\n") }},
		"other bytes":         {meta, func(b []byte) []byte { clear(b[:20]); return b }},
		"another's record":    {meta, anotherKey},
		"no identity":         {place, nil},
		"an identity of 0":    {place, func([]byte) []byte { return nil }},
		"half an identity":    {place, func(b []byte) []byte { return b[:len(b)/2] }},
		"no one's":            {place, func([]byte) []byte { return []byte("null") }},
	} {
		t.Run(name, func(t *testing.T) {
			whole, err := os.ReadFile(c.path)
			if err != nil {
				t.Fatal(err)
			}
			if c.damage == nil {
				err = os.Remove(c.path)
			} else {
				err = os.WriteFile(c.path, c.damage(bytes.Clone(whole)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			_, found := datadir.Check(w.cfg.DataDir, w.cfg.Identity)
			if len(found) != 1 || !strings.Contains(found[0].Error(), c.path) {
				t.Errorf("the check found %v", found)
			}
			var said bytes.Buffer
			w.cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
			if c.path == place {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // one that serves ends, too
				err := Run(ctx, w.cfg)
				cancel()
				for _, word := range []string{place, "nothing was changed", "Restore that file"} {
					if err == nil || !strings.Contains(err.Error(), word) {
						t.Errorf("it does not say %q: %v", word, err)
					}
				}
			} else {
				w.start()
				if got := w.volumes(); len(got) != 1 || got[0] != well {
					t.Errorf("it serves %q", got)
				}
				if got := w.snapshots(); len(got) != 1 || got[0] != snap {
					t.Errorf("it has the snapshots %q", got)
				}
				w.stop()
				if !strings.Contains(said.String(), c.path) || !strings.Contains(said.String(), "left alone") {
					t.Errorf("it said:\n%s", said.String())
				}
			}
			if err := os.WriteFile(c.path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			w.start()
			if got := w.volumes(); len(got) != 2 {
				t.Errorf("with the file put back it serves %q", got)
			}
			w.stop()
		})
	}
	found, bad := datadir.Check(w.cfg.DataDir, w.cfg.Identity)
	if len(bad) > 0 || found != (datadir.Found{Volumes: 2, Snapshots: 1}) {
		t.Errorf("of a whole directory the check found %+v, %v", found, bad)
	}
	w.cfg.Log = testLog()
	w.start()
	w.dropSnap(snap)
	w.remove(hurt)
	w.remove(well)
}

func anotherKey(b []byte) []byte { return bytes.Replace(b, []byte(`"key": "`), []byte(`"key": "0`), 1) }
