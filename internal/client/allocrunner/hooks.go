package allocrunner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/derive/taskenv"
	"berth/internal/model/alloc"
)

// worthWriting is how long a wait for storage must have been to be written down by itself; a shorter one is written
// with the next change.
const worthWriting = time.Second

// pause is the wait between two tries of a hook.
var pause = retry.Backoff{Min: 250 * time.Millisecond, Max: 30 * time.Second}

// prerun runs the hooks before the first task until they have succeeded, one is refused permanently, or ctx ended.
func (r *Runner) prerun(ctx context.Context) {
	if !r.awaitDecided(ctx) {
		return
	}
	begun := time.Now()
	r.mu.Lock()
	if r.stopping() && !r.cfg.Restored {
		r.mu.Unlock()
		return // it was to stop before it began: there is nothing to prepare
	}
	budget := r.cfg.StorageTimeout - r.rec.Waited
	r.hooks.adopted = r.rec.Bundle.Alloc.Adopted
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
		r.rec.Waited += waited
		r.mu.Unlock()
		return
	}
	settle := func(rec *localstate.Alloc) {
		r.hooks.done = err == nil
		rec.Waited += waited
		if err != nil {
			rec.Refused, rec.RefusedForStorage = r.refusal(err), hook.IsForStorage(err)
		}
		r.inTheWay.waits = ""
	}
	if err == nil && waited < worthWriting {
		r.mu.Lock()
		settle(&r.rec)
		r.mu.Unlock()
		r.TaskChanged()
	} else {
		_ = r.update(settle) // said by update; the next agent run repeats the hooks
	}
	for _, n := range r.order {
		r.tasks[n].AllocReady()
	}
}

// rehook runs the hooks before the first task once more for an alloc that was adopted while it ran: the servers gave it
// new claims, which its node has to know. They find everything there.
func (r *Runner) rehook(ctx context.Context) {
	r.mu.Lock()
	due := r.hooks.done && r.hooks.adopted != r.rec.Bundle.Alloc.Adopted && !r.stopping()
	r.hooks.adopted = r.rec.Bundle.Alloc.Adopted
	r.mu.Unlock()
	if !due {
		return
	}
	if err := r.prerunAll(ctx); err != nil && ctx.Err() == nil {
		r.cfg.Log.Error("the volumes of an adopted allocation could not be claimed anew", logkey.Error, err)
	}
}

// awaitDecided waits for as long as the alloc is an orphan: nothing is prepared anew for what is only kept.
func (r *Runner) awaitDecided(ctx context.Context) bool {
	for {
		changed := r.wake.C()
		if r.Orphan() == nil {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
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
	if fault.Has(err, fault.Timeout) && r.inTheWay.waits != "" {
		return fmt.Sprintf("waited %s: %s", r.cfg.StorageTimeout, r.inTheWay.waits)
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
				r.mu.Lock()
				r.inTheWay.waits = "" // what the next hook waits for is another reason
				r.mu.Unlock()
				break
			}
			if ctx.Err() != nil {
				return cutOff(ctx, h, err)
			}
			if permanent(err) {
				return fault.Note(err, h.Name(), "")
			}
			r.say(h, err)
			if !pause.Sleep(ctx, attempt+1) {
				return cutOff(ctx, h, err)
			}
		}
	}
	return nil
}

// cutOff is the error of a hook whose time is over; last is what it said then.
func cutOff(ctx context.Context, h hook.Hook, last error) error {
	err := fault.Wrap(ctx.Err(), fault.KindOf(ctx.Err()), h.Name(), "")
	if hook.IsForStorage(last) {
		return hook.ForStorage(err)
	}
	return err
}

// permanent is the hooks' contract: these kinds fail the alloc, everything else is waited out.
func permanent(err error) bool {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.Unsupported, fault.Denied:
		return true
	}
	return false
}

// say makes an event of what a hook waits for, once per reason.
func (r *Runner) say(h hook.Hook, err error) {
	text := err.Error()
	r.mu.Lock()
	same := r.inTheWay.waits == text
	r.mu.Unlock()
	if !same {
		event := alloc.EventStorageWaiting
		if w, ok := h.(hook.Waiter); ok {
			event = w.WaitingEvent()
		}
		r.emit(&alloc.TaskEvent{Type: event, DisplayMessage: text, Message: text})
	}
}

