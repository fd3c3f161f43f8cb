package allocs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/client/localstate"
	"berth/internal/client/shim"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
	"berth/internal/port/driver/launched"
	"berth/internal/wire"
)

// Orphan tells what an orphan is, so that a person can give it to the servers' state: from its record, or, when that is
// lost, from what its shim was given at the start of its tasks.
func (a *Allocs) Orphan(ctx context.Context, id ids.Alloc) (alloc.Bundle, lineage.Point, error) {
	r := a.Runner(id)
	switch {
	case r != nil && r.Orphan() == nil:
		return alloc.Bundle{}, lineage.Point{}, fault.New(fault.Conflict, "adopt", fmt.Sprintf("allocation %q", id),
			"it is no orphan: the servers decide about it")
	case r != nil && (r.Stopped() || r.Bundle().Alloc.ServerTerminal()):
		return alloc.Bundle{}, lineage.Point{}, fault.WithHint(
			fault.New(fault.Conflict, "adopt", fmt.Sprintf("allocation %q", id), "it was told to end"),
			"end it: berth node orphans end "+ids.Short(id))
	case r != nil:
		return r.Bundle(), r.Received(), nil
	case !a.unknownHere(id):
		return alloc.Bundle{}, lineage.Point{}, notHere(id, "adopt")
	}
	b, err := bundleOf(a.cfg.Shims.Look(ctx, id))
	return b, lineage.Point{}, err
}

// bundleOf reads what a shim keeps of its alloc.
func bundleOf(h shim.Held) (alloc.Bundle, error) {
	refuse := func(text string) (alloc.Bundle, error) {
		return alloc.Bundle{}, fault.WithHint(
			fault.New(fault.NotReady, "adopt", fmt.Sprintf("allocation %q", h.Alloc),
				"this node has lost its record of it, and "+text),
			"try again, or end it: berth node orphans end "+ids.Short(h.Alloc))
	}
	var b alloc.Bundle
	switch {
	case h.Err != nil:
		return refuse("its shim does not answer: " + h.Err.Error())
	case h.Dead:
		return refuse("no shim holds its tasks")
	case len(h.Bundle) == 0:
		return refuse("its shim was given no description of it")
	case wire.Decode(h.Bundle, &b) != nil || b.Alloc == nil || b.Job == nil || b.Alloc.ID != h.Alloc:
		return refuse("the description that its shim was given cannot be read")
	}
	return b, nil
}

// unknownHere reports an alloc of which this node has lost the record.
func (h *Holdings) unknownHere(id ids.Alloc) bool {
	h.mu.Lock()
	_, unrecorded := h.unrecorded[id]
	h.mu.Unlock()
	return unrecorded || slices.ContainsFunc(h.ShimOrphans(), func(s shim.Held) bool { return s.Alloc == id })
}

// takeUp makes the record of an adopted alloc whose record is lost, from what its shim holds, and writes that of its
// tasks: a record of the alloc alone would have them started anew. nil: the shim cannot be asked, and the alloc stays
// what it is.
func (a *Allocs) takeUp(
	ctx context.Context, b alloc.Bundle, at lineage.Point,
) (*localstate.Alloc, map[string]*localstate.Task, error) {
	h := a.cfg.Shims.Look(ctx, b.Alloc.ID)
	if h.Dead || h.Err != nil {
		a.log.Error("an adopted allocation can't be taken up: its shim does not answer; adopt it again, or end it "+
			"with: berth node orphans end "+ids.Short(b.Alloc.ID), logkey.Alloc, b.Alloc.ID, logkey.Error, h.Err)
		return nil, nil, nil
	}
	tasks, err := tasksOf(b, h)
	if err != nil {
		return nil, nil, err
	}
	for name, t := range tasks {
		if err := a.cfg.Store.PutTask(b.Alloc.ID, name, t); err != nil {
			return nil, nil, err
		}
	}
	a.log.Info("an adopted allocation is taken up from its shim", logkey.Alloc, b.Alloc.ID, logkey.PID, h.PID)
	return &localstate.Alloc{Bundle: b, Received: at}, tasks, nil
}

// tasksOf makes the records of an alloc's tasks. A process that the shim holds is found again. Whatever else may have
// begun has ended for good, for a shim that held nothing for a moment has ended too, and its successor does not know
// what ran before it: nothing is run twice because its record was lost.
func tasksOf(b alloc.Bundle, h shim.Held) (map[string]*localstate.Task, error) {
	out := map[string]*localstate.Task{}
	group := b.Job.Group(b.Alloc.TaskGroup)
	if group == nil {
		return out, nil
	}
	begun := slices.ContainsFunc(group.Tasks, func(t *job.Task) bool {
		return !preparing(t) && (newest(h.Tasks, t.Name) != nil || lastEnd(h.Ends, t.Name) != nil)
	})
	for _, t := range group.Tasks {
		held, end := newest(h.Tasks, t.Name), lastEnd(h.Ends, t.Name)
		if held == nil && end == nil && (!preparing(t) && !begun || alloc.RoleOf(t) == alloc.RolePoststop) {
			continue // its turn has not come
		}
		rec, err := taskOf(b, t, held, end)
		if err != nil {
			return nil, err
		}
		out[t.Name] = rec
	}
	return out, nil
}

// preparing reports a task that begins before the main ones.
func preparing(t *job.Task) bool { return alloc.RoleOf(t) <= alloc.RolePrestartSidecar }

// taskOf makes the record of a task that has begun.
func taskOf(b alloc.Bundle, t *job.Task, held *shim.HeldTask, end *shim.HeldEnd) (*localstate.Task, error) {
	rec := &localstate.Task{Started: true}
	if s := b.Alloc.TaskStates[t.Name]; s != nil {
		rec.State = *s
	}
	event := &alloc.TaskEvent{
		Type:           alloc.EventRecovered,
		Time:           time.Now().UnixNano(),
		DisplayMessage: "The task had ended when the allocation was adopted",
	}
	switch {
	case held != nil:
		handle, err := launched.Handle(t.Driver, b.Alloc.ID, held.Handle)
		if err != nil {
			return nil, err
		}
		rec.Handle, rec.Attempt = &handle, held.Attempt
		rec.State.State = alloc.TaskRunning
		event.DisplayMessage = "The running task was found again when the allocation was adopted"
	case end != nil:
		rec.Attempt, rec.Over = end.Attempt, true
		rec.State.State, rec.State.Failed = alloc.TaskPending, !end.Exit.Successful()
	default:
		rec.Over, rec.State.State = true, alloc.TaskPending
	}
	rec.State.Events = append(slices.Clone(rec.State.Events), event)
	return rec, nil
}

func newest(all []shim.HeldTask, task string) (found *shim.HeldTask) {
	for i := range all {
		if all[i].Task == task && (found == nil || all[i].Attempt > found.Attempt) {
			found = &all[i]
		}
	}
	return found
}

func lastEnd(all []shim.HeldEnd, task string) (found *shim.HeldEnd) {
	for i := range all {
		if all[i].Task == task && (found == nil || all[i].Attempt > found.Attempt) {
			found = &all[i]
		}
	}
	return found
}
