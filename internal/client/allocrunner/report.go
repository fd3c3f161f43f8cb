package allocrunner

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/client/taskrunner"
	"berth/internal/model/alloc"
)

// Report is what the servers receive.
func (r *Runner) Report() *alloc.Alloc {
	f, _ := r.facts(time.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &alloc.Alloc{ID: r.ID(), TaskStates: map[string]*alloc.TaskState{}, Network: r.network.Status()}
	a.ClientStatus, a.ClientDescription = alloc.ClientState(f, r.rec.Released)
	switch {
	case r.inTheWay.barred != "":
		a.ClientDescription = r.inTheWay.barred
	case r.rec.Refused != "" && (a.ClientStatus == alloc.ClientFailed || !r.rec.Released):
		a.ClientDescription = r.rec.Refused
	case r.inTheWay.hindered != "":
		a.ClientDescription = r.inTheWay.hindered
	case !r.rec.Released && r.inTheWay.handling != "":
		a.ClientDescription = r.inTheWay.handling
	case a.ClientStatus == alloc.ClientPending && r.inTheWay.waits != "":
		a.ClientDescription = r.inTheWay.waits
	case r.rec.Released && r.rec.Stopped != "":
		a.ClientDescription = alloc.StoppedWithAgent
	}
	for _, n := range r.order {
		a.TaskStates[n] = r.tasks[n].State()
	}
	if r.checks != nil {
		found := *r.checks
		a.Checks = &found
	}
	a.Bound()
	return a
}

// Network is the alloc's own; nil: it has none, or not yet.
func (r *Runner) Network() *alloc.NetworkStatus { return r.network.Status() }

// TaskStates are the states of its tasks.
func (r *Runner) TaskStates() map[string]*alloc.TaskState {
	out := map[string]*alloc.TaskState{}
	for _, n := range r.order {
		out[n] = r.tasks[n].State()
	}
	return out
}

// Checked takes what the checks of its services have found.
func (r *Runner) Checked(found alloc.Checks) {
	r.mu.Lock()
	r.checks = &found
	r.mu.Unlock()
	r.cfg.Owner.AllocChanged(r.ID())
}

// Released reports whether the hooks after the last task have let everything go: the alloc is complete or failed.
func (r *Runner) Released() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec.Released
}

// ProcessesGone reports whether it is proven that no process of the alloc is left and none will come, or in words what
// is there.
func (r *Runner) ProcessesGone() (bool, string) {
	r.mu.Lock()
	ended, barred := r.ended || r.rec.Released, r.inTheWay.barred
	r.mu.Unlock()
	switch {
	case ended:
		return true, ""
	case barred != "":
		return false, barred
	}
	for _, n := range r.order {
		if gone, why := r.tasks[n].ProcessGone(); !gone {
			return false, why
		}
	}
	return false, "its tasks have not ended for good"
}

// Idle reports that no process of any task lives now. A task starts again only through its hooks, which ask the mount
// table for its volumes first.
func (r *Runner) Idle() bool {
	if r.Barred() != "" {
		return false
	}
	for _, n := range r.order {
		if gone, _ := r.tasks[n].ProcessGone(); !gone {
			return false
		}
	}
	return true
}

// Bundle is the alloc as the servers last gave it.
func (r *Runner) Bundle() alloc.Bundle {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec.Bundle
}

// Task returns the runner of a task.
func (r *Runner) Task(name string) (*taskrunner.Runner, error) {
	if t := r.tasks[name]; t != nil {
		return t, nil
	}
	return nil, fault.WithHint(
		fault.New(fault.NotFound, "use", fmt.Sprintf("task %q of allocation %q", name, r.ID()),
			"there is no such task"),
		fmt.Sprintf("its tasks are %v", slices.Sorted(maps.Keys(r.tasks))))
}

// Tasks lists the names of the tasks, as the job lists them.
func (r *Runner) Tasks() []string { return slices.Clone(r.order) }
