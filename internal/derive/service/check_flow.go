package service

import (
	"cmp"
	"time"

	"berth/internal/model/job"
)

// Status of a check.
const (
	Pending = "pending" // it has not been asked yet
	Success = "success"
	Failure = "failure"
)

// Mode of a check: whether an alloc is healthy only while it passes.
const (
	Healthiness = "healthiness"
	Readiness   = "readiness"
)

// State is what is known of a check. The zero value is its beginning.
type State struct {
	Status     string // empty: it has not been asked, and its job says nothing about its beginning
	Warned     bool   // the last answer was a warning
	Successes  int    // in a row
	Failures   int    // in a row
	Counted    int    // failures in a row that count for a restart
	Output     string
	StatusCode int       // of HTTP; 0: there was no answer, or it is no check by HTTP
	At         time.Time // of the last answer; zero: there was none
}

// Answer is what a check found.
type Answer struct {
	Passed     bool
	Warned     bool // it did not pass, and it is no failure either
	Unknown    bool // who asks could not be heard: what was found before stays
	Output     string
	StatusCode int
	At         time.Time
}

// Begin is the state of a check before its first answer, as its job says.
func Begin(c *job.ServiceCheck) State {
	switch c.InitialStatus {
	case "passing":
		return State{Status: Success}
	case "warning", "critical":
		return State{Status: Failure}
	}
	return State{Status: Pending}
}

// Next is the state after an answer. A check passes after so many successes in a row, and fails after so many failures
// in a row, as its job says; in between it stays what it was. Failures within the grace after a start of the task do
// not count for a restart: started is its last, zero when it does not run.
func Next(s State, c *job.ServiceCheck, of *job.Service, a Answer, started time.Time) State {
	if a.Unknown {
		return s
	}
	a.Passed = a.Passed || a.Warned && cmp.Or(c.OnUpdate, of.OnUpdate) == job.OnUpdateIgnoreWarnings
	s.Output, s.StatusCode = a.Output, a.StatusCode
	s.At, s.Warned = a.At, a.Warned
	if a.Passed {
		s.Failures, s.Counted = 0, 0
		s.Successes++
		if s.Successes >= c.SuccessBeforePassing || s.Status == Success {
			s.Status = Success
		}
		return s
	}
	s.Successes, s.Failures = 0, s.Failures+1
	if s.Failures >= c.FailuresBeforeCritical || s.Status == Failure {
		s.Status = Failure
	}
	r := Restarts(c, of)
	switch {
	case r == nil || a.Warned && r.IgnoreWarnings || started.IsZero() || a.At.Before(started.Add(r.Grace)):
		s.Counted = 0
	case s.Status == Failure:
		s.Counted++
	}
	return s
}

// Restarts is how a check restarts its task: what the check itself says, or its service; nil: it does not.
func Restarts(c *job.ServiceCheck, of *job.Service) *job.CheckRestart {
	r := c.CheckRestart
	if r == nil {
		r = of.CheckRestart
	}
	if r == nil || r.Limit <= 0 {
		return nil
	}
	return r
}

// Due reports whether a check has failed so often that its task is to be restarted.
func Due(s State, c *job.ServiceCheck, of *job.Service) bool {
	r := Restarts(c, of)
	return r != nil && s.Counted >= r.Limit
}

// ModeOf is the mode of a check.
func ModeOf(c *job.ServiceCheck, of *job.Service) string {
	if c.Counts(of) {
		return Healthiness
	}
	return Readiness
}
