package pinned

import (
	"os"
	"path/filepath"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/port/dockerapi"
	"berth/internal/port/hostfs"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Given a directory that is held, when a link takes its place, then the mount leads to the directory; what an agent
// held that died is given back by the next, and what was held is untouched; and a link that is there is not followed.
func TestWhatIsHeldIsWhatWasLookedAt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	p := Places{Dir: filepath.Join(dir, "held")}
	shared, x := filepath.Join(dir, "shared"), filepath.Join(dir, "shared/x")
	write(t, filepath.Join(x, "word"), "inside")
	write(t, filepath.Join(dir, "out/word"), "outside")
	write(t, filepath.Join(shared, "file"), "a file")
	mounts := func() []dockerapi.Mount {
		return []dockerapi.Mount{
			{Type: "bind", Source: x},
			{Type: "bind", Source: filepath.Join(dir, "out")},
			{Type: "bind", Source: filepath.Join(shared, "file")},
			{Type: "bind", Source: shared},
		}
	}
	for range 2 { // the first is left as by an agent that died
		got := mounts()
		if _, err := p.Hold("a", shared, got); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.FreeAll() }) // also where the test fails
		if got[1].Source != filepath.Join(dir, "out") || got[3].Source != shared {
			t.Errorf("what others cannot move is held: %+v", got)
		}
		if err := os.Rename(x, x+".old"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(dir, "out"), x); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(got[0].Source, "word")); err != nil || string(text) != "inside" {
			t.Errorf("it leads to %q: %v", text, err)
		}
		if text, err := os.ReadFile(got[2].Source); err != nil || string(text) != "a file" {
			t.Errorf("a file is %q: %v", text, err)
		}
		if _, err := p.Hold("b", shared, mounts()); !fault.Has(err, fault.Invalid) {
			t.Errorf("a link: %v", err)
		}
		if err := os.Remove(x); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(x+".old", x); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.FreeAll(); err != nil {
		t.Fatal(err)
	}
	table, err := hostfs.ReadTableAnew()
	if err != nil {
		t.Fatal(err)
	}
	if left := table.Beneath(p.Dir); len(left) > 0 {
		t.Errorf("still mounted: %v", left)
	}
	if left, err := os.ReadDir(p.Dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if text, err := os.ReadFile(filepath.Join(x, "word")); err != nil || string(text) != "inside" {
		t.Errorf("what was held has %q: %v", text, err)
	}
}
