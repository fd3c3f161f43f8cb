package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/testkit/powerloss"
)

// Given a directory that was made with its parents, when the power fails, then it is there, as is a file in it whose
// directory was synced.
func TestADirectorySurvivesWithItsParents(t *testing.T) {
	d := powerloss.Mount(t, powerloss.Config{})
	path := filepath.Join("a", "b", "c")
	make := func(path string) {
		if err := MakeDir(filepath.Join(d.Dir, path), 0o711); err != nil {
			t.Fatal(err)
		}
	}
	// Somebody was killed before he had synced what he made.
	if err := os.Mkdir(filepath.Join(d.Dir, "a"), 0o711); err != nil {
		t.Fatal(err)
	}
	make("a")
	make(path)
	make(path)
	d.Ack()
	f, err := os.Create(filepath.Join(d.Dir, path, "file"))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := SyncDir(filepath.Join(d.Dir, path)); err != nil {
		t.Fatal(err)
	}
	d.Ack()
	d.Each(func(t *testing.T, c powerloss.Cut, dir string) {
		if st, err := os.Stat(filepath.Join(dir, path)); c.Acked > 0 && (err != nil || st.Mode().Perm() != 0o711) {
			t.Errorf("the directory: %v, %v", st, err)
		}
		if _, err := os.Stat(filepath.Join(dir, path, "file")); c.Acked > 1 && err != nil {
			t.Error(err)
		}
	})
}

func TestWhatIsNoDirectoryIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, filepath.Join(path, "below")} {
		if err := MakeDir(p, 0o700); err == nil {
			t.Errorf("%s was made", p)
		}
	}
	if err := SyncDir(filepath.Join(path, "none")); err == nil {
		t.Error("what is not there was synced")
	}
}

// Given a file that is written again and again, when the power fails at any moment, then the file is one of those that
// were written, whole: the last that was answered, or the next.
func TestAFileSurvivesWhole(t *testing.T) {
	d := powerloss.Mount(t, powerloss.Config{})
	const writes = 5
	content := func(n int) string { return strings.Repeat(fmt.Sprint(n), 5000+n) }
	for n := range writes {
		if err := WriteFile(filepath.Join(d.Dir, "file"), []byte(content(n+1)), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Ack()
	}
	d.Each(func(t *testing.T, c powerloss.Cut, dir string) {
		got, err := os.ReadFile(filepath.Join(dir, "file"))
		if errors.Is(err, fs.ErrNotExist) && c.Acked == 0 {
			return
		}
		if err != nil || string(got) != content(c.Acked) && string(got) != content(c.Acked+1) {
			t.Errorf("%d bytes: %.20q, %v", len(got), got, err)
		}
	})
}
