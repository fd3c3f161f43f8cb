package state

import (
	"context"
	"time"

	"github.com/hashicorp/go-memdb"
)

// Watch collects what a read depends on. Hand one to the readers of a snapshot, then wait. A nil Watch collects
// nothing.
type Watch struct{ set memdb.WatchSet }

// NewWatch returns an empty watch.
func NewWatch() *Watch { return &Watch{set: memdb.NewWatchSet()} }

func (w *Watch) add(ch <-chan struct{}) { w.set.Add(ch) }

// Add lets the wait end by another channel too.
func (w *Watch) Add(ch <-chan struct{}) { w.set.Add(ch) }

// Wait returns nil when something that was read has changed, or the context's error.
func (w *Watch) Wait(ctx context.Context) error { return w.set.WatchCtx(ctx) }

// Bounds of a blocking query's wait.
const (
	DefaultWait = 5 * time.Minute
	MaxWait     = 10 * time.Minute
)

// Block runs a read and repeats it until the index that fn returns is above minIndex or wait is over; then the last
// answer stands. With minIndex 0 it reads once. fn reads from the snapshot and hands the watch to every reader whose
// answer counts; it returns the index of what it read (Snap.ReadIndex, Snap.TableIndex).
func Block(
	ctx context.Context, s *Store, minIndex uint64, wait time.Duration, fn func(*Snap, *Watch) (uint64, error),
) error {
	if minIndex == 0 {
		_, err := fn(s.Snapshot(), nil)
		return err
	}
	if wait <= 0 {
		wait = DefaultWait
	}
	waiting, cancel := context.WithTimeout(ctx, min(wait, MaxWait))
	defer cancel()
	for {
		w := NewWatch()
		index, err := fn(s.Snapshot(), w)
		if err != nil || index > minIndex {
			return err
		}
		if w.Wait(waiting) != nil {
			return ctx.Err() // the end of the wait is an answer, the end of the caller is not
		}
	}
}
