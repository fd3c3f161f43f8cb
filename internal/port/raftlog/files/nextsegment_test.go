package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft-wal/types"
)

// disk is one on which a step finds capacity or not.
type disk struct {
	mu    sync.Mutex
	fails error
	tries int
}

// heals has the next step succeed, and returns how many there were before it.
func (d *disk) heals() (tries int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = nil
	return d.tries
}

func (d *disk) step() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tries++; d.tries > 1000 {
		panic("it is tried for ever") // time goes by as fast as it is tried
	}
	return d.fails
}

// TestASegmentIsTriedUntilItHasCapacity: given a full disk, when the next segment is to be made, then whoever waits
// for it learns at once that the disk lacks capacity, again and again, and it is made as soon as there is some; so it
// is with the one after it, of which nobody is answered before it has been tried.
func TestASegmentIsTriedUntilItHasCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := AwaitNextSegment(nil)
		if err := n.Wait(); err != nil {
			t.Errorf("none is to be made, and there is %v", err)
		}
		for range 2 {
			d := &disk{fails: &fs.PathError{Op: "write", Err: syscall.ENOSPC}}
			n.Begin()
			answer, made := make(chan error), make(chan error)
			go func() { answer <- n.Wait() }()
			synctest.Wait()
			select {
			case err := <-answer:
				t.Fatalf("before it is tried, its waiter is answered %v", err)
			default:
			}
			go func() {
				err := n.try(d.step)
				n.End()
				made <- err
			}()
			synctest.Wait()
			for range 3 {
				select {
				case err := <-answer:
					if !IsFull(err) {
						t.Errorf("its waiter is answered %v", err)
					}
				default:
					t.Fatal("its waiter is not answered")
				}
				go func() { answer <- n.Wait() }()
				synctest.Wait()
			}
			<-answer
			begun, before := time.Now(), d.heals()
			if err := <-made; err != nil || d.tries != before+1 || time.Since(begun) > retryNext {
				t.Errorf("with capacity, after %s and %d tries: %v", time.Since(begun), d.tries-before, err)
			}
			if err := n.Wait(); err != nil {
				t.Errorf("it is made, and there is %v", err)
			}
		}
	})
}

// TestASegmentIsNotTriedInVain: what is no want of capacity is an error at once, as it is where nobody waits for a
// segment; and who ends the log ends the tries.
func TestASegmentIsNotTriedInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := fmt.Errorf("write: %w", syscall.EDQUOT)
		stop := make(chan struct{})
		n := AwaitNextSegment(stop)
		for what, c := range map[string]struct {
			next  *NextSegment
			begun bool
			fails error
		}{
			"of a log that tries once": {nil, false, full},
			"that nobody waits for":    {n, false, full},
			"on a broken disk":         {n, true, syscall.EIO},
			"that is made":             {n, true, nil},
		} {
			d := &disk{fails: c.fails}
			if c.begun {
				c.next.Begin()
			}
			begun := time.Now()
			if err := c.next.try(d.step); !errors.Is(err, c.fails) || d.tries != 1 || time.Since(begun) > 0 {
				t.Errorf("a segment %s: %v after %d tries", what, err, d.tries)
			}
			c.next.End()
			if err := c.next.Wait(); err != nil {
				t.Errorf("a segment %s: whoever waits later is answered %v", what, err)
			}
		}
		n.Begin()
		time.AfterFunc(time.Minute, func() { close(stop) })
		begun, d := time.Now(), &disk{fails: full}
		if err := n.try(d.step); !errors.Is(err, full) || time.Since(begun) != time.Minute {
			t.Errorf("at the end of the log, after %s: %v", time.Since(begun), err)
		}
		n.End()
	})
}

// filer makes and recovers segments that are full.
type filer struct{ types.SegmentFiler }

func (filer) Create(types.SegmentInfo) (types.SegmentWriter, error) { return filled{}, nil }

func (filer) RecoverTail(types.SegmentInfo) (types.SegmentWriter, error) { return filled{}, nil }

type filled struct{ types.SegmentWriter }

func (filled) Sealed() (bool, uint64, error) { return true, 7, nil }

// TestTheNextOfAFullSegmentIsWaitedFor: from when the library learns that one is full, whether it was made by this
// run of the server or by one before, until there is the next.
func TestTheNextOfAFullSegmentIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := AwaitNextSegment(nil)
		of := &segments{SegmentFiler: filer{}, next: n, open: true}
		for what, open := range map[string]func(types.SegmentInfo) (types.SegmentWriter, error){
			"new": of.Create, "recovered": of.RecoverTail,
		} {
			w, err := open(types.SegmentInfo{})
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Wait(); err != nil {
				t.Errorf("of a %s segment that is not full: %v", what, err)
			}
			if full, index, err := w.Sealed(); !full || index != 7 || err != nil {
				t.Errorf("a %s segment is full: %v, at %d, %v", what, full, index, err)
			}
			answer := make(chan error, 1)
			go func() { answer <- n.Wait() }()
			synctest.Wait()
			if len(answer) > 0 {
				t.Errorf("nobody waits for what follows a %s segment", what)
			}
			if _, err := of.Create(types.SegmentInfo{}); err != nil {
				t.Fatal(err)
			}
			if err := <-answer; err != nil {
				t.Errorf("what follows a %s segment is there, and there is %v", what, err)
			}
		}
	})
}

// TestAfterASyncNothingIsKnownOfWhatIsOnDisk: an append that lacks capacity may be tried again only where it had not
// come to its sync.
func TestAfterASyncNothingIsKnownOfWhatIsOnDisk(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&fs.PathError{Op: "write", Err: syscall.ENOSPC}, true},
		{fmt.Errorf("append: %w", &fs.PathError{Op: "write", Err: syscall.EDQUOT}), true},
		{os.NewSyscallError("fallocate", syscall.ENOSPC), true},
		{&fs.PathError{Op: "sync", Err: syscall.ENOSPC}, false},
		{fmt.Errorf("append: %w", &fs.PathError{Op: "sync", Err: syscall.EDQUOT}), false},
		{&fs.PathError{Op: "write", Err: syscall.EIO}, false},
		{syscall.ENOSPC, false}, // nobody says by which call
		{nil, false},
	} {
		if got := IsUnwritten(c.err); got != c.want {
			t.Errorf("%v: unwritten is %v", c.err, got)
		}
	}
}
