// Package blocktrace owns how it is learned which blocks of a device are written: the kernel records the requests that
// it begins and those that it has finished, and counts what is written beside that. The records are believed only while
// they agree with the count. Only package localcsi imports it.
package blocktrace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
)

// sectorSize is the unit in which the block layer counts, on every device.
const sectorSize = 512

// lookEvery is how often the rings are emptied out: they hold what a processor finishes in that time many times over.
const lookEvery = 5 * time.Millisecond

// ErrUnavailable says that writes to a device cannot be learned of here.
var ErrUnavailable = errors.New("which blocks are written cannot be learned from this kernel")

// ErrIncomplete says that not all writes are known.
var ErrIncomplete = errors.New("not every write to the device was seen")

// ErrReplaced says that the device is bound to something else than it was.
var ErrReplaced = errors.New("the device was released and bound anew")

// Trace learns of the writes to one device until it is closed.
type Trace struct {
	device [2]uint32 // major, minor
	rings  []*ring   // of each processor, for requests that begin and for those that are finished
	begins uint64    // the id of the event of the former
	stop   func() error

	mu      sync.Mutex
	written *Blocks
	sectors uint64 // recorded as written or discarded
	// unfinished counts requests that began and are not recorded as finished. The kernel loses the record of an end now
	// and then, of one in some ten thousand. Below zero: it lost that of a beginning.
	unfinished map[request]int
	began      count
	failed     error
}

// Start begins to learn of the writes to a device. Nothing may be on its way to the device meanwhile: a file system on
// it is frozen. Where the kernel records nothing, or this process may not know of it, the error wraps ErrUnavailable.
func Start(ctx context.Context, major, minor uint32) (*Trace, error) {
	t := &Trace{device: [2]uint32{major, minor}, written: &Blocks{}, unfinished: map[request]int{}}
	if err := t.listen(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, err), t.closeRings())
	}
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("read the record of writes", func() error { return t.look(gctx) })
	t.stop = func() error { g.Stop(); return g.Wait() }
	return t, nil
}

func (t *Trace) listen() (err error) {
	cpus, err := online()
	if err != nil {
		return err
	}
	filter := fmt.Sprintf("dev == %d", t.device[0]<<20|t.device[1]) // the kernel's own form of a device's number
	for _, tracepoint := range []string{"block_rq_issue", "block_rq_complete"} {
		e, err := readFormat(tracepoint)
		if err != nil {
			return err
		}
		if t.begins == 0 {
			t.begins = e.id
		}
		for _, cpu := range cpus {
			r, err := openRing(cpu, e, filter)
			if err != nil {
				return err
			}
			t.rings = append(t.rings, r)
		}
	}
	t.began, err = counted(t.device)
	return err
}

// online lists the processors. One that comes later is not listened to; the kernel's count shows it.
func online() (cpus []int, err error) {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("read which processors there are: %w", err)
		}
		for n := from; n <= to; n++ {
			cpus = append(cpus, n)
		}
	}
	return cpus, nil
}

func (t *Trace) look(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			t.mu.Lock()
			t.drain()
			t.mu.Unlock()
		}
	}
}

// drain is called with mu held.
func (t *Trace) drain() {
	for _, r := range t.rings {
		if t.failed != nil {
			return
		}
		t.failed = r.drain(func(raw []byte) error {
			req, writes, err := r.event.parse(raw)
			if err != nil || !writes {
				return err
			}
			step := 1
			if r.event.id != t.begins {
				req.addTo(t.written)
				t.sectors += req.count
				step = -1
			}
			if t.unfinished[req] += step; t.unfinished[req] == 0 {
				delete(t.unfinished, req)
			}
			return nil
		})
	}
}

func (r request) addTo(b *Blocks) {
	b.Add(int64(r.sector)*sectorSize, int64(r.sector+r.count)*sectorSize)
}

// Pending reports how many bytes Take would name.
func (t *Trace) Pending() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drain()
	return t.written.Bytes()
}

// Take returns what was written since the last Take, or the start. A write that it lacks was not finished when it was
// called. An error wraps ErrIncomplete.
func (t *Trace) Take() (*Blocks, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drain()
	if t.failed != nil {
		return nil, fmt.Errorf("%w: %w", ErrIncomplete, t.failed)
	}
	out := t.written
	t.written = &Blocks{}
	return out, nil
}

// settleTries is how often TakeLast looks whether records and count agree, and settlePause what it waits in between. A
// file system that is frozen writes nothing; what it discards may be on its way for a moment.
const (
	settleTries = 30
	settlePause = 10 * time.Millisecond
)

// TakeLast is Take for a device to which nothing is written, as that of a frozen file system. It holds the records
// against the kernel's own count of what was written: an error wraps ErrIncomplete, or ErrReplaced.
func (t *Trace) TakeLast(ctx context.Context) (*Blocks, error) {
	out := &Blocks{}
	for try := 1; ; try++ {
		more, err := t.Take()
		if err != nil {
			return nil, err
		}
		out.addAll(more)
		err = t.agree(out)
		if err == nil || !errors.Is(err, ErrIncomplete) || try == settleTries || !retry.Sleep(ctx, settlePause) {
			return out, err
		}
	}
}

// agree adds to the blocks what began, and is not recorded as finished: as nothing is on its way, it is.
func (t *Trace) agree(out *Blocks) error {
	now, err := counted(t.device)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	recorded := t.sectors
	for req, n := range t.unfinished {
		if n > 0 {
			req.addTo(out)
			recorded += uint64(n) * req.count
		}
	}
	switch {
	case now.binding != t.began.binding:
		return ErrReplaced
	case now.sectors-t.began.sectors != recorded:
		return fmt.Errorf("%w: the kernel counts %d sectors, and recorded %d", ErrIncomplete,
			now.sectors-t.began.sectors, recorded)
	}
	t.settle(out)
	return nil
}

// settle takes what is recorded as unfinished for finished: the kernel counts it, and records an end before it counts
// it. What it has lost is not named again.
func (t *Trace) settle(out *Blocks) {
	t.drain()
	out.addAll(t.written)
	t.written = &Blocks{}
	for req, n := range t.unfinished {
		if n > 0 {
			t.sectors += uint64(n) * req.count
			delete(t.unfinished, req)
		}
	}
}

// Close ends the trace.
func (t *Trace) Close() error { return errors.Join(t.stop(), t.closeRings()) }

func (t *Trace) closeRings() (err error) {
	for _, r := range t.rings {
		err = errors.Join(err, r.close())
	}
	return err
}
