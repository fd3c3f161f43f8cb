package allocrunner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/model/alloc"
)

// worthWriting is how long a wait for storage must have been to be written down by itself; a shorter one is written with
// the next change.
const worthWriting = time.Second

// prerun runs the hooks before the first task until they have succeeded, one is refused for good, or ctx ended.
func (r *Runner) prerun(ctx context.Context) {
	begun := time.Now()
	r.mu.Lock()
	if r.stopping() && !r.cfg.Restored {
		r.mu.Unlock()
		return // it was to stop before it began: there is nothing to prepare
	}
	r.wait.since = begun
	budget := r.cfg.StorageTimeout - r.rec.Waited
	r.mu.Unlock()
	wctx, cancel := ctx, context.CancelFunc(func() {})
	if !r.anyStarted() { // an alloc that runs is never failed for what its hooks wait for
		wctx, cancel = context.WithTimeout(ctx, budget)
	}
	defer cancel()
	err := r.prerunAll(wctx)
	waited := time.Since(begun)
	if ctx.Err() != nil {
		r.mu.Lock()
		r.rec.Waited, r.wait.since = r.rec.Waited+waited, time.Time{}
		r.mu.Unlock()
		return
	}
	settle := func(rec *localstate.Alloc) {
		r.prepared = err == nil
		rec.Waited += waited
		r.wait.since = time.Time{}
		if err != nil {
			rec.Refused = r.refusal(err)
		}
		r.wait.reason = ""
	}
	if err == nil && waited < worthWriting {
		r.mu.Lock()
		settle(&r.rec)
		r.mu.Unlock()
		r.changed()
	} else {
		_ = r.update(settle) // said by update; the next life runs the hooks again
	}
	for _, n := range r.order {
		r.tasks[n].AllocReady()
	}
}

func (r *Runner) anyStarted() bool {
	for _, n := range r.order {
		if r.tasks[n].View().Started {
			return true
		}
	}
	return false
}

// refusal is why the alloc fails. The caller holds the lock.
func (r *Runner) refusal(err error) string {
	if fault.Has(err, fault.Timeout) && r.wait.reason != "" {
		return fmt.Sprintf("waited %s: %s", r.cfg.StorageTimeout, r.wait.reason)
	}
	return err.Error()
}

func (r *Runner) prerunAll(ctx context.Context) error {
	for _, h := range r.cfg.AllocHooks {
		p, ok := h.(hook.Prerunner)
		if !ok {
			continue
		}
		for attempt := 0; ; attempt++ {
			err := p.Prerun(ctx, r.view())
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return fault.Wrap(ctx.Err(), fault.KindOf(ctx.Err()), h.Name(), "")
			}
			if refusedForGood(err) {
				return fault.Note(err, h.Name(), "")
			}
			r.say(err)
			if !pause(ctx, attempt) {
				return fault.Wrap(ctx.Err(), fault.KindOf(ctx.Err()), h.Name(), "")
			}
		}
	}
	return nil
}

// refusedForGood is the hooks' contract: these kinds fail the alloc, everything else is waited out.
func refusedForGood(err error) bool {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.Unsupported, fault.Denied:
		return true
	}
	return false
}

// say makes an event of a reason for waiting, once per reason.
func (r *Runner) say(err error) {
	text := err.Error()
	r.mu.Lock()
	same := r.wait.reason == text
	r.mu.Unlock()
	if !same {
		r.emit(&alloc.TaskEvent{Type: alloc.EventStorageWaiting, DisplayMessage: text, Message: text})
	}
}

// emit adds an event to every task; one that tells what is waited for becomes the alloc's description.
func (r *Runner) emit(e *alloc.TaskEvent) {
	if e.Type == alloc.EventStorageWaiting {
		r.mu.Lock()
		r.wait.reason = e.DisplayMessage
		r.mu.Unlock()
	}
	for _, n := range r.order {
		r.tasks[n].Emit(e)
	}
}

// view is what an alloc hook sees now.
func (r *Runner) view() *hook.Alloc {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.rec.Bundle
	return &hook.Alloc{Alloc: b.Alloc, Job: b.Job, Group: r.group(), Dir: r.cfg.Dir.Path(), Resources: r.resources,
		Driver: r.cfg.Drivers.Info, Emit: r.emit, Restored: r.cfg.Restored}
}

// postrun runs the hooks after the last task in reverse order, each until it succeeded, and only then says that the
// alloc is complete or failed. Every process is proven gone.
func (r *Runner) postrun(ctx context.Context) {
	if r.cfg.EndProcesses != nil && !r.untilDone(ctx, "end processes", func() error { return r.cfg.EndProcesses(ctx, r.ID()) }) {
		return
	}
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.changed()
	for _, h := range slices.Backward(r.cfg.AllocHooks) {
		p, ok := h.(hook.Postrunner)
		if ok && !r.untilDone(ctx, h.Name(), func() error { return p.Postrun(ctx, r.view()) }) {
			return
		}
	}
	for attempt := 0; ; attempt++ {
		err := r.update(func(rec *localstate.Alloc) { rec.Released = true })
		if err == nil {
			return
		}
		// What is not written down must not be said: the next life would let go once more, the servers would not wait.
		r.mu.Lock()
		r.rec.Released = false
		r.mu.Unlock()
		if !pause(ctx, attempt) {
			return
		}
	}
}

// untilDone repeats one step of letting go until it succeeded; false when ctx ended before.
func (r *Runner) untilDone(ctx context.Context, name string, step func() error) bool {
	for attempt := 0; ; attempt++ {
		err := step()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		r.sayHandling(fault.Note(err, "let go: "+name, ""))
		if !pause(ctx, attempt) {
			return false
		}
	}
}

func (r *Runner) sayHandling(err error) {
	text := err.Error()
	r.mu.Lock()
	same := r.handling == text
	r.handling = text
	r.mu.Unlock()
	if !same {
		r.emit(&alloc.TaskEvent{Type: alloc.EventHookFailed, DisplayMessage: text, Message: text})
	}
}

// pause waits between two tries of a hook: doubling from a quarter second to half a minute, with jitter.
func pause(ctx context.Context, attempt int) bool {
	d := min(250*time.Millisecond<<min(attempt, 7), 30*time.Second)
	t := time.NewTimer(d - rand.N(d/5+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
