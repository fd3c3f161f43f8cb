package allocdir

import (
	"context"
	"errors"

	"berth/internal/port/hostfs"
)

// errDone ends a wait because what is followed will not grow any more.
var errDone = errors.New("done")

// await returns at the next change, with errDone when done is closed, or at the end of ctx.
func await(ctx context.Context, dir *hostfs.Watch, done <-chan struct{}) error {
	select {
	case <-dir.Changed():
		return nil
	case <-done:
		return errDone
	case <-ctx.Done():
		return ctx.Err()
	}
}
