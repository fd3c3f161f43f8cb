package server

import (
	"context"
	"log/slog"
	"sync/atomic"

	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
)

// panics are those of commands of the log, in this run.
type panics struct {
	log   *slog.Logger
	count atomic.Int64
	more  lifecycle.Signal
}

func (p *panics) heard(index uint64, name string, err *lifecycle.PanicError) {
	p.log.Error("a command of the log panicked and has changed nothing; this is a bug of Berth", "command", name,
		"index", index, logkey.Error, err)
	p.count.Add(1)
	p.more.Notify()
}

// run has the state saved after each: another version, which has the mistake mended, must not apply at its start what
// the other servers did not.
func (p *panics) run(ctx context.Context, save func(context.Context) error) error {
	for saved := int64(0); ; {
		next := p.more.C()
		now := p.count.Load()
		if now == saved {
			select {
			case <-ctx.Done():
				return nil
			case <-next:
			}
			continue
		}
		saved = now
		if err := save(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("the state could not be saved after a command of the log had panicked: do not change the "+
				"version of one server alone before it is (berth operator snapshot save state.snap)", logkey.Error, err)
		}
	}
}
