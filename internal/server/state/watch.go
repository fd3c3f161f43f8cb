package state

import (
	"context"

	"github.com/hashicorp/go-memdb"
)

// Watch collects what a read depends on. Hand one to the readers of a snapshot, then wait. A nil Watch collects
// nothing.
type Watch struct{ set memdb.WatchSet }

// NewWatch returns an empty watch.
func NewWatch() *Watch { return &Watch{set: memdb.NewWatchSet()} }

// Add lets the wait end by another channel too.
func (w *Watch) Add(ch <-chan struct{}) { w.set.Add(ch) }

// Wait returns nil when something that was read has changed, or the context's error.
func (w *Watch) Wait(ctx context.Context) error { return w.set.WatchCtx(ctx) }
