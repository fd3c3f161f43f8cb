package deployment_test

import (
	"fmt"
	"testing"
	"time"

	"berth/internal/model/deployment"
)

// TestEveryCombination of the facts about a deployment of one group: what is to be done follows from sentences, in the
// order in which they count, which are written here once more and in other words.
func TestEveryCombination(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const deadline = time.Minute
	count := 0
	each := func(status string, canaries int, promoted, itself, revert, atOnce, late, watched bool,
		g deployment.GroupFacts) {
		count++
		d := &deployment.Deployment{Status: status, ModifyIndex: 5, Groups: map[string]*deployment.Group{"g": {
			AutoRevert:       revert,
			AutoPromote:      itself,
			ProgressDeadline: deadline,
			DesiredTotal:     g.Want,
			DesiredCanaries:  canaries,
			Promoted:         promoted,
		}}}
		if atOnce {
			d.Groups["g"].ProgressDeadline = 0
		}
		f := deployment.Facts{
			Deployment: d,
			Groups:     map[string]deployment.GroupFacts{"g": g},
			Memory:     deployment.Memory{"g": {Mark: 5, Since: begun}},
		}
		if watched {
			f.Now = begun.Add(time.Second)
			if late {
				f.Now = begun.Add(deadline)
			}
		}
		trying := canaries > 0 && !promoted
		tried := trying && g.Tried >= canaries
		complete := !trying && g.Old == 0 && g.Here >= g.Want && g.Here == g.Healthy
		var want deployment.Do
		switch {
		case status != deployment.Running:
			want = deployment.Rest
		case atOnce && g.Bad > 0 && !complete:
			want = deployment.Fail
		case !atOnce && watched && late && !complete && !tried:
			want = deployment.Fail
		case tried && itself:
			want = deployment.Promote
		case complete:
			want = deployment.Succeed
		default:
			want = deployment.Await
		}
		wrong := func(format string, args ...any) {
			t.Errorf("%s, %d canaries (promoted %v, by itself %v), revert %v, at once %v, late %v, watched %v: %+v: %s",
				status, canaries, promoted, itself, revert, atOnce, late, watched, g, fmt.Sprintf(format, args...))
		}
		v := deployment.Next(f)
		switch {
		case v.Do != want:
			wrong("%s, want %s", v.Do, want)
		case v.Do == deployment.Fail && v.Revert != (revert && g.Storage == ""):
			wrong("goes back: %v", v.Revert)
		case v.Do == deployment.Fail && g.Storage != "" && v.Why == deployment.WhyLate:
			wrong("does not say what it waited for")
		case (v.Do == deployment.Await && watched && !atOnce && !tried) == v.Until.IsZero():
			wrong("looks again at %s", v.Until)
		case !v.Until.IsZero() && !v.Until.Equal(begun.Add(deadline)):
			wrong("looks again at %s", v.Until)
		}
	}
	bools := []bool{false, true}
	for _, status := range []string{deployment.Running, deployment.Paused, deployment.Successful, deployment.Failed,
		deployment.Cancelled} {
		for canaries := range 3 {
			for _, promoted := range bools {
				for _, itself := range bools {
					for _, revert := range bools {
						for _, atOnce := range bools {
							for _, late := range bools {
								for _, watched := range bools {
									for n := range 3 * 3 * 2 * 2 * 3 * 2 {
										g := groupOf(n)
										if g.Healthy <= g.Here {
											each(status, canaries, promoted, itself, revert, atOnce, late, watched, g)
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
	if count < 50_000 {
		t.Errorf("only %d combinations", count)
	}
}

// groupOf numbers the facts about a group that wants two.
func groupOf(n int) deployment.GroupFacts {
	take := func(of int) int {
		v := n % of
		n /= of
		return v
	}
	g := deployment.GroupFacts{
		Want:    2,
		Here:    take(3),
		Healthy: take(3),
		Old:     take(2),
		Bad:     take(2),
		Tried:   take(3),
	}
	if take(2) == 1 {
		g.Storage = "volume \"data\" is not there"
	}
	return g
}

// TestProgressBeginsTheTimeAnew: each alloc that becomes healthy does, and each decision; a pause takes none.
func TestProgressBeginsTheTimeAnew(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := &deployment.Deployment{Status: deployment.Running, ModifyIndex: 5,
		Groups: map[string]*deployment.Group{"g": {ProgressDeadline: time.Minute}}}
	look := func(m deployment.Memory, mark uint64) deployment.Result {
		return deployment.Next(deployment.Facts{
			Now:        now,
			Deployment: d,
			Groups:     map[string]deployment.GroupFacts{"g": {Want: 3, Here: 3, Mark: mark}},
			Memory:     m,
		})
	}
	v := look(nil, 0)
	now = now.Add(50 * time.Second)
	v = look(v.Memory, 9) // one became healthy
	now = now.Add(50 * time.Second)
	if v = look(v.Memory, 9); v.Do != deployment.Await {
		t.Fatalf("after progress: %s", v.Do)
	}
	d = d.With(deployment.Paused, "")
	now = now.Add(time.Hour)
	if v = look(v.Memory, 9); v.Do != deployment.Rest || v.Memory != nil {
		t.Fatalf("paused: %s, %v", v.Do, v.Memory)
	}
	d = d.With(deployment.Running, "")
	d.ModifyIndex = 12
	v = look(v.Memory, 9)
	now = now.Add(59 * time.Second)
	if v = look(v.Memory, 9); v.Do != deployment.Await {
		t.Fatalf("after the pause: %s", v.Do)
	}
	now = now.Add(time.Second)
	if v = look(v.Memory, 9); v.Do != deployment.Fail || v.Why != deployment.WhyLate {
		t.Fatalf("a minute after the pause: %s %q", v.Do, v.Why)
	}
}

// TestGroupsWaitForEachOther: canaries are promoted when those of all groups are healthy and all groups say so.
func TestGroupsWaitForEachOther(t *testing.T) {
	for _, c := range []struct {
		itself, tried [2]bool
		want          deployment.Do
	}{
		{[2]bool{true, true}, [2]bool{true, true}, deployment.Promote},
		{[2]bool{true, true}, [2]bool{true, false}, deployment.Await},
		{[2]bool{true, false}, [2]bool{true, true}, deployment.Await},
	} {
		d := &deployment.Deployment{Status: deployment.Running, Groups: map[string]*deployment.Group{}}
		f := deployment.Facts{Deployment: d, Groups: map[string]deployment.GroupFacts{"plain": {}}}
		d.Groups["plain"] = &deployment.Group{}
		for i, name := range []string{"a", "b"} {
			d.Groups[name] = &deployment.Group{DesiredCanaries: 1, AutoPromote: c.itself[i]}
			g := deployment.GroupFacts{Old: 1}
			if c.tried[i] {
				g.Tried = 1
			}
			f.Groups[name] = g
		}
		if got := deployment.Next(f).Do; got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
