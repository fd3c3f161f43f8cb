package kv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"berth/internal/base/fault"
)

// crowd has updates wait, one after the other, for one that is under way, and returns what each answers and in how many
// transactions they were.
func crowd(t *testing.T, s *Store, fns ...func(*Tx) error) (answers []error, transactions int) {
	t.Helper()
	answers = make([]error, len(fns))
	held, entered := make(chan struct{}), make(chan int)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Update(func(tx *Tx) error {
			entered <- tx.tx.ID()
			<-held
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	before := <-entered
	for i, fn := range fns {
		wg.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					answers[i] = fmt.Errorf("panic: %v", v)
				}
			}()
			answers[i] = s.Update(fn)
		})
		for s.queue.len() <= i {
			runtime.Gosched()
		}
	}
	close(held)
	wg.Wait()
	if err := s.db.View(func(tx *bolt.Tx) error {
		transactions = tx.ID() - before
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return answers, transactions
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func puts(key string, size int) func(*Tx) error {
	return func(tx *Tx) error { return tx.Put("b", key, make([]byte, size)) }
}

func keys(t *testing.T, s *Store) (out []string) {
	t.Helper()
	if err := s.View(func(tx *Tx) error {
		out = tx.Keys("b")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUpdatesThatWaitAreCommittedTogether(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "kv.db"))
	var seen []string
	answers, transactions := crowd(t, s, puts("a", 1), puts("b", 1), func(tx *Tx) error {
		seen = tx.Keys("b")
		return nil
	}, puts("c", 1))
	if err := errors.Join(answers...); err != nil {
		t.Fatal(err)
	}
	if transactions != 1 {
		t.Errorf("four updates that waited took %d transactions", transactions)
	}
	if !slices.Equal(seen, []string{"a", "b"}) {
		t.Errorf("the third one saw %q of those before it", seen)
	}
	if got := keys(t, s); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("it holds %q", got)
	}
}

// Given updates that wait together, when one fails after it has written and another one panics, then each hears of its
// own, nothing of the two is there, and all others are.
func TestAnUpdateThatFailsHarmsNoOther(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "kv.db"))
	stop := errors.New("stop")
	answers, _ := crowd(t, s, puts("a", 1), func(tx *Tx) error {
		return errors.Join(puts("bad", 1)(tx), stop)
	}, puts("b", 1), func(tx *Tx) error {
		if err := puts("worse", 1)(tx); err != nil {
			return err
		}
		panic("broken")
	}, puts("c", 1))
	for i, err := range answers {
		switch {
		case i == 1 && errors.Is(err, stop), i == 3 && err != nil && err.Error() == "panic: broken":
		case i%2 == 0 && err == nil:
		default:
			t.Errorf("update %d: %v", i, err)
		}
	}
	if got := keys(t, s); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("it holds %q", got)
	}
	if err := put(s, "later", 1); err != nil {
		t.Error(err)
	}
}

// Given updates that wait together, when one is more than the disk takes, then the others are written all the same.
func TestALargeUpdateOnAFullDiskHarmsNoOther(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := openTest(t, filepath.Join(dir, "kv.db"))
	answers, _ := crowd(t, s, puts("a", 1), puts("large", 4<<20), puts("b", 1))
	if answers[0] != nil || !fault.Has(answers[1], fault.Exhausted) || answers[2] != nil {
		t.Errorf("they answer %v", answers)
	}
	if got := keys(t, s); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("it holds %q", got)
	}
}

// All that wait hear that the store has failed.
func TestAllThatWaitHearOfAFailedWrite(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "kv.db"))
	sick := error(fault.New(fault.Internal, "write store", "kv.db", "the disk is gone"))
	answers, _ := crowd(t, s, func(*Tx) error {
		s.sick.Store(&sick)
		return errors.New("this one sees it first")
	}, puts("a", 1), puts("b", 1))
	for i, err := range answers {
		if !errors.Is(err, sick) {
			t.Errorf("update %d: %v", i, err)
		}
	}
}
