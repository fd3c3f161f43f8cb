package collect

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Given a FIFO in which something is left, when what reads it is to end, then it passes on what is left, and does not
// wait for more.
func TestWhatIsLeftIsReadAtTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("x"), 40_000)
	if _, err := f.Write(want); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := pass(&got, f); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes of %d: %v", got.Len(), len(want), err)
	}
}
