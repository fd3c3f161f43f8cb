package audit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// small is a disk of 8 MiB.
func small(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil { // the record is closed after this
			t.Error(err)
		}
	})
	return dir
}

// fill takes all that a disk has, to the last byte.
func fill(t *testing.T, dir string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if cerr := f.Close(); cerr != nil || !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err, cerr)
	}
	return ballast
}

// Given a disk that others have filled to the last byte, when the record goes on, then it has as many lines as its
// reserve takes, also beyond the size of a file; what comes after them is refused, and said; when the disk has space
// again, so has the record, nothing is missing, and the full file is kept.
func TestARecordGoesOnOnAFullDisk(t *testing.T) {
	dir := small(t)
	path := filepath.Join(dir, "audit.log")
	var said bytes.Buffer
	const most = 256 << 10
	l, err := Open(Config{Path: path, MaxBytes: most, Files: 2}, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := 0
	for ; l.size < most*9/10; n++ { // so that the file is full before its reserve is
		say(t, l, fmt.Sprint(n))
	}
	ballast := fill(t, dir)
	before := l.size
	for ; err == nil && n < 1e6; n++ {
		err = l.write(&Line{Object: fmt.Sprint(n)})
	}
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "make room on its disk") {
		t.Fatalf("the last line of %d ends with %v", n, err)
	}
	if has := l.size - before; has < most/2 || has > 2*most {
		t.Errorf("on a full disk it has %d bytes of its own, want about %d", has, most)
	}
	if got := strings.Count(said.String(), "level=WARN"); got != 1 || !strings.Contains(said.String(), path) {
		t.Errorf("it is said %d times: %s", got, said.String())
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	say(t, l, "after")
	if got := objects(t, path); got != "after" {
		t.Errorf("the next file has %.200q", got)
	}
	full := strings.Fields(objects(t, path+".1"))
	if len(full) < n-1 || full[0] != "0" || full[n-2] != fmt.Sprint(n-2) {
		t.Errorf("of %d lines that were written %d are there", n-1, len(full))
	}
	var st unix.Stat_t
	if err := unix.Stat(path+".1", &st); err != nil || st.Blocks*512 > st.Size+4096 {
		t.Errorf("a full file of %d bytes holds %d (%v)", st.Size, st.Blocks*512, err)
	}
	fill(t, dir)
	say(t, l, "again")
}

// Given an agent that starts on a full disk, then its record is there, and it is said that it has no reserve.
func TestARecordIsOpenedOnAFullDisk(t *testing.T) {
	dir := small(t)
	ballast := fill(t, dir)
	var said bytes.Buffer
	l, err := Open(Config{Path: filepath.Join(dir, "audit.log"), MaxBytes: 1 << 20},
		slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !strings.Contains(said.String(), "has little or no space set aside") {
		t.Errorf("it says %q", said.String())
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	say(t, l, "first")
	fill(t, dir)
	say(t, l, "second")
}
