package allocrunner

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
)

// Bar says why the alloc is not taken up, as long as Run was not called: what runs of it and what is mounted for it
// stays as it is, and counts as used. It lasts until Unbar. With news the tasks get an event of it.
func (r *Runner) Bar(why string, news bool) {
	r.mu.Lock()
	r.inTheWay.barred = why
	r.mu.Unlock()
	if news && !r.saidLast(alloc.EventNotTakenUp, why) {
		r.emit(&alloc.TaskEvent{Type: alloc.EventNotTakenUp, DisplayMessage: why, Message: why})
	}
	r.TaskChanged()
}

// saidLast reports whether the newest event of every task is this one.
func (r *Runner) saidLast(event, text string) bool {
	for _, n := range r.order {
		all := r.tasks[n].State().Events
		if len(all) == 0 || all[len(all)-1].Type != event || all[len(all)-1].DisplayMessage != text {
			return false
		}
	}
	return true
}

// Unbar lets the alloc be taken up: whoever is the first to call it, and gets true, calls Run.
func (r *Runner) Unbar() (first bool) {
	r.mu.Lock()
	first, r.inTheWay.barred = r.inTheWay.barred != "", ""
	r.mu.Unlock()
	r.TaskChanged()
	return first
}

// Barred says why the alloc is not taken up; empty: it is.
func (r *Runner) Barred() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inTheWay.barred
}

// Usable refuses to do something with an alloc that is not taken up.
func (r *Runner) Usable(op string) error {
	why := r.Barred()
	if why == "" {
		return nil
	}
	return fault.WithHint(fault.New(fault.Conflict, op, fmt.Sprintf("allocation %q", r.ID()), why),
		"have it taken up: berth alloc restart "+ids.Short(r.ID()))
}
