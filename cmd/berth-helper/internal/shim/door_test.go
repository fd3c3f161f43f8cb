package shim

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func bound(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err == nil {
		err = unix.Listen(fd, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// Given a socket, when another file is in its place, or none, then it is made anew on a call; as long as it is itself
// it stays, what is no socket is left alone, and a closed door stays closed.
func TestADoorIsRenewedWhereItWasReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	d, err := newDoor(path, bound(t, path))
	if err != nil {
		t.Fatal(err)
	}
	reached := func(want bool) {
		t.Helper()
		c, err := net.Dial("unix", path)
		if (err == nil) != want {
			t.Errorf("reached: %v, want %v", err, want)
		}
		if c != nil {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	renew := func(fails bool) {
		t.Helper()
		if err := d.renew(); (err != nil) != fails {
			t.Errorf("renewed: %v", err)
		}
	}
	first := d.open()
	if renew(false); d.open() != first {
		t.Error("a socket in its place was made anew")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(bound(t, path)); err != nil {
		t.Fatal(err)
	}
	reached(false)
	renew(false)
	reached(true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	renew(false)
	reached(true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("of somebody else"), 0o600); err != nil {
		t.Fatal(err)
	}
	renew(true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	d.close()
	renew(false)
	if _, err := os.Stat(path); err == nil || d.open() != nil {
		t.Error("a closed door was opened")
	}
}
