package alloc_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/model/alloc"
)

// group plays a group of tasks by the flow's orders, as a node does: each order is carried out when the play says so.
type group struct {
	t     *rapid.T
	facts alloc.AllocFacts
	due   map[string]bool
	stop  map[string]string // the end of a process that was ordered: "kill" or "restart"
	trace []string          // "start NAME", "end NAME"
	round int               // of the trace: where all tasks were last told to run anew
}

func (g *group) task(name string) *alloc.TaskView {
	i := slices.IndexFunc(g.facts.Tasks, func(v alloc.TaskView) bool { return v.Name == name })
	return &g.facts.Tasks[i]
}

func (g *group) say(what string) {
	g.trace = append(g.trace, what)
}

func (g *group) fail(format string, args ...any) {
	g.t.Helper()
	g.t.Fatalf("%s\nwith %+v\nafter %v", fmt.Sprintf(format, args...), g.facts, g.trace)
}

// give has the flow decide, and checks what it decides.
func (g *group) give() alloc.AllocOrders {
	o := alloc.NextAlloc(g.facts)
	for _, k := range o.Kill {
		v := g.task(k.Task)
		if v.State == alloc.TaskRunning {
			g.inWave(v, func(o *alloc.TaskView) bool { return o.State == alloc.TaskDead }, "is told to end")
		}
		v.Ordered = true
		if v.State == alloc.TaskRunning {
			g.stop[v.Name] = "kill"
		} else {
			v.State, v.Failed = alloc.TaskDead, v.Failed || k.Fail
		}
	}
	for _, n := range o.Restart {
		v := g.task(n)
		g.inWave(v, func(o *alloc.TaskView) bool { return !o.Again || o.State != alloc.TaskRunning },
			"is told to restart")
		v.Restarting = true
		g.stop[n] = "restart"
	}
	for _, n := range o.Start {
		g.due[n] = true
	}
	return o
}

// inWave checks that whoever is to end before a task has ended.
func (g *group) inWave(v *alloc.TaskView, ended func(*alloc.TaskView) bool, what string) {
	for i := range g.facts.Tasks {
		o := &g.facts.Tasks[i]
		before := o.Leader && !v.Leader && !o.Role.Sidecar() && o.Role != alloc.RolePoststop ||
			v.Role.Sidecar() && !o.Role.Sidecar() && o.Role != alloc.RolePoststop
		if before && !ended(o) {
			g.fail("%s %s before %s has ended", v.Name, what, o.Name)
		}
	}
}

// canStart reports a task that a node starts now.
func (g *group) canStart(v *alloc.TaskView) bool {
	return v.State == alloc.TaskPending && g.due[v.Name] && !v.Ordered
}

// start starts a task, and checks that its turn has come.
func (g *group) start(v *alloc.TaskView) {
	first := !slices.Contains(g.trace[g.round:], "start "+v.Name)
	g.say("start " + v.Name)
	if g.facts.Stop && v.Role != alloc.RolePoststop && !v.Role.Sidecar() {
		g.fail("%s starts, and the group is to stop", v.Name)
	}
	for i := range g.facts.Tasks {
		o := &g.facts.Tasks[i]
		switch {
		case v.Role == alloc.RolePoststop && o.Role != alloc.RolePoststop && o.State != alloc.TaskDead:
			g.fail("%s starts, and %s has not ended", v.Name, o.Name)
		case v.Role == alloc.RolePoststop || !first:
		case v.Role == alloc.RoleMain && o.Role == alloc.RolePrestart && (o.State != alloc.TaskDead || o.Failed):
			g.fail("%s starts, and %s has not ended well", v.Name, o.Name)
		case v.Role == alloc.RoleMain && o.Role == alloc.RolePrestartSidecar && !g.started(o),
			v.Role > alloc.RoleMain && o.Role == alloc.RoleMain && !g.started(o):
			g.fail("%s starts, and %s has not started in this round", v.Name, o.Name)
		case o.Again && o.State == alloc.TaskRunning:
			g.fail("%s starts, and the old process of %s runs", v.Name, o.Name)
		}
	}
	v.State, v.Started = alloc.TaskRunning, true
	v.Again = v.Again && !g.due[v.Name]
}

func (g *group) started(v *alloc.TaskView) bool {
	return slices.Contains(g.trace[g.round:], "start "+v.Name)
}

// end ends a process: because that was ordered, or by itself.
func (g *group) end(v *alloc.TaskView, well bool) {
	g.say("end " + v.Name)
	why := g.stop[v.Name]
	delete(g.stop, v.Name)
	switch {
	case why == "restart":
		v.State, v.Restarting = alloc.TaskPending, false
	case why == "kill" || well:
		v.State = alloc.TaskDead
	case rapid.Bool().Draw(g.t, "the policy restarts it"):
		v.State = alloc.TaskPending
	default:
		v.State, v.Failed = alloc.TaskDead, true
	}
}

// renew is a restart of all tasks, as the node marks it.
func (g *group) renew() {
	if !g.facts.Renewable() || g.facts.Stop {
		return
	}
	g.say("renew")
	g.round = len(g.trace)
	for i := range g.facts.Tasks {
		v := &g.facts.Tasks[i]
		if v.Ordered && v.State != alloc.TaskDead {
			continue
		}
		v.Again, v.Ordered = true, false
		g.due[v.Name] = false
		if v.State == alloc.TaskDead {
			v.State, v.Failed = alloc.TaskPending, false
		}
	}
}

