package alloc

import (
	"fmt"
	"time"

	"berth/internal/model/job"
)

// Process is what a node knows of a task's process.
type Process uint8

// Values of Process.
const (
	ProcessNone     Process = iota // proven: none
	ProcessBegun                   // a start was begun of which nobody knows whether it happened
	ProcessRecorded                // a handle of an earlier life of the agent; not found again yet
	ProcessAttached                // running, as far as known
	ProcessExited                  // the main process ended; what it left behind may live
)

// TaskFacts are what decides a task's next step.
type TaskFacts struct {
	Now       time.Time
	Process   Process
	Dead      bool      // the task has ended for good
	Due       bool      // its turn in the lifecycle has come
	Kill      bool      // it must end
	Restart   bool      // somebody asked for a restart
	Prepared  bool      // the prestart hooks of this start are done
	Over      bool      // the restart policy, or a final refusal, ended it
	Held      bool      // its alloc is an orphan: what runs is kept, nothing is started
	Suspended bool      // nothing may be begun with a volume of its alloc: what runs is kept, a start waits
	NotBefore time.Time // no start before
}

// TaskDo is what to do with a task next.
type TaskDo uint8

// Steps of a task.
const (
	TaskRest    TaskDo = iota // it is dead: nothing, ever
	TaskAwait                 // wait for its turn
	TaskPause                 // wait until NotBefore
	TaskPrepare               // run the prestart hooks
	TaskStart                 // start the process
	TaskRecover               // find the recorded process again
	TaskWatch                 // wait for its exit
	TaskStop                  // end the process
	TaskAbort                 // end what a start may have left
	TaskCollect               // end what the exited process left behind, then ask the restart policy
	TaskFinish                // run the stop hooks; then it is dead
)

var taskDoNames = [...]string{"rest", "await", "pause", "prepare", "start", "recover", "watch", "stop", "abort",
	"collect", "finish"}

func (d TaskDo) String() string { return taskDoNames[d] }

// NextTask decides the one step that a task takes now. A process comes before everything else: what is recorded is
// found again before it is judged, and nothing finishes or starts while one may live. While a volume is suspended, a
// restart that somebody asked for waits as a start does: a process that runs would be given away for none.
// A start of which nobody knows whether it happened is made again, as the same attempt, which runs once. Where it is
// not wanted any more, what it may have left ends first.
func NextTask(f TaskFacts) TaskDo {
	switch {
	case f.Process == ProcessRecorded:
		return TaskRecover
	case f.Process == ProcessExited:
		return TaskCollect
	case f.Process == ProcessAttached && (f.Kill || f.Restart && !f.Suspended || f.Dead || f.Over):
		return TaskStop
	case f.Process == ProcessAttached:
		return TaskWatch
	case f.Process == ProcessBegun && (f.Kill || f.Dead || f.Over || f.Held):
		return TaskAbort
	case f.Dead:
		return TaskRest
	case f.Kill, f.Over, f.Held:
		return TaskFinish
	case !f.Due, f.Suspended:
		return TaskAwait
	case f.Now.Before(f.NotBefore):
		return TaskPause
	case !f.Prepared:
		return TaskPrepare
	}
	return TaskStart
}

// Ending says how one run of a task came to its end.
type Ending uint8

// Endings.
const (
	EndedWell    Ending = iota // exit code 0
	EndedBadly                 // another exit, a signal, out of memory, unknown
	StartFailed                // the start failed in a way that may pass
	StartRefused               // the start was refused, permanently
	RestartAsked               // a person, a template or a keeper asked; not counted
)

// RestartMemory is what a task remembers of its restarts; durable.
type RestartMemory struct {
	Count int       // restarts that count, in the present interval
	Since time.Time // when the interval began
}

// RestartFacts decide whether a task starts again.
type RestartFacts struct {
	Now     time.Time
	Ending  Ending
	Memory  RestartMemory
	Policy  *job.RestartPolicy // nil allows none
	JobType string
	Role    TaskRole
	// Held: the alloc is an orphan, of which nothing is started again.
	Held bool
	// Stopping: the servers want the alloc stopped. A main task that ends is not started again, and has not failed: it
	// may wait for its shutdown_delay, or was told to end by an agent that did not live to see it.
	Stopping bool
	// Unlimited: CSI plugins restart for ever, 0.5 s to 30 s.
	Unlimited bool
	Ran       time.Duration // how long the process lived
	Jitter    float64       // 0 to 1: which part of the quarter that is added to a delay
}

