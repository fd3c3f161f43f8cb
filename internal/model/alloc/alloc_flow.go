package alloc

import "berth/internal/model/job"

// TaskRole is a task's place in the lifecycle of its group.
type TaskRole uint8

// Roles, in the order in which they may start.
const (
	RolePrestart TaskRole = iota
	RolePrestartSidecar
	RoleMain
	RolePoststart
	RolePoststartSidecar
	RolePoststop
)

// RoleOf reads a task's lifecycle block.
func RoleOf(t *job.Task) TaskRole {
	switch {
	case t.Lifecycle == nil || t.Lifecycle.Hook == "":
		return RoleMain
	case t.Lifecycle.Hook == job.HookPrestart && t.Lifecycle.Sidecar:
		return RolePrestartSidecar
	case t.Lifecycle.Hook == job.HookPrestart:
		return RolePrestart
	case t.Lifecycle.Hook == job.HookPoststart && t.Lifecycle.Sidecar:
		return RolePoststartSidecar
	case t.Lifecycle.Hook == job.HookPoststart:
		return RolePoststart
	}
	return RolePoststop
}

// Once reports roles whose tasks run to their end and are done.
func (r TaskRole) Once() bool { return r == RolePrestart || r == RolePoststart || r == RolePoststop }

// Sidecar reports roles whose tasks run beside the main tasks and end after them.
func (r TaskRole) Sidecar() bool { return r == RolePrestartSidecar || r == RolePoststartSidecar }

// TaskView is what decides a task's part in the alloc's next step.
type TaskView struct {
	Name    string
	Role    TaskRole
	Leader  bool
	State   string // TaskPending, TaskRunning, TaskDead
	Failed  bool
	Started bool // a process of it ran at least once
	Ordered bool // its end was ordered already
	// Again: all tasks of the alloc are to run anew, and this one has not started since.
	Again      bool
	Restarting bool // the end of the process that it has for a restart was ordered already
}

// begun reports whether what comes after the task's start has a task that started.
func (t TaskView) begun() bool { return t.Started && !t.Again }

// old reports a process that has to end before anything runs anew.
func (t TaskView) old() bool { return t.Again && t.State == TaskRunning }

func (t TaskView) dead() bool { return t.State == TaskDead }

// AllocFacts decide what an alloc does next.
type AllocFacts struct {
	Prepared bool // the hooks before the first task are done
	Refused  bool // a hook before the first task failed for good
	Stop     bool // the servers or the agent want it gone
	Force    bool // poststop tasks are ended too
	Overdue  bool // it has run for as long as it may
	Held     bool // it is an orphan: nothing is started, and nothing is ended for what happened to another task
	Tasks    []TaskView
}

// KillOrder ends a task; Why is the type of the event that explains it.
type KillOrder struct {
	Task string
	Why  string
	Fail bool // the task counts as failed, although it never ran or ends well
}

// AllocOrders are all that an alloc does now.
type AllocOrders struct {
	Start []string // their turn has come
	// Restart are those whose processes end, to start again when their turn comes.
	Restart []string
	Kill    []KillOrder
	Done    bool // every task is dead
}

// NextAlloc says which tasks may start and which must end. Tasks end in waves: the leader, then the main tasks, then
// the sidecars; poststop tasks run when all of them are dead. Where all tasks are to run anew, they end in the same
// waves, and then start in the order of the first time.
func NextAlloc(f AllocFacts) AllocOrders {
	why := f.ending()
	var o AllocOrders
	o.Done = true
	for _, t := range f.Tasks {
		o.Done = o.Done && t.dead()
	}
	if o.Done {
		return o
	}
	if f.Held && !f.Stop {
		return o // each task ends by itself
	}
	if why != "" {
		f.kill(&o, why)
	} else {
		o.Restart = f.restart()
	}
	for _, t := range f.Tasks {
		if f.mayStart(t, why != "") {
			o.Start = append(o.Start, t.Name)
		}
	}
	return o
}

// ending tells whether the alloc's tasks come to their end, and the event that says why.
func (f AllocFacts) ending() string {
	mains, mainsDead := 0, 0
	failed, leader := false, false
	for _, t := range f.Tasks {
		if t.Role == RolePoststop {
			continue
		}
		if t.Role == RoleMain {
			mains++
			if t.dead() {
				mainsDead++
			}
		}
		failed = failed || t.Failed && t.dead()
		leader = leader || t.Leader && t.dead()
	}
	switch {
	case f.Refused:
		return EventSetupFailure
	case f.Stop:
		return EventKilling
	case failed:
		return EventSiblingFailed
	case leader:
		return EventLeaderDead
	case mains > 0 && mains == mainsDead:
		return EventMainDead
	case f.Overdue:
		return EventOverdue
	}
	return ""
}

