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
}

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
	Kill  []KillOrder
	Done  bool // every task is dead
}

// NextAlloc says which tasks may start and which must end. Tasks end in waves: the leader, then the main tasks, then
// the sidecars; poststop tasks run when all of them are dead.
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

// kill orders the end of the first wave that is not dead yet. A poststart task that runs once is let to its end when
// the main tasks ended by themselves.
func (f AllocFacts) kill(o *AllocOrders, why string) {
	for wave := range 4 {
		alive := false
		for _, t := range f.Tasks {
			if t.dead() || t.wave() != wave || wave == 3 && !f.Force && !f.neverRan() {
				continue
			}
			alive = true
			finishing := why == EventMainDead && t.Role == RolePoststart && t.Started && !f.Overdue
			if !t.Ordered && !finishing {
				o.Kill = append(o.Kill, KillOrder{Task: t.Name, Why: why, Fail: f.Refused || why == EventOverdue})
			}
		}
		if alive {
			return
		}
	}
}

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
	if ending {
		return false
	}
	switch t.Role {
	case RoleMain:
		return f.all(func(o TaskView) bool {
			return o.Role > RolePrestartSidecar || o.Role == RolePrestart && o.dead() ||
				o.Role == RolePrestartSidecar && o.Started
		})
	case RolePoststart, RolePoststartSidecar:
		return f.all(func(o TaskView) bool { return o.Role != RoleMain || o.Started })
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
