package external

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/port/driver"
	"berth/internal/port/pluginhost"
	"berth/pluginproto/driverpb"
)

// starting is a call that has a plugin start a task. Plugins go on with it whoever has given it up, and know the task
// only when it has begun: before that one cannot be ended.
type starting struct {
	done   chan struct{}
	answer *driverpb.StartTaskResponse
	err    error
}

// starts has a plugin start a task. With ctx the wait for its answer ends, and not the call.
func (d *Driver) starts(
	ctx context.Context, s *connection, config *driverpb.TaskConfig, attempt int,
) (*driverpb.StartTaskResponse, error) {
	asked := d.cfg.asked(ids.Alloc(config.GetAllocId()), config.GetName(), attempt)
	if err := os.WriteFile(asked, []byte(s.process.ID()), 0o600); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "write", strconv.Quote(asked))
	}
	b := &starting{done: make(chan struct{})}
	d.mu.Lock()
	d.starting[config.GetId()] = b
	d.mu.Unlock()
	// The call ends with its connection at the latest, which ends with the agent.
	g, gctx := lifecycle.NewGroup(context.WithoutCancel(ctx))
	g.Go("start a task", func() error {
		b.answer, b.err = s.rpc.StartTask(gctx, &driverpb.StartTaskRequest{Task: config})
		// One that lives has answered, whatever its answer looks like.
		if !lost(b.err) || s.process.Answers(gctx) {
			if err := os.Remove(asked); err != nil && !errors.Is(err, os.ErrNotExist) {
				d.cfg.Log.Warn("it stays noted that a plugin is starting a task", logkey.Driver, d.Name(), logkey.Error,
					err)
			}
		}
		close(b.done)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.starting[config.GetId()] == b {
			delete(d.starting, config.GetId())
		}
		return nil
	})
	select {
	case <-b.done:
		return b.answer, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// startGrace is how long one wait for a start that was given up lasts before it is said what is waited for.
const startGrace = 10 * time.Second

// awaitStart returns when no call is under way that may start a task.
func (d *Driver) awaitStart(ctx context.Context, id string) error {
	d.mu.Lock()
	b := d.starting[id]
	d.mu.Unlock()
	if b == nil {
		return nil
	}
	t := time.NewTimer(startGrace)
	defer t.Stop()
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return fault.New(fault.NotReady, "end", subject(id),
			"its plugin is still starting it, and can end it only when that is done")
	}
}

// undo returns when nothing of an attempt lives or can begin to, whose start has failed: whoever hears of that relies
// on it, and may never ask for another attempt. With ctx it ends, and then the attempt is aborted or taken up.
func (t *task) undo(ctx context.Context, s *connection, cfg *driver.TaskConfig) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), pluginhost.CallLimit)
	defer cancel()
	err := s.endAttempt(limited, cfg.Alloc, cfg.Task, cfg.Attempt)
	if err == nil {
		err = t.closeOutput(limited)
	}
	for failures := 1; err != nil; failures++ {
		if failures == 1 {
			t.d.tell(cfg, "What a failed start may have left is ended first: "+pluginhost.Clip(err.Error()))
		}
		if !undoAgain.Sleep(ctx, failures) {
			return errors.Join(ctx.Err(), err)
		}
		err = t.d.Abort(ctx, cfg.Alloc, cfg.Task, cfg.Attempt)
	}
	return nil
}

// undoAgain are the pauses before it is tried again to end what a failed start may have left.
var undoAgain = retry.Backoff{Min: time.Second / 2, Max: 15 * time.Second}
