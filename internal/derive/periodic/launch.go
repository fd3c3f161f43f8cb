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

// Decide says what a job does at a time. Of what it missed, while nobody led or it was held up, it makes good one.
func Decide(j *job.Job, now time.Time) (Step, error) {
	if j.Periodic == nil || !j.Periodic.Enabled || j.Stop {
		return Step{}, nil
	}
	t, err := cron.Read(j.Periodic.Crons(), j.Periodic.TimeZone)
	if err != nil {
		return Step{}, err
	}
	since := Since(j)
	if due := t.Missed(since, now); !due.IsZero() {
		return Step{Launch: due, Wake: t.Next(now)}, nil
	}
	if since.After(now) { // the clock went back: what was launched is not launched again
		now = since
	}
	return Step{Wake: t.Next(now)}, nil
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
