// Package periodic owns the decision when a job by the clock is launched. Servers and what answers for them may import
// it.
package periodic

import (
	"time"

	"berth/internal/base/cron"
	"berth/internal/model/job"
)

// Step is what a periodic job does now.
type Step struct {
	Launch time.Time // zero: nothing; the time in whose name a child is launched
	Wake   time.Time // zero: never; when to look again
}

// Plan is what follows from a job's times and its last launch. It holds while the job's record says the same, whatever
// the time: so it is made once, and asked at each look.
type Plan struct {
	times *cron.Times
	since time.Time
	first time.Time // the first time after since; zero: there is none
}

// Of makes a job's plan. A job that is not launched by the clock has one without times.
func Of(j *job.Job) (Plan, error) {
	if j.Periodic == nil || !j.Periodic.Enabled || j.Stop {
		return Plan{}, nil
	}
	t, err := cron.Read(j.Periodic.Crons(), j.Periodic.TimeZone)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{times: t, since: Since(j)}
	p.first = t.Next(p.since)
	return p, nil
}

// At says what a job does at a time. Of what it missed, while nobody led or it was held up, it makes good one. Where
// the clock went back, what was launched is not launched again: it waits for the first time after that.
func (p Plan) At(now time.Time) Step {
	if p.first.IsZero() || p.first.After(now) {
		return Step{Wake: p.first}
	}
	return Step{Launch: p.times.Missed(p.since, now), Wake: p.times.Next(now)}
}

// Since is the time after which a job has launched nothing yet.
func Since(j *job.Job) time.Time {
	return time.Unix(max(j.LastLaunch, j.SubmitTime/int64(time.Second)), 0).UTC()
}

// NextLaunch is when a job is launched next; zero: never, or it is no periodic one.
func NextLaunch(j *job.Job, now time.Time) time.Time {
	if j == nil || j.Periodic == nil || !j.Periodic.Enabled || j.Stop {
		return time.Time{}
	}
	t, err := cron.Read(j.Periodic.Crons(), j.Periodic.TimeZone)
	if err != nil {
		return time.Time{}
	}
	return t.Next(now)
}
