package hostfs

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestASocketIsDialledByNoLink: given a socket, and links, a file, a FIFO and a directory in its place, then the socket
// itself is connected to, and nothing else.
func TestASocketIsDialledByNoLink(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	l, err := net.Listen("unix", at("real"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, err := range []error{os.Symlink("real", at("link")), os.WriteFile(at("file"), nil, 0o600),
		unix.Mkfifo(at("fifo"), 0o600), os.Mkdir(at("dir"), 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := DialSocket(t.Context(), at("real"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"link", "file", "fifo", "dir", "nothing"} {
		if c, err := DialSocket(t.Context(), at(name)); err == nil || !strings.Contains(err.Error(), at(name)) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}
