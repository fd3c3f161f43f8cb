package alloc_test

import (
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// checkedGroup is healthGroup with a check, and how its allocs are held to be healthy.
func checkedGroup(by, onUpdate string) *job.TaskGroup {
	u := *tenSeconds
	u.HealthCheck = by
	g := healthGroup(&u)
	g.Services = []*job.Service{{Name: "web", Checks: []*job.ServiceCheck{{Name: "c", OnUpdate: onUpdate}}}}
	return g
}

func checks(failing string) func(*alloc.Alloc) {
	return func(a *alloc.Alloc) { a.Checks = &alloc.Checks{Failing: failing} }
}

// TestChecksDecideHealth: given a group's health_check, what its checks are for, and what the node says of them, then
// an alloc whose tasks all run becomes healthy after ten seconds, or is late with a reason.
func TestChecksDecideHealth(t *testing.T) {
	const fails = `check "c" of service "web": refused`
	for what, c := range map[string]struct {
		by, onUpdate string
		edit         func(*alloc.Alloc)
		late         string
	}{
		"they pass":                  {by: "checks", edit: checks("")},
		"one fails":                  {by: "checks", edit: checks(fails), late: "not healthy within 1m0s: " + fails},
		"nothing is known yet":       {by: "checks", late: "its checks have not been asked yet"},
		"one fails that decides not": {by: "checks", onUpdate: job.OnUpdateIgnore, edit: checks(fails)},
		"tasks alone decide":         {by: "task_states", edit: checks(fails)},
		"warnings decide, it fails": {
			by:       "checks",
			onUpdate: job.OnUpdateIgnoreWarnings,
			edit:     checks(fails),
			late:     fails,
		},
		"tasks alone, nothing is known": {by: "task_states"},
	} {
		a := with()
		if c.edit != nil {
			c.edit(a)
		}
		f := alloc.HealthFacts{Now: noon, Alloc: a, Group: checkedGroup(c.by, c.onUpdate)}
		first := alloc.NextHealth(f)
		f.Memory = first.Memory
		f.Now = noon.Add(10 * time.Second)
		if v := alloc.NextHealth(f); (v.Do == alloc.HealthGood) != (c.late == "") {
			t.Errorf("%s: after ten seconds %s", what, v.Do)
		}
		f.Now = noon.Add(time.Minute)
		if v := alloc.NextHealth(f); c.late != "" && (v.Do != alloc.HealthBad || !strings.Contains(v.Reason, c.late)) {
			t.Errorf("%s: after the deadline %s: %s", what, v.Do, v.Reason)
		}
	}
}

// TestACheckThatFailsEndsHealth: one that was healthy is judged anew when a check of it fails, and counts anew from
// when it passes.
func TestACheckThatFailsEndsHealth(t *testing.T) {
	g := checkedGroup("checks", "")
	healthy := func(a *alloc.Alloc) { a.Health = &alloc.Health{Healthy: true} }
	was := with(healthy, checks(""))
	if do, _ := alloc.HealthByReport(was, with(healthy, checks("x")), g); do != alloc.HealthAwait {
		t.Errorf("a check fails: %s", do)
	}
	if do, _ := alloc.HealthByReport(was, with(healthy, checks("")), g); do != alloc.HealthRest {
		t.Errorf("nothing changed: %s", do)
	}
	f := alloc.HealthFacts{Now: noon, Alloc: with(checks("x")), Group: g}
	f.Memory = alloc.NextHealth(f).Memory
	f.Now, f.Alloc = noon.Add(30*time.Second), with(checks(""))
	v := alloc.NextHealth(f)
	if v.Do != alloc.HealthAwait || !v.Until.Equal(noon.Add(40*time.Second)) {
		t.Errorf("it passes since half a minute: %s until %s", v.Do, v.Until)
	}
}

// TestTheWordsOfChecksAreBounded: an agent shortens what a check said, and servers refuse what no agent sends.
func TestTheWordsOfChecksAreBounded(t *testing.T) {
	said := &alloc.Checks{Failing: strings.Repeat("x", 1<<20)}
	a := &alloc.Alloc{ID: "a", ClientStatus: alloc.ClientRunning, Checks: said}
	if err := a.CheckReport(); !fault.Has(err, fault.Invalid) {
		t.Errorf("a megabyte is taken: %v", err)
	}
	a.Bound()
	if err := a.CheckReport(); err != nil || len(a.Checks.Failing) > 4<<10 || len(said.Failing) != 1<<20 {
		t.Errorf("shortened to %d bytes: %v", len(a.Checks.Failing), err)
	}
}
