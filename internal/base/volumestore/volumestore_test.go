package volumestore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Given the copy of a directory's identity, when that directory is judged, then it passes; nothing, or another one, in
// its place is refused with both ways out, and left as it is; a directory that is damaged is not judged.
func TestAnotherDirectoryThanThatOfTheCopyIsRefused(t *testing.T) {
	const a, b = `{"instance":"a"}`, `{"instance":"b"}`
	for name, c := range map[string]struct {
		copied, place, beside string
		says                  string // empty: it passes
	}{
		"a new one":             {},
		"the same":              {copied: a, place: a},
		"before there was one":  {place: a},
		"an empty one":          {copied: a, says: "this node's volumes are in instance a"},
		"another":               {copied: a, place: b, says: "is of instance b"},
		"a damaged identity":    {copied: a, place: `{`},
		"none, beside volumes":  {copied: a, beside: "volumes/x/meta.json"},
		"none, by snapshots":    {copied: a, beside: "snapshots/x/meta.json"},
		"none, beside the rest": {copied: a, beside: "usage/x.json", says: "is empty"},
		"a damaged copy":        {copied: `{`, place: a, says: "look whether that is the one of this node"},
		"a copy of nothing":     {copied: `{}`, place: a, says: "names no instance"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "volumes")
			for path, text := range map[string]string{
				Copy(dir): c.copied, filepath.Join(dir, IdentityFile): c.place, filepath.Join(dir, c.beside): c.beside,
			} {
				if text != "" {
					write(t, path, text)
				}
			}
			err := Judge(dir, Copy(dir))
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), Copy(dir)) {
				t.Fatalf("it does not say %q: %v", c.says, err)
			}
			if fault.Has(err, fault.Conflict) && !strings.Contains(err.Error(), "mount it on "+dir) {
				t.Errorf("it does not say what to mount: %v", err)
			}
			if err := os.Remove(Copy(dir)); err != nil {
				t.Fatal(err)
			}
			if err := Judge(dir, Copy(dir)); err != nil {
				t.Errorf("declared lost: %v", err)
			}
		})
	}
}

// TestACopyIsWrittenOnce: one that is there is that of the node's own, whatever lies there.
func TestACopyIsWrittenOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volumes")
	write(t, filepath.Join(dir, IdentityFile), `{"instance":"a"}`)
	for _, id := range []string{"a", "b"} {
		if err := Keep(Copy(dir), Identity{Schema: 1, Node: "n", Instance: id}); err != nil {
			t.Fatal(err)
		}
	}
	if o, err := read(Copy(dir)); err != nil || o.Identity != (Identity{Schema: 1, Node: "n", Instance: "a"}) {
		t.Errorf("the copy is %+v: %v", o, err)
	}
	if err := Keep("", Identity{Instance: "a"}); err != nil {
		t.Error(err)
	}
}

// Given a directory that nobody has begun, of which nothing outside of it tells, when an agent asks, then no plugin
// begins it before the servers have answered, and then only if they know no volume of the node; as long as they know
// some, each start asks again, the right one passes, and who gives them up has it begun.
func TestADirectoryThatNobodyHasBegunIsDecidedByTheServers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volumes")
	ask := func(want bool) {
		t.Helper()
		if asks, err := Ask(dir); err != nil || asks != want {
			t.Fatalf("it asks: %t, %v", asks, err)
		}
	}
	refused := func(says string) {
		t.Helper()
		if err := Judge(dir, Copy(dir)); err == nil || !strings.Contains(err.Error(), says) {
			t.Fatalf("it does not say %q: %v", says, err)
		}
	}
	answer := func(volumes ...string) {
		t.Helper()
		if err := Answer(dir, volumes); err != nil {
			t.Fatal(err)
		}
	}
	passes := func() {
		t.Helper()
		if err := Judge(dir, Copy(dir)); err != nil {
			t.Fatal(err)
		}
	}
	ask(true)
	refused("the servers have not yet told")
	answer()
	passes()
	ask(true)
	answer("default/a", "default/b")
	refused("the servers know volumes of this node: default/a, default/b")
	refused("mount it on " + dir)
	refused("berth operator forget-volumes " + filepath.Dir(dir))
	ask(true)
	refused("default/a") // until they answer anew
	write(t, filepath.Join(dir, VolumesDir, "x", "meta.json"), "{}")
	passes()
	ask(false)
	if err := os.RemoveAll(filepath.Join(dir, VolumesDir)); err != nil {
		t.Fatal(err)
	}
	if err := Forget(dir); err != nil {
		t.Fatal(err)
	}
	ask(false)
	answer("default/a")
	passes()
	if err := Keep(Copy(dir), Identity{Instance: "a"}); err != nil {
		t.Fatal(err)
	}
	ask(false)
	answer("default/a")
	refused("it is empty, and this node's volumes are in instance a")
	if got := Names(strings.Split("abcdefghijk", "")); got != "a, b, c, d, e, f, g, h and 3 more" {
		t.Errorf("a sentence names %s", got)
	}
}
