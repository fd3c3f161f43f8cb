package serving

import (
	"context"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/server/state"
)

// beat is how often a caller is judged whose token should be over, by this server's clock, and is not refused yet.
const beat = time.Second

// Standing is the context of a stream that was judged (Judge), for as long as its caller may have it: it ends, with the
// refusal as its cause, when a right is taken from him, or his token expires. end ends it, and has to be called.
func Standing(ctx context.Context, store *state.Store) (standing context.Context, end func()) {
	j, is := ctx.Value(judgementKey{}).(*judgement)
	if !is {
		return ctx, func() {} // the program's own, or what another server has judged
	}
	standing, cancel := context.WithCancelCause(ctx)
	g, watching := lifecycle.NewGroup(standing)
	g.Go("rights", func() error {
		for watching.Err() == nil {
			w := state.NewWatch()
			if err := j.again(store.Snapshot(), w); err != nil {
				cancel(err)
				return nil
			}
			rest, stop := watching, context.CancelFunc(func() {})
			if at := j.caller.Expires; !at.IsZero() {
				rest, stop = context.WithTimeout(watching, max(time.Until(at), beat))
			}
			_ = w.Wait(rest) // whichever it was, he is judged once more
			stop()
		}
		return nil
	})
	return standing, func() {
		cancel(nil)
		_ = g.Wait() // it returns no error
	}
}
