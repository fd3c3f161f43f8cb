package hostfs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// watching runs a watcher until the test ends.
func watching(t *testing.T, w *Directories) *Directories {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

func changedIn(t *testing.T, o *Watch, what string) {
	t.Helper()
	select {
	case <-o.Changed():
	case <-time.After(30 * time.Second):
		t.Fatalf("%s was not noticed", what)
	}
}

func write(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// instances counts the inotify instances of this process.
func instances(t *testing.T) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(to, "inotify") {
			n++
		}
	}
	return n
}

// Given more who ask than the kernel gives instances of inotify, when something changes, then each hears of its own
// directory, and one instance serves them all.
func TestOneInstanceServesAllWhoAsk(t *testing.T) {
	before := instances(t)
	w := watching(t, NewDirectories(nil))
	base := t.TempDir()
	var all []*Watch
	for i := range 300 {
		dir := filepath.Join(base, fmt.Sprint(i/2)) // two ask about each
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		all = append(all, w.Watch(dir))
	}
	for i, o := range all {
		if i%2 == 0 {
			write(t, filepath.Join(base, fmt.Sprint(i/2)), "file")
		}
		changedIn(t, o, fmt.Sprintf("a file in directory %d", i/2))
	}
	if got := instances(t) - before; got != 1 {
		t.Errorf("%d instances serve them", got)
	}
	for _, o := range all {
		o.Close()
	}
	if len(w.dirs) > 0 || len(w.ids) > 0 {
		t.Errorf("when nobody asks any more, %d directories and %d watches are left", len(w.dirs), len(w.ids))
	}
}

// Given a directory that is removed and made again while somebody asks about it, then what appears in it is noticed.
func TestADirectoryThatComesBackIsWatched(t *testing.T) {
	w := watching(t, NewDirectories(nil))
	dir := filepath.Join(t.TempDir(), "d")
	o := w.Watch(dir)
	defer o.Close()
	for range 2 {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, dir, "file")
		changedIn(t, o, "a file in a new directory")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		changedIn(t, o, "the directory's end")
	}
}

// Given a user who has no instance of inotify left, when something changes, then it is noticed all the same, and
// nothing ends for the want of it.
func TestWithoutAnInstanceDirectoriesAreLookedAt(t *testing.T) {
	w := NewDirectories(nil)
	w.open = func() (int, error) { return -1, unix.EMFILE }
	watching(t, w)
	dir := t.TempDir()
	o := w.Watch(dir)
	defer o.Close()
	changedIn(t, o, "the first look")
	write(t, dir, "file")
	changedIn(t, o, "a file")
}