// crash is the end of the agent: what it had in memory is gone.
func (g *group) crash() {
	g.say("crash")
	g.due, g.stop = map[string]bool{}, map[string]string{}
	for i := range g.facts.Tasks {
		v := &g.facts.Tasks[i]
		v.Restarting = false
		if v.State != alloc.TaskDead {
			v.Ordered = false
		}
	}
}

var everyRole = append(slices.Clone(roles), alloc.RoleMain)

// Given a group of tasks of all places in a lifecycle, with a leader and without, whatever befalls it in whatever order
// (tasks that end well, or fail, and are restarted, a restart of one or of all, a stop, the end of the agent at any
// moment), then each task starts in its turn and ends in its wave, and once the group is told to stop it comes to an
// end, with its poststop tasks run if anything of it ran.
func TestTheOrderOfALifecycleHoldsWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := &group{t: rt, due: map[string]bool{}, stop: map[string]string{}}
		g.facts.Prepared = true
		for i, r := range everyRole {
			if r != alloc.RoleMain && !rapid.Bool().Draw(rt, fmt.Sprintf("role %d", r)) {
				continue
			}
			g.facts.Tasks = append(g.facts.Tasks, alloc.TaskView{
				Name:   fmt.Sprintf("%d-%d", r, i),
				Role:   r,
				State:  alloc.TaskPending,
				Leader: r == alloc.RoleMain && i == 2 && rapid.Bool().Draw(rt, "leader"),
			})
		}
		moves := rapid.IntRange(0, 40).Draw(rt, "moves")
		for range moves {
			g.give()
			v := &g.facts.Tasks[rapid.IntRange(0, len(g.facts.Tasks)-1).Draw(rt, "task")]
			switch rapid.SampledFrom([]string{"go", "go", "go", "go", "end", "end", "fail", "restart", "renew", "crash",
				"stop"}).Draw(rt, "move") {
			case "go":
				if g.canStart(v) {
					g.start(v)
				} else if g.stop[v.Name] != "" {
					g.end(v, true)
				}
			case "end":
				if v.State == alloc.TaskRunning && !v.Role.Sidecar() {
					g.end(v, true)
				}
			case "fail":
				if v.State == alloc.TaskRunning {
					g.end(v, false)
				}
			case "restart":
				if v.State == alloc.TaskRunning && g.stop[v.Name] == "" {
					v.Restarting = true
					g.stop[v.Name] = "restart"
				}
			case "renew":
				g.renew()
			case "crash":
				g.crash()
			case "stop":
				g.facts.Stop = rapid.IntRange(0, 3).Draw(rt, "really") == 0 || g.facts.Stop
				g.give()
			}
		}
		g.settle()
	})
}

// settle stops the group, lets everything that was ordered happen, and expects the end.
func (g *group) settle() {
	g.facts.Stop = true
	ran := slices.ContainsFunc(g.facts.Tasks, func(v alloc.TaskView) bool { return v.Started })
	for range 100 {
		if g.give().Done {
			for i := range g.facts.Tasks {
				if v := &g.facts.Tasks[i]; v.Role == alloc.RolePoststop && ran != v.Started {
					g.fail("something ran: %t, and %s started: %t", ran, v.Name, v.Started)
				}
			}
			return
		}
		for i := range g.facts.Tasks {
			v := &g.facts.Tasks[i]
			switch {
			case g.canStart(v):
				g.start(v)
			case v.State == alloc.TaskRunning && (g.stop[v.Name] != "" || v.Role == alloc.RolePoststop):
				g.end(v, true)
			}
		}
	}
	g.fail("it does not come to an end")
}

// Given a group that is left alone, when its tasks run and end by themselves, then it gets through its whole lifecycle,
// also when all of it is told to run anew at any moment in between.
func TestALifecycleGetsThroughByItself(t *testing.T) {
	for _, leader := range []bool{false, true} {
		for renewAt := range 30 {
			g := &group{due: map[string]bool{}, stop: map[string]string{}}
			g.facts.Prepared = true
			for i, r := range everyRole {
				g.facts.Tasks = append(g.facts.Tasks, alloc.TaskView{
					Name:   fmt.Sprintf("%d-%d", r, i),
					Role:   r,
					State:  alloc.TaskPending,
					Leader: leader && i == 2,
				})
			}
			steps, done := 0, false
			for ; steps < 200 && !done; steps++ {
				if steps == renewAt {
					g.renew()
				}
				done = g.give().Done
				for i := range g.facts.Tasks {
					v := &g.facts.Tasks[i]
					if g.canStart(v) {
						g.start(v)
						break
					}
					if v.State == alloc.TaskRunning && (g.stop[v.Name] != "" || !v.Role.Sidecar() && steps%3 == 0) {
						g.end(v, true)
						break
					}
				}
			}
			if !done {
				t.Fatalf("with leader %t, told to run anew at %d: it hangs with %+v\nafter %v", leader, renewAt,
					g.facts, g.trace)
			}
		}
	}
}