// RestartResult is what follows.
type RestartResult struct {
	Restart bool
	Delay   time.Duration
	Failed  bool   // the task failed (only when it does not restart)
	Reason  string // for people
	Memory  RestartMemory
}

// Bounds of restarts without limit, and how long a process must live for them to begin anew.
const (
	unlimitedMin   = 500 * time.Millisecond
	unlimitedMax   = 30 * time.Second
	unlimitedReset = time.Minute
)

// Each start costs its node a process, directories and reports, whatever the job asks for: within an interval the first
// few restarts wait as long as the policy says, and those after them at least so long.
const (
	QuickRestarts = 5
	QuickPause    = time.Second
)

// HeldReason is why a task of an orphan does not start again.
const HeldReason = "nobody decides about the allocation: it is an orphan, of which nothing is started"

// NextRestart applies the restart policy to the end of a run.
func NextRestart(f RestartFacts) RestartResult {
	v := RestartResult{Memory: f.Memory}
	switch {
	case f.Held:
		v.Failed, v.Reason = f.Ending != EndedWell, HeldReason
		return v
	case f.Stopping && f.Role == RoleMain && !f.Unlimited:
		v.Reason = "the allocation is being stopped"
		return v
	case f.Ending == RestartAsked:
		v.Restart = true
		return v
	case f.Ending == StartRefused:
		v.Failed, v.Reason = true, "the error will not pass by trying again"
		return v
	case f.Ending == EndedWell && f.runsOnce():
		return v
	case f.Unlimited:
		return f.unlimited(v)
	case f.Policy == nil || f.Policy.Attempts == 0 && f.Policy.Mode != job.RestartDelay:
		v.Failed, v.Reason = f.Ending != EndedWell, "the restart policy allows no restarts"
		return v
	}
	return f.limited(v)
}

// runsOnce reports whether a good exit is the end: tasks of batch jobs, and tasks that run once beside the main ones.
func (f RestartFacts) runsOnce() bool {
	return f.Role.Once() || f.Role == RoleMain && job.RunsToEnd(f.JobType)
}

func (f RestartFacts) limited(v RestartResult) RestartResult {
	if f.Memory.Since.IsZero() || f.Now.Sub(f.Memory.Since) >= f.Policy.Interval {
		v.Memory = RestartMemory{Since: f.Now}
	}
	v.Memory.Count++
	delay := f.Policy.Delay
	if v.Memory.Count > QuickRestarts {
		delay = max(delay, QuickPause)
	}
	delay = jittered(delay, f.Jitter)
	if v.Memory.Count <= f.Policy.Attempts {
		v.Restart = true
		v.Delay = delay
		v.Reason = "restarts within the policy"
		return v
	}
	if f.Policy.Mode == job.RestartDelay {
		v.Restart, v.Delay = true, v.Memory.Since.Add(f.Policy.Interval).Sub(f.Now)+delay
		v.Reason = fmt.Sprintf("%d restarts within %s are used up; waiting for the next interval", f.Policy.Attempts,
			f.Policy.Interval)
		v.Memory = RestartMemory{Since: f.Now.Add(v.Delay), Count: 0}
		return v
	}
	v.Failed = true // one that is to run for ever has failed with whatever code it ends
	v.Reason = fmt.Sprintf("Exceeded allowed attempts %d in interval %s and mode is %q", f.Policy.Attempts,
		f.Policy.Interval, f.Policy.Mode)
	return v
}

func (f RestartFacts) unlimited(v RestartResult) RestartResult {
	if f.Ran >= unlimitedReset {
		v.Memory = RestartMemory{}
	}
	if v.Memory.Since.IsZero() {
		v.Memory.Since = f.Now
	}
	delay := unlimitedMin
	for range min(v.Memory.Count, 16) {
		delay = min(2*delay, unlimitedMax)
	}
	v.Memory.Count++
	v.Restart, v.Delay = true, min(jittered(delay, f.Jitter), unlimitedMax)
	v.Reason = "plugins restart without limit"
	return v
}

func jittered(d time.Duration, jitter float64) time.Duration {
	return d + time.Duration(float64(d)*0.25*min(max(jitter, 0), 1))
}
