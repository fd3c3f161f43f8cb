package alloc_test

import (
	"testing"
	"time"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// everyTask calls fn with every combination of facts.
func everyTask(fn func(alloc.TaskFacts)) {
	both := []bool{false, true}
	for p := alloc.ProcessNone; p <= alloc.ProcessExited; p++ {
		for _, dead := range both {
			for _, due := range both {
				for _, kill := range both {
					for _, restart := range both {
						for _, prepared := range both {
							for _, over := range both {
								for _, early := range both {
									f := alloc.TaskFacts{
										Now:      noon,
										Process:  p,
										Dead:     dead,
										Due:      due,
										Kill:     kill,
										Restart:  restart,
										Prepared: prepared,
										Over:     over,
									}
									if early {
										f.NotBefore = noon.Add(time.Second)
									}
									fn(f)
									f.Suspended = true
									fn(f)
									f.Held = true
									fn(f)
									f.Suspended = false
									fn(f)
								}
							}
						}
					}
				}
			}
		}
	}
}

func TestNextTaskForEveryCombinationOfFacts(t *testing.T) {
	seen := map[alloc.TaskDo]int{}
	everyTask(func(f alloc.TaskFacts) {
		do := alloc.NextTask(f)
		seen[do]++
		refuse := func(when bool, why string) {
			if when {
				t.Errorf("%+v: %v, although %s", f, do, why)
			}
		}
		mayLive := f.Process != alloc.ProcessNone
		refuse(mayLive && (do == alloc.TaskFinish || do == alloc.TaskRest), "a process may live")
		begun := f.Process == alloc.ProcessBegun
		refuse(mayLive && !begun && (do == alloc.TaskStart || do == alloc.TaskPrepare), "a second process would start")
		refuse((!mayLive || begun) &&
			(do == alloc.TaskStop || do == alloc.TaskWatch || do == alloc.TaskRecover || do == alloc.TaskCollect),
			"there is no process that is known")
		refuse(do == alloc.TaskAbort && (!begun || !f.Kill && !f.Over && !f.Dead && !f.Held), "it is wanted, or known")
		refuse(do == alloc.TaskStart && (f.Kill || f.Over || f.Dead), "it is to end")
		refuse(do == alloc.TaskStart && !f.Due, "it is not due")
		refuse(do == alloc.TaskStart && !f.Prepared, "its hooks have not run")
		refuse(do == alloc.TaskStart && f.Now.Before(f.NotBefore), "its pause is not over")
		refuse(f.Held &&
			(do == alloc.TaskStart || do == alloc.TaskPrepare || do == alloc.TaskPause || do == alloc.TaskAwait),
			"nothing of an orphan is started")
		refuse(f.Suspended && (do == alloc.TaskStart || do == alloc.TaskPrepare || do == alloc.TaskPause),
			"nothing may be begun with its volume")
		refuse(f.Suspended && do == alloc.TaskStop && !f.Kill && !f.Dead && !f.Over,
			"a process would be given away for a start that has to wait")
		refuse(do == alloc.TaskStop && !f.Kill && !f.Restart && !f.Dead && !f.Over, "nobody asked")
		refuse(f.Kill && (do == alloc.TaskAwait || do == alloc.TaskPause || do == alloc.TaskWatch),
			"it was ordered to end")
		refuse(f.Process == alloc.ProcessRecorded && do != alloc.TaskRecover,
			"what is recorded must be found before it is judged")
	})
	for do := alloc.TaskRest; do <= alloc.TaskFinish; do++ {
		if seen[do] == 0 {
			t.Errorf("the step %v is never taken", do)
		}
	}
}

func TestATaskOfEveryKindComesToRest(t *testing.T) {
	// Each step, carried out, changes the facts as the runner does; whatever the start, a killed task rests soon.
	everyTask(func(f alloc.TaskFacts) {
		f.Kill = true
		for range 10 {
			switch alloc.NextTask(f) {
			case alloc.TaskRest:
				return
			case alloc.TaskRecover:
				f.Process = alloc.ProcessAttached
			case alloc.TaskStop, alloc.TaskCollect, alloc.TaskAbort:
				f.Process = alloc.ProcessNone
			case alloc.TaskFinish:
				f.Dead = true
			}
		}
		t.Fatalf("a killed task never rests: %+v", f)
	})
}

func policy(mode string) *job.RestartPolicy {
	return &job.RestartPolicy{Attempts: 2, Interval: time.Minute, Delay: 10 * time.Second, Mode: mode}
}

func TestRestartPolicy(t *testing.T) {
	used := alloc.RestartMemory{Count: 2, Since: noon.Add(-30 * time.Second)}
	old := alloc.RestartMemory{Count: 2, Since: noon.Add(-time.Minute)}
	for _, c := range []struct {
		name    string
		facts   alloc.RestartFacts
		restart bool
		failed  bool
		delay   time.Duration
		count   int
	}{
		{"a service that ends well starts again",
			alloc.RestartFacts{
				Ending:  alloc.EndedWell,
				JobType: job.TypeService,
				Role:    alloc.RoleMain,
			}, true, false, 10 * time.Second, 1},
		{"a batch task that ends well is done",
			alloc.RestartFacts{
				Ending:  alloc.EndedWell,
				JobType: job.TypeBatch,
				Role:    alloc.RoleMain,
			}, false, false, 0, 0},
		{"a batch sidecar that ends well starts again",
			alloc.RestartFacts{
				Ending:  alloc.EndedWell,
				JobType: job.TypeBatch,
				Role:    alloc.RolePrestartSidecar,
			}, true, false, 10 * time.Second, 1},
		{"a prestart task of a service that ends well is done",
			alloc.RestartFacts{
				Ending:  alloc.EndedWell,
				JobType: job.TypeService,
				Role:    alloc.RolePrestart,
			}, false, false, 0, 0},
		{"a bad exit of what is to stop is its end",
			alloc.RestartFacts{Ending: alloc.EndedBadly, Stopping: true, Role: alloc.RoleMain}, false, false, 0, 0},
		{"a sidecar of what is to stop starts again",
			alloc.RestartFacts{
				Ending:   alloc.EndedBadly,
				Stopping: true,
				Role:     alloc.RolePrestartSidecar,
			}, true, false, 10 * time.Second, 1},
		{"a bad exit starts again", alloc.RestartFacts{Ending: alloc.EndedBadly, Role: alloc.RoleMain}, true, false,
			10 * time.Second, 1},
		{"a failed start counts", alloc.RestartFacts{Ending: alloc.StartFailed, Role: alloc.RoleMain}, true, false,
			10 * time.Second, 1},
		{"a refused start fails at once", alloc.RestartFacts{Ending: alloc.StartRefused, Role: alloc.RoleMain}, false,
			true, 0, 0},
		{"a wish for a restart is not counted",
			alloc.RestartFacts{Ending: alloc.RestartAsked, Memory: used, Role: alloc.RoleMain}, true, false, 0, 2},
		{"used-up attempts fail", alloc.RestartFacts{Ending: alloc.EndedBadly, Memory: used, Role: alloc.RoleMain},
			false, true, 0, 3},
		{"used-up attempts of a service that ends well fail as well",
			alloc.RestartFacts{Ending: alloc.EndedWell, Memory: used, Role: alloc.RoleMain}, false, true, 0, 3},
		{"a new interval begins anew", alloc.RestartFacts{Ending: alloc.EndedBadly, Memory: old, Role: alloc.RoleMain},
			true, false, 10 * time.Second, 1},
		{"mode delay waits for the next interval",
			alloc.RestartFacts{
				Ending: alloc.EndedBadly,
				Memory: used,
				Role:   alloc.RoleMain,
				Policy: policy(job.RestartDelay),
			}, true, false, 40 * time.Second, 0},
		{"no attempts fail",
			alloc.RestartFacts{
				Ending: alloc.EndedBadly,
				Role:   alloc.RoleMain,
				Policy: &job.RestartPolicy{Mode: job.RestartFail},
			}, false, true, 0, 0},
		{"jitter adds at most a quarter", alloc.RestartFacts{Ending: alloc.EndedBadly, Role: alloc.RoleMain, Jitter: 7},
			true, false, 12500 * time.Millisecond, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.facts.Now = noon
			if c.facts.Policy == nil {
				c.facts.Policy = policy(job.RestartFail)
			}
			v := alloc.NextRestart(c.facts)
			if v.Restart != c.restart || v.Failed != c.failed || v.Delay != c.delay || v.Memory.Count != c.count {
				t.Errorf("got %+v", v)
			}
			if !v.Restart && v.Failed && v.Reason == "" {
				t.Error("a failure without a reason")
			}
		})
	}
}

