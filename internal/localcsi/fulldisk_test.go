package localcsi

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhatIsSyncedOnAFullDiskStays: given a disk that is full, so that the image of a volume cannot grow, when its user
// goes on after each error as the disk has something free again, then every line that was synced after the first error
// is there when the volume is staged anew, and all before. One line may be lost, the last before the first error: the
// kernel's loop driver reports a write as done of which the disk took a part.
func TestWhatIsSyncedOnAFullDiskStays(t *testing.T) {
	t.Parallel()
	t.Run("ext4", func(t *testing.T) { syncedOnAFullDisk(t, "ext4", 32*mib, "size=40m") })
	t.Run("xfs", func(t *testing.T) { syncedOnAFullDisk(t, "xfs", 300*mib, "size=400m") })
}

func syncedOnAFullDisk(t *testing.T, kind string, capacity int64, free string) {
	needRoot(t)
	disk := filepath.Join(t.TempDir(), "disk")
	must(t, 0, os.Mkdir(disk, 0o700))
	must(t, 0, unix.Mount("tmpfs", disk, "tmpfs", 0, free))
	t.Cleanup(func() { must(t, 0, unix.Unmount(disk, unix.MNT_DETACH)) }) // the plugin ends after this
	w := newWorld(t, filepath.Join(disk, "data"), nil)
	c := mountCap(kind, single)
	id := w.create(createReq("db", capacity, c))
	at := w.use(id, "a", c, false)
	acked := appendSynced(t, filepath.Join(at, "log"), 0, 1200) // the journal has gone round, too

	ballast := must2(os.Create(filepath.Join(disk, "ballast")))(t)
	defer ballast.Close()
	var fs unix.Statfs_t
	must(t, 0, unix.Statfs(disk, &fs))
	size := int64(fs.Bavail) * fs.Bsize
	must(t, 0, unix.Fallocate(int(ballast.Fd()), 0, 0, size))
	brink := 0
	for i := range 4 {
		acked = append(acked, appendSynced(t, filepath.Join(at, "log"), 10_000*(i+1), 400)...)
		if i == 0 {
			brink = acked[len(acked)-1]
		}
		size -= 64 << 10
		must(t, 0, ballast.Truncate(size))
	}
	must(t, 0, ballast.Truncate(0))
	w.unpublish(id, "a")
	w.unstage(id)
	at = w.use(id, "a", c, false)
	found := linesOf(t, filepath.Join(at, "log"))
	var lost []int
	for _, n := range acked {
		if n != brink && !slices.Contains(found, n) {
			lost = append(lost, n)
		}
	}
	if len(acked) < 1200 || len(lost) > 0 {
		t.Errorf("of %d lines that were synced, these are lost: %v", len(acked), lost)
	}
	w.release(id, "a")
}

// filler makes a line about as long as a page, so that each takes a block of its own and part of another's.
var filler = bytes.Repeat([]byte("x"), 4000)

// appendSynced appends so many lines to a file, and returns those whose sync succeeded, until the first that fails.
func appendSynced(t *testing.T, path string, after, count int) (acked []int) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if errors.Is(err, unix.EROFS) {
		return nil // the file system has given up
	}
	must(t, 0, err)
	defer f.Close()
	for n := after + 1; n <= after+count; n++ {
		if _, err := fmt.Fprintf(f, "%08d %s\n", n, filler); err != nil {
			return acked
		}
		if err := f.Sync(); err != nil {
			return acked
		}
		acked = append(acked, n)
	}
	return acked
}

// linesOf lists the lines of a file that are whole.
func linesOf(t *testing.T, path string) (whole []int) {
	for line := range bytes.Lines(must2(os.ReadFile(path))(t)) {
		number, text, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		if n, err := strconv.Atoi(string(number)); err == nil && bytes.Equal(text, filler) {
			whole = append(whole, n)
		}
	}
	return whole
}
