package raftlog

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Given a log that was made for all to read, by a version before, when it runs on, with another segment and a snapshot,
// then others can use no file of it, and no directory.
func TestTheLogIsItsOwnersAlone(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), SegmentSize: 4 << 10}
	if err := start(t, cfg, &adder{}).stop(); err != nil {
		t.Fatal(err)
	}
	each := func(do func(path string, st fs.FileInfo)) {
		t.Helper()
		err := filepath.WalkDir(cfg.Dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			st, err := e.Info()
			if err == nil && path != cfg.Dir {
				do(path, st)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	each(func(path string, st fs.FileInfo) {
		if err := os.Chmod(path, st.Mode().Perm()|0o055); err != nil {
			t.Fatal(err)
		}
	})
	log := start(t, cfg, &adder{})
	for range 200 {
		if _, _, err := log.Apply(t.Context(), number(1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := log.stop(); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	each(func(path string, st fs.FileInfo) {
		kinds[filepath.Ext(path)]++
		if st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, st.Mode())
		}
	})
	if kinds[".wal"] < 2 || kinds[".db"] != 1 || kinds[".bin"] == 0 || kinds[".json"] == 0 {
		t.Errorf("there were %v", kinds)
	}
}
