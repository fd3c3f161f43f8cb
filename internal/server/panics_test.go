package server

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"berth/internal/base/lifecycle"
)

// Given commands of the log that panic, before the server runs and while the state is being saved, then it is saved
// after each; one that fails does not end the watch.
func TestTheStateIsSavedAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &panics{log: slog.New(slog.DiscardHandler)}
		p.heard(7, "x", &lifecycle.PanicError{Value: "replayed"})
		ctx, cancel := context.WithCancel(t.Context())
		covered, saves := int64(0), 0
		done := make(chan error)
		go func() {
			done <- p.run(ctx, func(context.Context) error {
				covered = p.count.Load()
				if saves++; saves == 1 {
					p.heard(8, "x", &lifecycle.PanicError{Value: "meanwhile"})
					return errors.New("the disk is full")
				}
				return nil
			})
		}()
		synctest.Wait()
		if covered != 2 || saves != 2 {
			t.Errorf("%d saves, of %d panics", saves, covered)
		}
		p.heard(9, "x", &lifecycle.PanicError{Value: "later"})
		synctest.Wait()
		if covered != 3 || saves != 3 {
			t.Errorf("%d saves, of %d panics", saves, covered)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
