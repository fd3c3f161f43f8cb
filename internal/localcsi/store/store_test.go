package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/durable"
	"berth/internal/testkit/powerloss"
)

// collection is one in a directory of the test.
type collection struct {
	*Collection[*Volume]
	dir string
}

func newCollection(t *testing.T, dir string) *collection {
	t.Helper()
	s := &collection{dir: dir}
	for _, d := range []string{"volumes", "trash", "making"} {
		if err := os.Mkdir(s.path(d), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	s.Collection = NewCollection[*Volume](s.path("volumes"), s.path("trash"))
	return s
}

func (s *collection) path(more ...string) string {
	return filepath.Join(append([]string{s.dir}, more...)...)
}

// make makes the directory of a volume as a caller of Add does.
func (s *collection) make(t *testing.T, key string) string {
	t.Helper()
	made := s.path("making", key)
	if err := errors.Join(os.Mkdir(made, 0o700), os.WriteFile(filepath.Join(made, ImageFile), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return made
}

// Given records that are made, changed and removed, when the power fails at any moment, then each change that was
// answered is there, the one on its way is there or not, and every record can be read.
func TestAPowerLossTakesNoRecord(t *testing.T) {
	d := powerloss.Mount(t, powerloss.Config{Cuts: 60})
	s := newCollection(t, d.Dir)
	if err := durable.SyncDir(d.Dir); err != nil {
		t.Fatal(err)
	}
	d.Ack()
	key := NewKey()
	v := &Volume{Schema: Schema, Key: key, Name: "n", FS: "first"}
	states := []string{"", "first", "second", ""}
	for round := range 6 {
		for _, change := range []func() error{
			func() error { return s.Add(s.make(t, key), v) },
			func() error { next := *v; next.FS = "second"; return s.Update(&next) },
			func() error { return s.Remove(key) },
		} {
			if err := change(); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			d.Ack()
		}
	}
	d.Each(func(t *testing.T, c powerloss.Cut, dir string) {
		s := newCollection(t, dir)
		if err := s.Load(func(path string, err error) { t.Errorf("%s: %v", path, err) }); err != nil {
			t.Fatal(err)
		}
		got := ""
		if v, ok := s.Get(key); ok {
			got = v.FS
		}
		step := max(0, c.Acked-1) % 3
		if got != states[step] && got != states[step+1] {
			t.Errorf("the record is %q, neither %q nor %q", got, states[step], states[step+1])
		}
	})
}

// TestARecordThatMakesNoSenseIsLeftAlone: and the others are read.
func TestARecordThatMakesNoSenseIsLeftAlone(t *testing.T) {
	good := NewKey()
	s := newCollection(t, t.TempDir())
	put := func(dir, text string, image func(string) error) {
		t.Helper()
		path := s.path("volumes", dir)
		if err := errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, MetaFile), []byte(text), 0o600),
			image(filepath.Join(path, ImageFile))); err != nil {
			t.Fatal(err)
		}
	}
	file := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	text := func(key, more string) string { return `{"schema": 1, "key": "` + key + `"` + more + `}` }
	put(good, text(good, ""), file)
	bad := map[string]string{}
	for what, more := range map[string]string{"a field of a later version": `, "later": 1`, "cut off": `, "fs": "ex`} {
		key := NewKey()
		bad[key] = what
		put(key, text(key, more), file)
	}
	another := func(what string) string {
		key := NewKey()
		bad[key] = what
		return key
	}
	put(another("the record of another"), text(good, ""), file)
	later := another("another schema")
	put(later, strings.Replace(text(later, ""), "1", "2", 1), file)
	link := another("a linked image")
	put(link, text(link, ""), func(path string) error { return os.Symlink("/dev/null", path) })
	dir := another("a directory for an image")
	put(dir, text(dir, ""), func(path string) error { return os.Mkdir(path, 0o700) })
	left := map[string]bool{}
	if err := s.Load(func(path string, _ error) { left[filepath.Base(filepath.Dir(path))] = true }); err != nil {
		t.Fatal(err)
	}
	for key, what := range bad {
		if _, read := s.Get(key); read || !left[key] {
			t.Errorf("%s: it was read: %v, and reported: %v", what, read, left[key])
		}
		if _, err := os.Stat(s.path("volumes", key)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, read := s.Get(good); !read || len(s.All()) != 1 {
		t.Errorf("a good record was not read, or others were: %d", len(s.All()))
	}
}

// TestRemoveFlatDescendsNowhere: what may be a mount is never emptied.
func TestRemoveFlatDescendsNowhere(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "gone", "mounted", "data")
	if err := errors.Join(os.MkdirAll(filepath.Dir(inner), 0o700), os.WriteFile(inner, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := RemoveFlat(filepath.Join(dir, "gone")); err == nil {
		t.Error("a directory with contents is no error")
	}
	if _, err := os.Stat(inner); err != nil {
		t.Error(err)
	}
}

// TestNotesOfUse: they count for the boot that they were written in, and nobody changes them but by Put.
func TestNotesOfUse(t *testing.T) {
	dir, key := t.TempDir(), NewKey()
	s := NewUsages(dir, "boot-1")
	if err := s.Put(key, Usage{Staging: &Staging{Path: "/s"}, Targets: map[string]Target{"/t": {}}}); err != nil {
		t.Fatal(err)
	}
	own := s.Get(key)
	own.Targets["/other"], own.Staging.Path = Target{}, "/other"
	if now := s.Get(key); len(now.Targets) != 1 || now.Staging.Path != "/s" {
		t.Errorf("a copy was changed, and the note is %+v", now)
	}
	for _, boot := range []string{"boot-1", "boot-2"} { // the second drops the note
		kept := boot == "boot-1"
		again := NewUsages(dir, boot)
		if err := again.Load(func(path string, err error) { t.Errorf("%s: %v", path, err) }); err != nil {
			t.Fatal(err)
		}
		if got := again.Get(key); (got.Staging != nil) != kept {
			t.Errorf("after %s: %+v", boot, got)
		}
	}
}

// Given notes on a disk that is full, when one is to say less, then it does, and what is on the disk is that of before:
// the mount table does not agree with it; a note that is to say more is refused, and once there is room, written.
func TestAReleaseWorksOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a small file system is mounted, which takes root")
	}
	dir, key := t.TempDir(), NewKey()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { must(unix.Unmount(dir, 0)) })
	s := NewUsages(dir, "boot-1")
	must(s.Put(key, Usage{Targets: map[string]Target{"/a": {}, "/b": {}}}))
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	less := s.Get(key)
	delete(less.Targets, "/b")
	must(s.Release(key, less))
	if now := s.Get(key); len(now.Targets) != 1 {
		t.Errorf("the note is %+v", now)
	}
	more := s.Get(key)
	more.Targets["/c"] = Target{}
	if err := s.Put(key, more); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a note that says more: %v", err)
	}
	if now := s.Get(key); len(now.Targets) != 1 {
		t.Errorf("after a refusal the note is %+v", now)
	}
	must(os.Remove(filler))
	must(s.Release(key, more))
	var kept Usage
	must(ReadJSON(filepath.Join(dir, key+".json"), &kept))
	if _, there := kept.Targets["/c"]; !there || len(kept.Targets) != 2 {
		t.Errorf("with room it is written as %+v", kept)
	}
}
