package spawn

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/shimproto"
)

// Given a directory that root alone may enter, in which two parts lie and a file system is mounted on each, when a
// child of another user reaches one part, then it sees that with what is mounted in it, and neither the other part nor
// a copy of the mount on it.
func TestAChildReachesItsPartOfADirectoryAlone(t *testing.T) {
	n := newNursery(t)
	dir, err := os.MkdirTemp("/tmp", "reach") // 0700
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	own, other := filepath.Join(dir, "parts/own"), filepath.Join(dir, "parts/of another")
	for _, part := range []string{own, other} {
		secrets := filepath.Join(part, "secrets")
		if err := os.MkdirAll(secrets, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", secrets, "tmpfs", 0, "mode=0755,size=64k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(secrets, 0); err != nil {
				t.Error(err)
			}
		})
		if err := os.WriteFile(filepath.Join(secrets, "f"), []byte("of "+filepath.Base(part)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, out, err := n.start(Spec{
		Argv: []string{"/bin/sh", "-c", "cat secrets/f; echo; ls " + dir + "/parts; ls -A ..; " +
			"grep -c 'of.040another' /proc/self/mountinfo; touch " + dir + "/x 2>/dev/null || echo refused"},
		Env:   []string{"PATH=/usr/bin:/bin"},
		Dir:   own,
		User:  &shimproto.User{UID: 65534, GID: 65534},
		Reach: &shimproto.Reach{Dir: dir, Own: own},
	})
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if want := "of own\nown\nown\n0\nrefused\n"; string(said) != want {
		t.Errorf("it says %q, want %q", said, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); !os.IsNotExist(err) {
		t.Errorf("it wrote into the directory: %v", err)
	}
	for _, wrong := range []string{dir, filepath.Dir(dir), dir + "x"} {
		_, _, err := n.start(Spec{Argv: []string{"/bin/true"}, Dir: "/", Reach: &shimproto.Reach{Dir: dir, Own: wrong}})
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s as a part of %s: %v", wrong, dir, err)
		}
	}
}
