package lifecycle

import (
	"context"
	"time"
)

// Follow calls look, and again after each change, until ctx ends. Changes within a pause are looked at together: to
// look at everything for each that changes would cost the square of their number when many do. The channel that changed
// returns is closed with the next change; it is asked for before each look, so that none is missed.
func Follow(ctx context.Context, changed func() <-chan struct{}, pause time.Duration, look func()) error {
	for {
		next := changed()
		look()
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}