// emit adds an event to every task; one that tells what is waited for becomes the alloc's description.
func (r *Runner) emit(e *alloc.TaskEvent) {
	if e.Waits() {
		r.mu.Lock()
		r.inTheWay.waits = e.DisplayMessage
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
	return &hook.Alloc{
		Alloc:   b.Alloc,
		Job:     b.Job,
		Group:   r.group(),
		Dir:     r.cfg.Dir.Path(),
		Mounts:  r.mounts,
		Network: r.network,
		Interpolate: func(text string) (string, error) {
			env, err := taskenv.New(taskenv.Source{
				Alloc:  b.Alloc,
				Job:    b.Job,
				Group:  r.group(),
				Node:   r.cfg.Host.Node(),
				Region: r.cfg.Region,
			})
			if err != nil {
				return "", err
			}
			return env.Replace(text)
		},
		Driver:   r.cfg.Drivers.Info,
		Emit:     r.emit,
		Restored: r.cfg.Restored,
	}
}

// postrun runs the hooks after the last task in reverse order, each until it succeeded, and only then says that the
// alloc is complete or failed. Every process is proven gone.
func (r *Runner) postrun(ctx context.Context) {
	if r.cfg.Processes != nil && !r.untilDone(ctx, "end processes", func() error {
		return r.cfg.Processes.End(ctx, r.ID())
	}) {
		return
	}
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.TaskChanged()
	for _, h := range slices.Backward(r.cfg.AllocHooks) {
		p, ok := h.(hook.Postrunner)
		if ok && !r.untilDone(ctx, h.Name(), func() error { return p.Postrun(ctx, r.view()) }) {
			return
		}
	}
	for attempt := 0; ; attempt++ {
		err := r.release()
		if err == nil {
			r.hinder(nil)
			r.TaskChanged()
			return
		}
		r.cfg.Log.Error("an allocation's state could not be written", logkey.Error, err)
		r.hinder(err)
		if !pause.Sleep(ctx, attempt+1) {
			return
		}
	}
}

// release writes down that everything was released, and only then says so: what is not written must not be said, or the
// next agent run would release once more while the servers do not wait.
func (r *Runner) release() error {
	r.saving.Lock()
	defer r.saving.Unlock()
	r.mu.Lock()
	rec := r.rec
	r.mu.Unlock()
	rec.Released = true
	if err := r.cfg.Store.PutAlloc(&rec); err != nil {
		return err
	}
	r.mu.Lock()
	r.rec.Released = true
	r.mu.Unlock()
	return nil
}

// untilDone repeats one step of the release until it succeeded; false when ctx ended before.
func (r *Runner) untilDone(ctx context.Context, name string, step func() error) bool {
	for attempt := 0; ; attempt++ {
		err := step()
		if err == nil {
			r.mu.Lock()
			r.inTheWay.handling = "" // what is in the way of the next step is another reason
			r.mu.Unlock()
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		r.cfg.Log.Warn("an allocation could not release what it used; it is tried again",
			"step", name, "tries", attempt+1, logkey.Error, err)
		r.sayHandling(fault.Note(err, "release: "+name, ""))
		if !pause.Sleep(ctx, attempt+1) {
			return false
		}
	}
}

func (r *Runner) sayHandling(err error) {
	text := err.Error()
	r.mu.Lock()
	same := r.inTheWay.handling == text
	r.inTheWay.handling = text
	r.mu.Unlock()
	if !same {
		r.emit(&alloc.TaskEvent{Type: alloc.EventHookFailed, DisplayMessage: text, Message: text})
	}
}

// hinder says, in memory alone, why nothing that is to become of the alloc can be written down, or with nil that it can
// again. Nothing is done that is not written: the next run of the agent would not know it.
func (r *Runner) hinder(err error) {
	text := ""
	if err != nil {
		text = alloc.NotWritten(err)
	}
	r.mu.Lock()
	same := r.inTheWay.hindered == text
	r.inTheWay.hindered = text
	r.mu.Unlock()
	switch {
	case same:
	case text == "":
		r.emit(&alloc.TaskEvent{Type: alloc.EventWritten, DisplayMessage: "The node can write down again what is to " +
			"become of the allocation"})
	default:
		r.emit(&alloc.TaskEvent{Type: alloc.EventNotWritten, DisplayMessage: text, Message: text})
	}
}
