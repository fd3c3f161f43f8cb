package allocs

import (
	"context"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/client/allocrunner"
	"berth/internal/client/localstate"
)

// newRunner makes a runner. A record that it panics over is damaged: it must not end the agent at each start.
func newRunner(cfg allocrunner.Config) (r *allocrunner.Runner, failed error) {
	err := lifecycle.Isolated("make a runner", func() (err error) {
		r, err = allocrunner.New(cfg)
		return err
	}, func(err error) { failed = err })()
	if err != nil {
		return nil, err
	}
	return r, failed
}

func idsOf(all []*localstate.Alloc) (out []ids.Alloc) {
	for _, rec := range all {
		out = append(out, rec.Bundle.Alloc.ID)
	}
	return out
}

// markRestored marks what is restored at once, in one step: all that nobody suspects and that has not ended.
func (a *Allocs) markRestored(all []ids.Alloc) {
	a.begun(slices.DeleteFunc(slices.Clone(all), func(id ids.Alloc) bool {
		return a.loaded.Allocs[id].Released || a.cfg.Guard.Suspect(id)
	}))
}

// begun marks allocs as begun. A node whose disk is full goes on without that.
func (a *Allocs) begun(all []ids.Alloc) {
	if len(all) == 0 {
		return
	}
	if err := a.cfg.Guard.Begin(all, a.putMarks); err != nil {
		a.log.Error("it can't be noted which allocations are taken up: whether the agent dies of one is not known",
			"allocations", len(all), logkey.Error, err)
	}
}

func (a *Allocs) putMarks(marks map[ids.Alloc]localstate.Mark) error {
	if len(marks) == 0 {
		return nil
	}
	return a.cfg.Store.PutMarks(marks)
}

// sort has a restored alloc taken up at once; in its turn, when a run of the agent may have died of it; or not at all,
// when enough of them did.
func (a *Allocs) sort(r *allocrunner.Runner) {
	guard, id := a.cfg.Guard, r.ID()
	switch {
	case r.Released() || !guard.Suspect(id):
		a.found = append(a.found, r)
	case guard.Barred(id):
		a.log.Error("an allocation is not taken up", logkey.Alloc, id, logkey.Job, r.Bundle().Alloc.Job,
			"reason", guard.Reason(id))
		r.Bar(guard.Reason(id), true)
	default:
		a.log.Warn("the agent has died soon after it took up an allocation: it is taken up after the others",
			logkey.Alloc, id, logkey.Job, r.Bundle().Alloc.Job, "crashes", guard.Crashes(id))
		r.Bar(guard.Waits(id), false)
		a.suspect = append(a.suspect, r)
	}
}

// launchSuspects takes up those of which the agent may have died: what it has died of once all together, and then, when
// nothing else is on probation, one after another.
func (a *Allocs) launchSuspects(ctx context.Context, g *lifecycle.Group) error {
	var order []ids.Alloc
	for _, plugins := range []bool{true, false} { // others need them
		for _, r := range a.suspect {
			if r.Bundle().RunsPlugin() == plugins {
				order = append(order, r.ID())
			}
		}
	}
	together, turns := a.cfg.Guard.Turns(order)
	a.takeUpBarred(ctx, g, together)
	for _, group := range turns {
		if !a.cfg.Guard.Settled(ctx) {
			return nil
		}
		a.takeUpBarred(ctx, g, group)
	}
	return nil
}

// takeUpBarred marks and launches allocs that were not taken up so far. One that a person has had taken up meanwhile is
// passed over.
func (a *Allocs) takeUpBarred(ctx context.Context, g *lifecycle.Group, all []ids.Alloc) {
	all = slices.DeleteFunc(slices.Clone(all), func(id ids.Alloc) bool {
		r := a.Runner(id)
		return r == nil || r.Barred() == ""
	})
	a.begun(all)
	for _, id := range all {
		if r := a.Runner(id); r != nil && r.Unbar() {
			a.log.Info("a suspected allocation is taken up", logkey.Alloc, id, logkey.Job, r.Bundle().Alloc.Job)
			a.launch(ctx, g, r)
		}
	}
}

// TakeUp takes up an alloc that was not, because a person said so: it counts as one of which no run of the agent has
// died. What runs of it runs on. taken is false for one that had been taken up already.
func (a *Allocs) TakeUp(ctx context.Context, id ids.Alloc) (taken bool, err error) {
	r, err := a.Find(id)
	if err != nil || r.Barred() == "" {
		return false, err
	}
	if err := a.cfg.Guard.Forgive(id); err != nil {
		return false, err
	}
	a.begun([]ids.Alloc{id})
	if !r.Unbar() {
		return false, nil
	}
	a.log.Warn("a person has an allocation taken up of which the agent may have died", logkey.Alloc, id,
		logkey.Job, r.Bundle().Alloc.Job)
	select {
	case a.started <- r:
		return true, nil
	case <-ctx.Done():
		r.Bar(a.cfg.Guard.Waits(id), false)
		return false, ctx.Err()
	}
}
