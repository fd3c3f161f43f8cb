package periodic

import (
	"testing"
	"time"

	"berth/internal/model/job"
)

func at(text string) time.Time {
	out, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return out
}

// Given a job whose launches were missed for long, when it is looked at, then one is made good, the newest; when the
// clock goes back, then nothing is launched again; nor ever of a job that is not enabled, or stopped.
func TestOneOfWhatWasMissedIsMadeGood(t *testing.T) {
	j := &job.Job{
		SubmitTime: at("2026-01-01T00:00:00Z").UnixNano(),
		Periodic:   &job.PeriodicConfig{Enabled: true, Specs: []string{"0 * * * *"}},
	}
	now := at("2026-02-03T10:20:00Z")
	decide := func(now time.Time) (Step, error) {
		plan, err := Of(j)
		return plan.At(now), err
	}
	step, err := decide(now)
	if err != nil || !step.Launch.Equal(at("2026-02-03T10:00:00Z")) || !step.Wake.Equal(at("2026-02-03T11:00:00Z")) {
		t.Fatal(step, err)
	}
	j.LastLaunch = step.Launch.Unix()
	if step, err = decide(now); err != nil || !step.Launch.IsZero() {
		t.Fatal("launched twice", step, err)
	}
	step, err = decide(now.Add(-5 * time.Hour))
	if err != nil || !step.Launch.IsZero() || !step.Wake.Equal(at("2026-02-03T11:00:00Z")) {
		t.Fatal("the clock went back", step, err)
	}
	j.Periodic.Enabled = false
	if step, err = decide(now.Add(time.Hour)); err != nil || step != (Step{}) {
		t.Fatal("it is not enabled", step, err)
	}
	j.Periodic.Enabled, j.Stop = true, true
	if step, err = decide(now.Add(time.Hour)); err != nil || step != (Step{}) {
		t.Fatal("it is stopped", step, err)
	}
}

// Given a job that was submitted anew after its last launch, when it is looked at, then no time before that is made
// good, for it was not the job of that time; given one that was launched since, then it goes on from its last launch.
func TestNothingIsMadeGoodOfBeforeAJobWasSubmitted(t *testing.T) {
	j := &job.Job{
		SubmitTime: at("2026-02-03T09:30:00Z").UnixNano(),
		LastLaunch: at("2026-02-03T07:00:00Z").Unix(),
		Periodic:   &job.PeriodicConfig{Enabled: true, Specs: []string{"0 * * * *"}},
	}
	decide := func(now string) Step {
		t.Helper()
		plan, err := Of(j)
		if err != nil {
			t.Fatal(err)
		}
		return plan.At(at(now))
	}
	if step := decide("2026-02-03T09:40:00Z"); !step.Launch.IsZero() || !step.Wake.Equal(at("2026-02-03T10:00:00Z")) {
		t.Errorf("before its first time it has %+v", step)
	}
	j.LastLaunch = 0
	if step := decide("2026-02-03T09:40:00Z"); !step.Launch.IsZero() {
		t.Errorf("never launched, it has %+v", step)
	}
	j.LastLaunch = at("2026-02-03T10:00:00Z").Unix()
	if step := decide("2026-02-03T10:20:00Z"); !step.Launch.IsZero() || !step.Wake.Equal(at("2026-02-03T11:00:00Z")) {
		t.Errorf("launched since, it has %+v", step)
	}
}
