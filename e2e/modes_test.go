package e2e

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatBerthKeepsIsItsOwnersAlone: given a data directory that was lived in, by servers, node, key and plugin,
// with a volume in use, a snapshot of it and one of the state, then others can neither read nor write any file of it,
// but what belongs to tasks.
func TestWhatBerthKeepsIsItsOwnersAlone(t *testing.T) {
	m, db, _ := settled(t)
	m.must("volume", "snapshot", "create", "data", "cut")
	file := filepath.Join(m.root, "saved")
	m.must("operator", "snapshot", "save", file)
	m.must("operator", "snapshot", "restore", "-yes", file) // which writes a snapshot of the log
	m.healed()
	seen := map[string]int{}
	must(t, filepath.WalkDir(m.data, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(m.data, path)
		must(t, err)
		top, _, _ := strings.Cut(rel, "/")
		switch {
		case rel == "alloc", top == "csi" && len(filepath.Base(filepath.Dir(rel))) == 1 && rel != top && e.IsDir():
			return fs.SkipDir // of tasks: their directories, and what is mounted for them
		case e.IsDir() || !e.Type().IsRegular():
			return nil
		}
		info, err := e.Info()
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", rel, info.Mode())
		}
		seen[top]++
		return nil
	}))
	for _, top := range []string{"client", "client.identity", "csi", "lock", "run", "server", "volumes"} {
		if seen[top] == 0 {
			t.Errorf("no file of %s was looked at: %v", top, seen)
		}
	}
	m.lives(db, 0)
	m.stopJob("db")
	m.stopJob("plain")
	m.free("data")
}
