package blocktrace

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/localcsi/loop"
	"berth/internal/testkit/mountns"
)

func TestMain(m *testing.M) { mountns.Main(m.Run) }

const size = 64 << 20

// device is a loop device of 64 MiB, open for writes that wait until they are done.
func device(t *testing.T) (dev *os.File, major, minor uint32) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loop devices need root")
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		t.Fatal(err)
	}
	n, bound, err := loop.Attach(t.Context(), f, loop.Options{Autoclear: true, Label: "berth-test"})
	if err != nil {
		t.Fatal(err)
	}
	dev, err = os.OpenFile(loop.Path(n), os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(dev.Close(), bound.Close(), f.Close()); err != nil {
			t.Error(err)
		}
	})
	return dev, loop.Major, uint32(n)
}

func started(t *testing.T, major, minor uint32) *Trace {
	t.Helper()
	trace, err := Start(t.Context(), major, minor)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := trace.Close(); err != nil {
			t.Error(err)
		}
	})
	return trace
}

func write(t *testing.T, dev *os.File, block int64) {
	t.Helper()
	if _, err := dev.WriteAt(bytes.Repeat([]byte{1}, BlockSize), block*BlockSize); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, b *Blocks) (blocks []int64) {
	t.Helper()
	if err := b.Each(func(from, to int64) error {
		for ; from < to; from += BlockSize {
			blocks = append(blocks, from/BlockSize)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if b.Bytes() != int64(len(blocks))*BlockSize {
		t.Errorf("%d blocks are said to have %d bytes", len(blocks), b.Bytes())
	}
	return blocks
}

// Given writes and discards at random, beside reads and beside writes to another device, when the trace is asked, then
// it names the blocks that were written since it was asked last, and no others; the kernel's own count agrees.
func TestWhatIsWrittenIsKnown(t *testing.T) {
	dev, major, minor := device(t)
	other, _, _ := device(t)
	write(t, dev, 3) // before it begins
	trace := started(t, major, minor)
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var want []int64
		for range r.IntN(50) {
			n := r.Int64N(size / BlockSize)
			want = append(want, n)
			write(t, dev, n)
			write(t, other, n/2)
			if _, err := dev.ReadAt(make([]byte, 100), r.Int64N(size-100)); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(want)
		got, err := trace.TakeLast(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if blocks := list(t, got); !slices.Equal(blocks, slices.Compact(want)) {
			t.Fatalf("the blocks %v were written, the trace says %v", want, blocks)
		}
	}
	discard := [2]uint64{1 << 20, 64 << 10}
	if err := discardRange(dev, discard); err != nil {
		t.Fatal(err)
	}
	got, err := trace.TakeLast(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if blocks := list(t, got); len(blocks) != 16 || blocks[0] != 256 {
		t.Errorf("of a discard the trace says %v", blocks)
	}
}

// Given more writes than the kernel can record before somebody looks, when the trace is asked, then it refuses to
// answer, then and ever after.
func TestAGapIsSeen(t *testing.T) {
	dev, major, minor := device(t)
	trace := started(t, major, minor)
	trace.mu.Lock() // nobody looks
	full := func() bool {
		for _, r := range trace.rings {
			if r.waiting() > ringBytes-margin {
				return true
			}
		}
		return false
	}
	for n := int64(0); !full(); n++ {
		write(t, dev, n%1000)
	}
	trace.mu.Unlock()
	for range 2 {
		if _, err := trace.Take(); !errors.Is(err, ErrIncomplete) {
			t.Errorf("after a gap: %v", err)
		}
	}
}

// asked is a context that hears when somebody waits for its end.
type asked struct {
	context.Context
	hear func()
}

func (a asked) Done() <-chan struct{} { a.hear(); return a.Context.Done() }

// Given a discard that the kernel has not counted yet when the trace is asked for the last time, then it waits until
// records and count agree, and names what was written before and meanwhile.
func TestWhatIsOnItsWayIsWaitedFor(t *testing.T) {
	dev, major, minor := device(t)
	trace := started(t, major, minor)
	write(t, dev, 7)
	trace.began.sectors += 8 // as if
	counts := sync.OnceFunc(func() {
		write(t, dev, 9)
		trace.mu.Lock()
		defer trace.mu.Unlock()
		trace.began.sectors -= 8
	})
	got, err := trace.TakeLast(asked{t.Context(), counts})
	if err != nil {
		t.Fatal(err)
	}
	if blocks := list(t, got); !slices.Equal(blocks, []int64{7, 9}) {
		t.Errorf("the blocks 7 and 9 were written, the trace says %v", blocks)
	}
}

// Given a write of which either the beginning or the end was not recorded, when the trace is asked for the last time,
// then it names the write all the same, and when it is asked again, not once more.
func TestAWriteIsRecordedTwice(t *testing.T) {
	dev, major, minor := device(t)
	trace := started(t, major, minor)
	var want []int64
	for n := range int64(20) {
		begins := n%2 == 0 // are lost
		for _, r := range trace.rings {
			if (r.event.id == trace.begins) == begins {
				if err := unix.IoctlSetInt(r.fd, unix.PERF_EVENT_IOC_DISABLE, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(t, dev, n*n)
		want = append(want, n*n)
		for _, r := range trace.rings {
			if err := unix.IoctlSetInt(r.fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := trace.TakeLast(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if blocks := list(t, got); !slices.Equal(blocks, want) {
		t.Errorf("the blocks %v were written, the trace says %v", want, blocks)
	}
	write(t, dev, 5)
	if got, err = trace.TakeLast(t.Context()); err != nil {
		t.Fatal(err)
	}
	if blocks := list(t, got); !slices.Equal(blocks, []int64{5}) {
		t.Errorf("block 5 was written since, the trace says %v", blocks)
	}
}

// Given a write that no ring recorded, as on a processor that came later, when the trace is asked for the last time,
// then the kernel's count shows it.
func TestAWriteThatWasNotRecordedIsSeen(t *testing.T) {
	dev, major, minor := device(t)
	trace := started(t, major, minor)
	for _, r := range trace.rings {
		if err := unix.IoctlSetInt(r.fd, unix.PERF_EVENT_IOC_DISABLE, 0); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dev, 7)
	if b, err := trace.Take(); err != nil || b.Bytes() != 0 {
		t.Fatalf("%d bytes: %v", b.Bytes(), err)
	}
	_, err := trace.TakeLast(t.Context())
	if !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), "8 sectors, and recorded 0") {
		t.Errorf("after a write that was not recorded: %v", err)
	}
}

// Given the layouts of two kernels, and others that lack something, when they are read, then facts are found where each
// has them, and what is not understood is refused.
func TestTheKernelsLayoutIsRead(t *testing.T) {
	const text = `name: block_rq_complete
ID: 1042
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:sector_t sector;	offset:16;	size:8;	signed:0;
	field:unsigned int nr_sector;	offset:24;	size:4;	signed:0;
	field:int error;	offset:28;	size:4;	signed:1;
	field:char rwbs[8];	offset:32;	size:8;	signed:0;

print fmt: "%d,%d", REC->dev
`
	for name, c := range map[string]struct {
		text string
		ops  int // where they are found; 0: refused
	}{
		"as it is":     {text, 32},
		"a field more": {strings.Replace(text, "rwbs[8];	offset:32;", "rwbs[10];	offset:34;", 1), 34},
		"no id":        {strings.Replace(text, "ID: 1042", "", 1), 0},
		"no sector":    {strings.Replace(text, "sector_t sector;", "sector_t start;", 1), 0},
		"wider count":  {strings.Replace(text, "offset:24;	size:4", "offset:24;	size:8", 1), 0},
		"empty":        {"", 0},
	} {
		e, err := parseFormat(strings.NewReader(c.text))
		if (err == nil) != (c.ops > 0) || e.ops.offset != c.ops {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}