func TestPluginsRestartWithoutLimitEverSlower(t *testing.T) {
	m := alloc.RestartMemory{}
	now, last := noon, time.Duration(0)
	for i := range 40 {
		v := alloc.NextRestart(alloc.RestartFacts{
			Now:       now,
			Ending:    alloc.EndedBadly,
			Memory:    m,
			Unlimited: true,
			Ran:       time.Second,
			JobType:   job.TypeSystem,
		})
		if !v.Restart || v.Delay < last || v.Delay > 30*time.Second {
			t.Fatalf("restart %d: %+v after a pause of %s", i, v, last)
		}
		if i == 0 && v.Delay != 500*time.Millisecond {
			t.Errorf("the first pause is %s", v.Delay)
		}
		m = v.Memory
		last = v.Delay
		now = now.Add(v.Delay)
	}
	if last != 30*time.Second {
		t.Errorf("the pause ends at %s", last)
	}
	v := alloc.NextRestart(alloc.RestartFacts{
		Now:       now,
		Ending:    alloc.EndedBadly,
		Memory:    m,
		Unlimited: true,
		Ran:       time.Hour,
	})
	if v.Delay != 500*time.Millisecond {
		t.Errorf("one that ran for an hour waits %s", v.Delay)
	}
}

// Given a policy of many restarts without a pause, when a task ends again and again, then the first five restarts of an
// interval are at once, those after them a second apart, and the next interval begins anew; a longer delay stays.
func TestRestartsWithoutAPauseAreFew(t *testing.T) {
	facts := alloc.RestartFacts{
		Now:     noon,
		Ending:  alloc.EndedBadly,
		JobType: job.TypeService,
		Role:    alloc.RoleMain,
		Policy: &job.RestartPolicy{
			Attempts: 1 << 30,
			Interval: 10 * time.Second,
			Delay:    time.Nanosecond,
			Mode:     job.RestartFail,
		},
	}
	starts := 0
	for end := noon.Add(10 * time.Second); facts.Now.Before(end); starts++ {
		v := alloc.NextRestart(facts)
		if !v.Restart || starts < 5 && v.Delay > time.Millisecond || starts >= 5 && v.Delay != time.Second {
			t.Fatalf("restart %d: %+v", starts+1, v)
		}
		facts.Now, facts.Memory = facts.Now.Add(v.Delay), v.Memory
	}
	if starts != 15 {
		t.Errorf("%d restarts in ten seconds, want 15", starts)
	}
	if v := alloc.NextRestart(facts); v.Memory.Count != 1 || v.Delay > time.Millisecond {
		t.Errorf("the next interval begins with %+v", v)
	}
	facts.Policy.Delay = 3 * time.Second
	facts.Now, facts.Memory.Count = facts.Memory.Since, 9
	if v := alloc.NextRestart(facts); v.Delay != 3*time.Second {
		t.Errorf("a delay of three seconds becomes %s", v.Delay)
	}
}

// Given a task of an orphan, when its run ends within the restart policy, then it does not start again; it has failed
// only when that end was a bad one, and the reason names the orphan.
func TestATaskOfAnOrphanIsNotStartedAgain(t *testing.T) {
	policy := &job.RestartPolicy{Attempts: 2, Interval: time.Minute, Delay: time.Second, Mode: job.RestartFail}
	for ending, failed := range map[alloc.Ending]bool{alloc.EndedWell: false, alloc.EndedBadly: true,
		alloc.StartFailed: true} {
		for _, unlimited := range []bool{false, true} {
			f := alloc.RestartFacts{
				Now:       noon,
				Ending:    ending,
				Policy:    policy,
				JobType:   job.TypeService,
				Role:      alloc.RoleMain,
				Unlimited: unlimited,
			}
			if !alloc.NextRestart(f).Restart {
				t.Errorf("ending %d: an alloc that the servers know is not restarted", ending)
			}
			f.Held = true
			if v := alloc.NextRestart(f); v.Restart || v.Failed != failed || v.Reason != alloc.HeldReason ||
				v.Memory != f.Memory {
				t.Errorf("ending %d, unlimited %v: %+v", ending, unlimited, v)
			}
		}
	}
}
