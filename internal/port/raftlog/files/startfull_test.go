package files

import (
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"golang.org/x/sys/unix"
)

// smallDisk is a log on a file system of its own, with what fills that up to so many bytes.
type smallDisk struct {
	t    *testing.T
	dir  string // of the log
	last uint64 // entry that was stored
	wal  *wal.WAL
	next *NextSegment
	stop chan struct{}
}

func onSmallDisk(t *testing.T) *smallDisk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a small file system is mounted, which takes root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d := &smallDisk{t: t, dir: filepath.Join(dir, "log")}
	if err := d.open(); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *smallDisk) open() (err error) {
	d.stop = make(chan struct{})
	d.next = AwaitNextSegment(d.stop)
	log := slog.New(slog.DiscardHandler)
	d.wal, err = OpenWAL(Options{Dir: d.dir, SegmentSize: 1 << 20, Log: log, Next: d.next})
	return err
}

func (d *smallDisk) close() {
	d.t.Helper()
	close(d.stop)
	if err := d.wal.Close(); err != nil {
		d.t.Fatal(err)
	}
}

// store stores an entry, if there is room for it.
func (d *smallDisk) store() error {
	err := d.next.Wait()
	if err == nil {
		e := &raft.Log{Index: d.last + 1, Term: 1, Data: make([]byte, 64<<10)}
		Seal(e)
		err = d.wal.StoreLog(e)
	}
	if err == nil {
		d.last++
	}
	return err
}

// fills leaves so many bytes on the disk, until free is called.
func (d *smallDisk) fills(left int64) (free func()) {
	d.t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		d.t.Fatal(err)
	}
	ballast := filepath.Join(d.dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, int64(st.Bavail)*st.Bsize-left), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return func() {
		if err := os.Remove(ballast); err != nil {
			d.t.Fatal(err)
		}
	}
}

// opensFull opens the log on the full disk: it can be read, and takes nothing. With room again it goes on, and is
// whole.
func (d *smallDisk) opensFull(free func()) {
	d.t.Helper()
	if err := d.open(); err != nil {
		d.t.Fatalf("on a full disk: %v", err)
	}
	for range 2 {
		if err := d.store(); !IsFull(err) {
			d.t.Fatalf("on a full disk an entry is answered %v", err)
		}
	}
	if got, err := d.wal.LastIndex(); err != nil || got != d.last {
		d.t.Errorf("the log ends with %d, not %d: %v", got, d.last, err)
	}
	var e raft.Log
	if err := d.wal.GetLog(d.last, &e); err != nil || Sound(&e) != nil {
		d.t.Errorf("its last entry: %v", err)
	}
	d.close() // and once more, as what restarts it does
	if err := d.open(); err != nil {
		d.t.Fatalf("the second time: %v", err)
	}
	free()
	for end := time.Now().Add(30 * time.Second); d.store() != nil; {
		if time.Now().After(end) {
			d.t.Fatal("with room again nothing is taken")
		}
	}
	d.endsWhole() // before another segment is listed
	if err := d.open(); err != nil {
		d.t.Fatal(err)
	}
	for range 20 { // into the segment after that
		if err := d.store(); err != nil {
			d.t.Fatal(err)
		}
	}
	d.endsWhole()
}

// endsWhole closes the log, which has all that was stored.
func (d *smallDisk) endsWhole() {
	d.t.Helper()
	d.close()
	if found, err := Check(d.dir); err != nil || found.Last != d.last {
		d.t.Errorf("the log ends with %d, not %d: %v", found.Last, d.last, err)
	}
}

