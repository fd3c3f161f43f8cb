package alloc_test

import (
	"reflect"
	"slices"
	"testing"

	"berth/internal/model/alloc"
)

var roles = []alloc.TaskRole{alloc.RolePrestart, alloc.RolePrestartSidecar, alloc.RoleMain, alloc.RolePoststart,
	alloc.RolePoststartSidecar, alloc.RolePoststop}

// stage of a task, for the product of all.
type stage struct {
	state           string
	failed, started bool
	ordered         bool
}

var stages = []stage{
	{alloc.TaskPending, false, false, false},
	{alloc.TaskPending, false, true, false}, // between two starts
	{alloc.TaskRunning, false, true, false},
	{alloc.TaskRunning, false, true, true},
	{alloc.TaskDead, false, true, false},
	{alloc.TaskDead, true, true, false},
	{alloc.TaskDead, false, false, true},
}

func view(name string, r alloc.TaskRole, s stage) alloc.TaskView {
	return alloc.TaskView{
		Name:    name,
		Role:    r,
		State:   s.state,
		Failed:  s.failed,
		Started: s.started,
		Ordered: s.ordered,
	}
}

func TestNextAllocForEveryPairAndTripleOfTasks(t *testing.T) {
	both := []bool{false, true}
	for _, r1 := range roles {
		for _, r2 := range roles {
			for _, s1 := range stages {
				for _, s2 := range stages {
					for _, s3 := range stages {
						for _, prepared := range both {
							for _, refused := range both {
								for _, stop := range both {
									for _, force := range both {
										checkOrders(t, alloc.AllocFacts{
											Prepared: prepared,
											Refused:  refused,
											Stop:     stop,
											Force:    force,
											Tasks: []alloc.TaskView{
												view("a", r1, s1), view("b", r2, s2), view("main", alloc.RoleMain, s3)},
										})
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

func checkOrders(t *testing.T, f alloc.AllocFacts) {
	t.Helper()
	o := alloc.NextAlloc(f)
	byName := map[string]alloc.TaskView{}
	dead := 0
	for _, v := range f.Tasks {
		byName[v.Name] = v
		if v.State == alloc.TaskDead {
			dead++
		}
	}
	fail := func(why string) { t.Fatalf("%+v\ngives %+v, although %s", f, o, why) }
	if o.Done != (dead == len(f.Tasks)) {
		fail("done means that every task is dead, and nothing else")
	}
	for _, n := range o.Start {
		v := byName[n]
		switch {
		case v.State == alloc.TaskDead, v.Ordered:
			fail("an ended task must not start")
		case !f.Prepared:
			fail("the hooks before the first task are not done")
		case (f.Stop || f.Refused) && v.Role != alloc.RolePoststop:
			fail("the alloc is to end")
		}
		for _, other := range f.Tasks {
			if v.Role == alloc.RoleMain && other.Role == alloc.RolePrestart && other.State != alloc.TaskDead {
				fail("a prestart task has not ended")
			}
			if v.Role == alloc.RolePoststop && other.Role != alloc.RolePoststop && other.State != alloc.TaskDead {
				fail("a poststop task comes after all others")
			}
		}
	}
	for _, k := range o.Kill {
		v := byName[k.Task]
		if v.State == alloc.TaskDead || v.Ordered {
			fail("it was ended already")
		}
		if slices.Contains(o.Start, k.Task) {
			fail("the same task is started and ended")
		}
		for _, other := range f.Tasks {
			if v.Role.Sidecar() && v.Started && other.Role == alloc.RoleMain && other.State != alloc.TaskDead {
				fail("a sidecar ends after the main tasks")
			}
		}
	}
	if f.Stop && f.Force && dead < len(f.Tasks) && len(o.Kill) == 0 {
		ordered := false
		for _, v := range f.Tasks {
			ordered = ordered || v.Ordered && v.State != alloc.TaskDead
		}
		if !ordered {
			fail("a forced stop must make progress")
		}
	}
}

// TestAnOrphanIsLeftAlone: whatever happened to its tasks, nothing is started, and nothing is ended but by a stop.
func TestAnOrphanIsLeftAlone(t *testing.T) {
	both := []bool{false, true}
	for _, r := range roles {
		for _, s1 := range stages {
			for _, s2 := range stages {
				for _, prepared := range both {
					for _, refused := range both {
						f := alloc.AllocFacts{
							Held:     true,
							Prepared: prepared,
							Refused:  refused,
							Tasks:    []alloc.TaskView{view("a", r, s1), view("main", alloc.RoleMain, s2)},
						}
						o := alloc.NextAlloc(f)
						if len(o.Start)+len(o.Kill) > 0 ||
							o.Done != (s1.state == alloc.TaskDead && s2.state == alloc.TaskDead) {
							t.Fatalf("%+v\ngives %+v", f, o)
						}
						f.Stop = true
						plain := f
						plain.Held = false
						if o, p := alloc.NextAlloc(f), alloc.NextAlloc(plain); !reflect.DeepEqual(o, p) {
							t.Fatalf("a stop of %+v\ngives %+v, without being held %+v", f, o, p)
						}
					}
				}
			}
		}
	}
}

func TestTheLifecycleOfAGroup(t *testing.T) {
	init, proxy := view("init", alloc.RolePrestart, stages[0]), view("proxy", alloc.RolePrestartSidecar, stages[0])
	main, after := view("main", alloc.RoleMain, stages[0]), view("after", alloc.RolePoststop, stages[0])
	next := func() alloc.AllocOrders {
		return alloc.NextAlloc(alloc.AllocFacts{Prepared: true, Tasks: []alloc.TaskView{init, proxy, main, after}})
	}
	is := func(what string, got, want []string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	killed := func(o alloc.AllocOrders) (out []string) {
		for _, k := range o.Kill {
			out = append(out, k.Task+" "+k.Why)
		}
		return out
	}

	is("first", next().Start, []string{"init", "proxy"})
	proxy = view("proxy", alloc.RolePrestartSidecar, stages[2])
	init = view("init", alloc.RolePrestart, stages[2])
	is("while init runs", next().Start, []string{"init", "proxy"}) // an open gate stays open
	init = view("init", alloc.RolePrestart, stages[4])
	is("when init is done", next().Start, []string{"proxy", "main"})
	main = view("main", alloc.RoleMain, stages[4])
	is("when main has ended", killed(next()), []string{"proxy " + alloc.EventMainDead})
	proxy = view("proxy", alloc.RolePrestartSidecar, stages[4])
	is("at the end", next().Start, []string{"after"})
	after = view("after", alloc.RolePoststop, stages[4])
	if !next().Done {
		t.Error("not done though all are dead")
	}
}

func TestALeaderEndsTheOthersAndAFailedTaskItsSiblings(t *testing.T) {
	lead, other := view("lead", alloc.RoleMain, stages[4]), view("other", alloc.RoleMain, stages[2])
	lead.Leader = true
	o := alloc.NextAlloc(alloc.AllocFacts{Prepared: true, Tasks: []alloc.TaskView{lead, other}})
	if len(o.Kill) != 1 || o.Kill[0].Why != alloc.EventLeaderDead || o.Kill[0].Task != "other" {
		t.Errorf("the leader's end: %+v", o)
	}
	failed := view("failed", alloc.RoleMain, stages[5])
	o = alloc.NextAlloc(alloc.AllocFacts{Prepared: true, Tasks: []alloc.TaskView{failed, other}})
	if len(o.Kill) != 1 || o.Kill[0].Why != alloc.EventSiblingFailed {
		t.Errorf("a sibling's failure: %+v", o)
	}
	lead = view("lead", alloc.RoleMain, stages[2])
	lead.Leader = true
	o = alloc.NextAlloc(alloc.AllocFacts{Prepared: true, Stop: true, Tasks: []alloc.TaskView{other, lead}})
	if len(o.Kill) != 1 || o.Kill[0].Task != "lead" {
		t.Errorf("a stop ends the leader first: %+v", o)
	}
}

func TestARefusedAllocFailsItsTasks(t *testing.T) {
	f := alloc.AllocFacts{
		Refused: true,
		Tasks: []alloc.TaskView{view("main", alloc.RoleMain, stages[0]),
			view("after", alloc.RolePoststop, stages[0])},
	}
	o := alloc.NextAlloc(f)
	if len(o.Kill) != 1 || o.Kill[0].Task != "main" || !o.Kill[0].Fail {
		t.Fatalf("first wave: %+v", o)
	}
	f.Tasks[0] = view("main", alloc.RoleMain, stages[6])
	if o = alloc.NextAlloc(f); len(o.Kill) != 1 || o.Kill[0].Task != "after" || len(o.Start) != 0 {
		t.Errorf("a poststop task of an alloc that never ran: %+v", o)
	}
}

func TestClientStateSaysCompleteAndFailedOnlyWhenAllIsReleased(t *testing.T) {
	for _, s1 := range stages {
		for _, s2 := range stages {
			for _, released := range []bool{false, true} {
				for _, refused := range []bool{false, true} {
					f := alloc.AllocFacts{
						Refused: refused,
						Tasks:   []alloc.TaskView{view("a", alloc.RoleMain, s1), view("b", alloc.RolePoststop, s2)},
					}
					status, text := alloc.ClientState(f, released)
					dead := s1.state == alloc.TaskDead && s2.state == alloc.TaskDead
					ended := status == alloc.ClientComplete || status == alloc.ClientFailed
					if ended != (dead && released) {
						t.Errorf("%+v released %v: %s", f, released, status)
					}
					if ended && (status == alloc.ClientFailed) != (s1.failed || s2.failed || refused) {
						t.Errorf("%+v: %s", f, status)
					}
					if text == "" {
						t.Errorf("%s without words", status)
					}
				}
			}
		}
	}
}
