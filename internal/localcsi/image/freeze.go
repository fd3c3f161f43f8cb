package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/lifecycle"
	"berth/internal/localcsi/watchdog"
)

// fiFreeze is FIFREEZE of linux/fs.h, which x/sys does not name; the same on every architecture that Berth is built
// for.
const fiFreeze = 0xC0045877

// ErrTooLong is the end of work that did not finish while its file system was frozen.
var ErrTooLong = errors.New("the file system may not stay frozen any longer")

// ErrThawed is the end of work whose file system somebody else has thawed meanwhile.
var ErrThawed = errors.New("somebody else has thawed the file system")

// ErrStillFrozen is a thaw that failed.
var ErrStillFrozen = errors.New("the file system may still be frozen")

// WhileFrozen runs fn while the file system that is mounted at dir accepts no writes, for at most limit. It thaws in
// every case: when fn is done, and at the limit even if fn hangs; then the result of fn does not count and the error
// wraps ErrTooLong. The context of fn ends at the limit. When this process dies or hangs meanwhile, a child thaws.
func WhileFrozen(
	ctx context.Context, dir string, limit time.Duration, fn func(context.Context) error,
) (err error) {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	// What is dirty is written before the freeze, so that the writers wait for little.
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync the file system at %s: %w", dir, err)
	}
	dog, err := watchdog.Watch(f, limit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dog.Done()) }()
	deadline := time.Now().Add(limit)
	if err := unix.IoctlSetInt(int(f.Fd()), fiFreeze, 0); err != nil {
		return fmt.Errorf("freeze the file system at %s: %w", dir, err)
	}
	var thawed atomic.Bool
	thaw := func() error {
		if !thawed.CompareAndSwap(false, true) {
			return nil
		}
		switch err := watchdog.Thaw(f); {
		case errors.Is(err, watchdog.ErrNotFrozen):
			return fmt.Errorf("thaw the file system at %s: %w", dir, ErrThawed)
		case err != nil:
			return fmt.Errorf("thaw the file system at %s: %w: %w", dir, ErrStillFrozen, err)
		}
		return nil
	}
	defer func() { _ = thaw() }() // a panic in fn must not leave it frozen; a second thaw does nothing

	fctx, cancel := context.WithDeadlineCause(ctx, deadline, ErrTooLong)
	defer cancel()
	g, _ := lifecycle.NewGroup(ctx)
	done := make(chan struct{})
	g.Go("thaw at the limit", func() error {
		select {
		case <-done:
			return nil
		case <-fctx.Done():
			return thaw()
		}
	})
	err = runAndClose(fctx, done, fn)
	if err == nil && fctx.Err() != nil {
		err = context.Cause(fctx) // it may have been thawed before fn was done
	}
	return errors.Join(err, g.Wait(), thaw())
}

func runAndClose(ctx context.Context, done chan struct{}, fn func(context.Context) error) error {
	defer close(done)
	return fn(ctx)
}

// Thaw ends a freeze that somebody who is dead began. A file system that is not frozen is fine.
func Thaw(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := watchdog.Thaw(f); err != nil && !errors.Is(err, watchdog.ErrNotFrozen) {
		return fmt.Errorf("thaw the file system at %s: %w", dir, err)
	}
	return nil
}