// TestALogWhoseNextSegmentWasNotMadeOpensOnAFullDisk: given a log whose next segment is listed and was not made,
// because the disk was full when its server ended, when that is started on the full disk, then the log opens.
func TestALogWhoseNextSegmentWasNotMadeOpensOnAFullDisk(t *testing.T) {
	d := onSmallDisk(t)
	free := d.fills(700 << 10)
	var err error
	for err == nil {
		err = d.store()
	}
	if !IsFull(err) || d.last == 0 {
		t.Fatalf("entry %d is answered %v", d.last+1, err)
	}
	d.close()
	list := &metadb.BoltMetaDB{}
	listed, err := list.Load(WALDir(d.dir))
	if err != nil || list.Close() != nil || len(listed.Segments) != 2 || TailOf(d.dir) != 1 {
		t.Fatalf("%d segments are listed (%v), and the last that is there begins with %d", len(listed.Segments), err,
			TailOf(d.dir))
	}
	d.opensFull(free)
}

// TestALogWhoseNextSegmentIsNotListedOpensOnAFullDisk: given a log whose last segment is full, and not noted as full,
// for its server was killed, when that is started on a disk on which not even that can be noted, then the log opens.
func TestALogWhoseNextSegmentIsNotListedOpensOnAFullDisk(t *testing.T) {
	d := onSmallDisk(t)
	list := filepath.Join(WALDir(d.dir), MetaFile)
	before, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	for base := TailOf(d.dir); TailOf(d.dir) == base; {
		// To drop nothing waits until a segment that is full was followed by another.
		if err := d.store(); err != nil || d.wal.DeleteRange(0, 0) != nil {
			t.Fatal(err)
		}
	}
	d.close()
	made, err := filepath.Glob(filepath.Join(WALDir(d.dir), "*.wal"))
	if err != nil || len(made) != 2 {
		t.Fatal(made, err)
	}
	if err := os.Remove(made[1]); err != nil {
		t.Fatal(err)
	}
	bare(t, list, before)
	free := d.fills(0)
	if _, err := finishRotation(WALDir(d.dir)); !IsFull(err) {
		t.Fatalf("to note it is answered %v", err)
	}
	d.opensFull(free)
}

// TestALogThatWasOpenedOnAFullDiskGoesOn: given a log that was opened on a full disk, when there is room again, then it
// stores entries from segment to segment, and reads them, without being opened anew.
func TestALogThatWasOpenedOnAFullDiskGoesOn(t *testing.T) {
	d := onSmallDisk(t)
	free := d.fills(700 << 10)
	for d.store() == nil {
	}
	d.close()
	if err := d.open(); err != nil {
		t.Fatal(err)
	}
	full := d.last
	free()
	for end := time.Now().Add(30 * time.Second); d.last < full+40; {
		if err := d.store(); err != nil && time.Now().After(end) {
			t.Fatalf("with room again entry %d is answered %v", d.last+1, err)
		}
		if got, err := d.wal.LastIndex(); err != nil || got != d.last {
			t.Fatalf("the log ends with %d, not %d: %v", got, d.last, err)
		}
		var e raft.Log
		if err := d.wal.GetLog(d.last, &e); err != nil || Sound(&e) != nil || e.Index != d.last {
			t.Fatalf("entry %d is read as %d: %v", d.last, e.Index, err)
		}
	}
	d.endsWhole()
}

// bare writes the library's list without the blocks of its free pages: to change it takes room on the disk. The form is
// that of bbolt: two pages that say where all begins, of which the one with the later transaction counts, and a list of
// the pages that are free.
func bare(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	const page, head = 4096, 16
	meta := data[head:]
	if other := data[page+head:]; binary.LittleEndian.Uint64(other[48:]) > binary.LittleEndian.Uint64(meta[48:]) {
		meta = other
	}
	free := data[binary.LittleEndian.Uint64(meta[32:])*page:]
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	punch := func(from, size uint64) {
		mode := uint32(unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE)
		if err := unix.Fallocate(int(f.Fd()), mode, int64(from), int64(size)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range int(binary.LittleEndian.Uint16(free[10:])) {
		punch(binary.LittleEndian.Uint64(free[head+8*n:])*page, page)
	}
	if used := binary.LittleEndian.Uint64(meta[40:]) * page; used < uint64(len(data)) {
		punch(used, uint64(len(data))-used)
	}
}