// wave of a task in the order of ending.
func (t TaskView) wave() int {
	switch {
	case t.Role == RolePoststop:
		return 3
	case t.Role.Sidecar():
		return 2
	case t.Leader:
		return 0
	}
	return 1
}

// kill orders the end of the first wave that is not dead yet, and of what has no process: it is not to start meanwhile,
// but for a sidecar on which tasks that have not ended may count. A poststart task that runs once is let to its end
// when the main tasks ended by themselves.
func (f AllocFacts) kill(o *AllocOrders, why string) {
	first := f.firstWave()
	for _, t := range f.Tasks {
		idle := t.State == TaskPending && t.Role != RolePoststop && !(t.Role.Sidecar() && t.begun())
		finishing := why == EventMainDead && t.Role == RolePoststart && t.begun() && !f.Overdue
		if f.ends(t) && !t.Ordered && !finishing && (idle || t.wave() == first) {
			o.Kill = append(o.Kill, KillOrder{Task: t.Name, Why: why, Fail: f.Refused || why == EventOverdue})
		}
	}
}

// ends reports a task that is to be dead and is not. Poststop tasks end by themselves.
func (f AllocFacts) ends(t TaskView) bool {
	return !t.dead() && (t.Role != RolePoststop || f.Force || f.neverRan())
}

// firstWave is the one whose turn it is to end.
func (f AllocFacts) firstWave() int {
	first := 4
	for _, t := range f.Tasks {
		if f.ends(t) {
			first = min(first, t.wave())
		}
	}
	return first
}

// restart lists whose processes end now, of the first wave that has some.
func (f AllocFacts) restart() (out []string) {
	for wave := range 3 {
		alive := false
		for _, t := range f.Tasks {
			if !t.old() || t.wave() != wave {
				continue
			}
			alive = true
			if !t.Restarting {
				out = append(out, t.Name)
			}
		}
		if alive {
			break
		}
	}
	return out
}

// Renewable reports whether all tasks of an alloc can be told to run anew: not once they come to their end.
func (f AllocFacts) Renewable() bool { return f.ending() == "" }

// neverRan reports that no process of the alloc ever ran: then there is nothing that poststop tasks could clean up.
func (f AllocFacts) neverRan() bool {
	for _, t := range f.Tasks {
		if t.Started {
			return false
		}
	}
	return true
}

func (f AllocFacts) mayStart(t TaskView, ending bool) bool {
	if t.dead() || t.Ordered || !f.Prepared {
		return false
	}
	if t.Role == RolePoststop {
		return ending && !f.Force && !f.neverRan() && f.all(func(o TaskView) bool {
			return o.Role == RolePoststop || o.dead()
		})
	}
	if ending || !f.all(func(o TaskView) bool { return !o.old() }) {
		return false
	}
	switch t.Role {
	case RoleMain:
		return f.all(func(o TaskView) bool {
			return o.Role > RolePrestartSidecar || o.Role == RolePrestart && o.dead() ||
				o.Role == RolePrestartSidecar && o.begun()
		})
	case RolePoststart, RolePoststartSidecar:
		return f.all(func(o TaskView) bool { return o.Role != RoleMain || o.begun() })
	}
	return true
}

func (f AllocFacts) all(ok func(TaskView) bool) bool {
	for _, t := range f.Tasks {
		if !ok(t) {
			return false
		}
	}
	return true
}

// Descriptions of an alloc whose tasks have ended, and whose end nothing but its storage and directories hold up.
const (
	releasing     = "Tasks have ended; waiting until storage and directories are released"
	neverRanWaits = "Waiting until storage and directories are released"
)

// ClientState derives the alloc's client status. Complete and failed are said only when every task is dead and the
// hooks after the last task have let everything go.
func ClientState(f AllocFacts, released bool) (status, description string) {
	running := 0
	dead := 0
	failed := f.Refused
	started := false
	for _, t := range f.Tasks {
		started = started || t.Started
		failed = failed || t.Failed
		switch {
		case t.dead():
			dead++
		case t.State == TaskRunning:
			running++
		}
	}
	switch {
	case dead < len(f.Tasks) && (running > 0 || started && f.ending() != ""):
		return ClientRunning, "Tasks are running"
	case dead < len(f.Tasks):
		if started {
			return ClientPending, "No task is running"
		}
		return ClientPending, "No tasks have started"
	case !released && started:
		return ClientRunning, releasing
	case !released:
		return ClientPending, neverRanWaits
	case failed:
		return ClientFailed, "Failed tasks"
	}
	return ClientComplete, "All tasks have completed"
}
