// Package checks owns that the services of allocs that run here are asked by their checks whether they work. It knows
// what each found last, says to the alloc whether those pass that its health asks for, and has the tasks restarted of
// checks that fail for too long. All of it is in memory: after a restart of the agent all are asked anew, and what the
// servers heard stands until they were. Only the client's composition and what answers the servers import it.
package checks

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/client/checks/ask"
	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// Allocs is what is checked; the client's allocs implement it.
type Allocs interface {
	// Served lists the allocs that may have processes and whose job has services.
	Served() []Served
	// Changed returns a channel that is closed when that list, or what it says, may have changed.
	Changed() <-chan struct{}
	// Checked takes what the checks have found that the alloc's health asks for.
	Checked(id ids.Alloc, found alloc.Checks)
	// RestartUnhealthy restarts a task of an alloc, or all of them for an empty name, as one that failed.
	RestartUnhealthy(id ids.Alloc, task, reason string)
	// RunScript runs the command of a check in its task, and returns its exit code. What it prints goes to out.
	RunScript(ctx context.Context, c *service.Check, out io.Writer) (code int, err error)
}

// Served is an alloc with services.
type Served struct {
	Bundle  alloc.Bundle
	Network *alloc.NetworkStatus // its own, as the node made it; nil: it has none, or not yet
	Tasks   map[string]*alloc.TaskState
}

// started is when the task began to run, or for an empty name the last of all that run; zero: it does not run.
func (s Served) started(task string) time.Time {
	if task != "" {
		if st := s.Tasks[task]; st != nil && st.State == alloc.TaskRunning {
			return st.StartedAt
		}
		return time.Time{}
	}
	var last time.Time
	for _, st := range s.Tasks {
		if st.State == alloc.TaskRunning && st.StartedAt.After(last) {
			last = st.StartedAt
		}
	}
	return last
}

// Config wires a keeper.
type Config struct {
	Allocs Allocs
	Node   func() *node.Node
	// Ask asks a service once; nil: as package ask does.
	Ask func(context.Context, *service.Check) service.Answer
	// Consul asks by the checks of its services, but for scripts; nil: the node has none.
	Consul Consul
	Log    *slog.Logger
}

// Consul is the keeper of services there.
type Consul interface {
	// Answer is what its agent has found last.
	Answer(context.Context, *service.Check) service.Answer
	// Report says to it what a script has found.
	Report(context.Context, *service.Check, service.State) error
}

// Bounds of how checks are asked: so many of one alloc at once, whose slow ones hold up no other's, and so long after
// the start of a task the first time, or after the check's interval if that is shorter.
const (
	parallel = 8
	first    = 500 * time.Millisecond
)

// Keeper asks.
type Keeper struct {
	cfg  Config
	log  *slog.Logger
	loop *reconcile.Loop[key]

	mu    sync.Mutex
	known map[ids.Alloc]*known
}

type key struct {
	alloc ids.Alloc
	check string
}

type known struct {
	served   Served
	checks   []*service.Check
	states   map[string]*state
	reported *alloc.Checks
}

type state struct {
	service.State
	of      *service.Check
	started time.Time // of the run that was asked
}

// New returns a keeper that asks nothing before Run.
func New(cfg Config) *Keeper {
	if cfg.Ask == nil {
		cfg.Ask = ask.Ask
	}
	k := &Keeper{cfg: cfg, log: cfg.Log.With(logkey.Component, "checks"), known: map[ids.Alloc]*known{}}
	k.loop = reconcile.New(reconcile.Config{Name: "checks", Parallel: parallel, Log: k.log}, k.ask).
		GroupBy(func(at key) string { return string(at.alloc) })
	return k
}

// Run asks until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{"ask": k.loop.Run, "follow": k.follow})
}

// settle is for how long changes are collected before the list is looked at.
const settle = 100 * time.Millisecond

func (k *Keeper) follow(ctx context.Context) error {
	return lifecycle.Follow(ctx, k.cfg.Allocs.Changed, settle, func() { k.take(k.cfg.Allocs.Served()) })
}

// take takes up allocs that came, what changed of those that are there, and drops those that ended.
func (k *Keeper) take(list []Served) {
	k.mu.Lock()
	defer k.mu.Unlock()
	there := map[ids.Alloc]bool{}
	for _, s := range list {
		id := s.Bundle.Alloc.ID
		there[id] = true
		a := k.known[id]
		if a == nil {
			a = &known{states: map[string]*state{}}
			k.known[id] = a
		}
		if a.served.Bundle != s.Bundle || a.served.Network != s.Network {
			k.plan(a, s)
		}
		a.served = s
		for _, c := range a.checks {
			if st := a.states[c.ID]; !s.started(c.Task).Equal(st.started) {
				k.loop.Mark(key{id, c.ID})
			}
		}
	}
	for id, a := range k.known {
		if there[id] {
			continue
		}
		for _, c := range a.checks {
			k.loop.Forget(key{id, c.ID})
		}
		delete(k.known, id)
	}
}

// plan puts the checks of an alloc together; what was known of those that stay is kept. The caller holds the lock.
func (k *Keeper) plan(a *known, s Served) {
	id := s.Bundle.Alloc.ID
	as := *s.Bundle.Alloc
	if s.Network != nil { // the servers' alloc has what was reported before, or nothing
		as.Network = s.Network
	}
	checks, err := service.Checks(service.Source{Alloc: &as, Job: s.Bundle.Job, Node: k.cfg.Node()})
	if err != nil {
		k.log.Warn("services of an allocation are left out", logkey.Alloc, id, logkey.Error, err)
	}
	states := map[string]*state{}
	for _, c := range checks {
		st := a.states[c.ID]
		if st == nil {
			st = &state{State: service.Begin(c.Of)}
		}
		st.of = c
		states[c.ID] = st
	}
	for old := range a.states {
		if states[old] == nil {
			k.loop.Forget(key{id, old})
		}
	}
	a.checks, a.states = checks, states
}

// ask asks one check, and says when it is asked next.
func (k *Keeper) ask(ctx context.Context, at key) (reconcile.Result, error) {
	k.mu.Lock()
	a := k.known[at.alloc]
	var st *state
	if a != nil {
		st = a.states[at.check]
	}
	if st == nil {
		k.mu.Unlock()
		return reconcile.Done(), nil // it has ended
	}
	check, started := st.of, a.served.started(st.of.Task)
	if !started.Equal(st.started) { // another run: what was found is of the one before
		st.State, st.started = service.Begin(check.Of), started
	}
	k.mu.Unlock()
	if started.IsZero() {
		k.report(at.alloc)
		return reconcile.Done(), nil // its start marks it again
	}
	if wait := min(first, check.Of.Interval) - time.Since(started); wait > 0 && wait <= first {
		return reconcile.Again(wait, "its task has just started"), nil
	}
	answer := k.answer(ctx, check)
	if ctx.Err() != nil {
		return reconcile.Done(), nil // the agent ends
	}
	if found, is := k.found(at, started, answer); is && check.Of.Type == job.CheckScript && !answer.Unknown {
		k.tell(ctx, check, found)
	}
	return reconcile.Again(check.Of.Interval, "it is asked then"), nil
}

func (k *Keeper) answer(ctx context.Context, c *service.Check) service.Answer {
	switch {
	case c.Of.Type == job.CheckScript:
		return ask.Script(ctx, c, k.cfg.Allocs.RunScript)
	case c.Consul == nil:
		return k.cfg.Ask(ctx, c)
	case k.cfg.Consul == nil: // the agent was configured anew under a running task
		return service.Answer{Unknown: true}
	}
	return k.cfg.Consul.Answer(ctx, c)
}

// tell says to Consul what a script has found; it hears of it again with the next answer.
func (k *Keeper) tell(ctx context.Context, c *service.Check, found service.State) {
	if c.Consul == nil || k.cfg.Consul == nil {
		return
	}
	if err := k.cfg.Consul.Report(ctx, c, found); err != nil && ctx.Err() == nil {
		k.log.Debug("Consul does not hear of a check", logkey.Alloc, c.Service.Alloc, logkey.Error, err)
	}
}

// found notes an answer, and does what follows. It returns what is known then.
func (k *Keeper) found(at key, started time.Time, answer service.Answer) (now service.State, is bool) {
	k.mu.Lock()
	a := k.known[at.alloc]
	var st *state
	if a != nil {
		st = a.states[at.check]
	}
	if st == nil || !st.started.Equal(started) || !a.served.started(st.of.Task).Equal(started) {
		k.mu.Unlock()
		return now, false // it is of a run that has ended
	}
	was := st.Status
	st.State = service.Next(st.State, st.of.Of, st.of.Service.Of, answer, started)
	due := service.Due(st.State, st.of.Of, st.of.Service.Of)
	failures := st.Failures
	if due {
		st.Counted = 0
	}
	c := st.of
	now = st.State
	k.mu.Unlock()
	if was != now.Status {
		k.log.Debug("a check found something else than before", logkey.Alloc, at.alloc, "service", c.Service.Name,
			"check", c.Name, "status", now.Status, "output", answer.Output)
	}
	k.report(at.alloc)
	if due {
		k.cfg.Allocs.RestartUnhealthy(at.alloc, c.Task,
			fmt.Sprintf("healthcheck: check %q of service %q failed %d times in a row: %s", c.Name, c.Service.Name,
				failures, answer.Output))
	}
	return now, true
}

// report says to an alloc what its checks have found, when that is something else than was said last.
func (k *Keeper) report(id ids.Alloc) {
	k.mu.Lock()
	a := k.known[id]
	if a == nil || len(a.checks) == 0 {
		k.mu.Unlock()
		return
	}
	found := alloc.Checks{Failing: a.failing()}
	known := a.reported != nil && !news(a.reported.Failing, found.Failing)
	begins := a.reported == nil && strings.HasSuffix(found.Failing, notAsked) // which goes without saying
	if known || begins {
		k.mu.Unlock()
		return
	}
	a.reported = &found
	k.mu.Unlock()
	k.cfg.Allocs.Checked(id, found)
}

// notAsked is said of a check before its first answer.
const notAsked = "it has not been asked yet"

// news reports whether the alloc is to hear of what fails now: not of each output anew.
func news(was, now string) bool {
	return was != now && (was == "" || now == "" || strings.HasSuffix(was, notAsked))
}

// failing says of the first check that must pass and does not why; empty: all do.
func (a *known) failing() string {
	for _, c := range a.checks {
		st := a.states[c.ID]
		if service.ModeOf(c.Of, c.Service.Of) != service.Healthiness || st.Status == service.Success {
			continue
		}
		return fmt.Sprintf("check %q of service %q: %s", c.Name, c.Service.Name,
			cmp.Or(st.Output, notAsked))
	}
	return ""
}

// Status is what is known of a check.
type Status struct {
	service.State
	Check *service.Check
	Mode  string
}

// Of lists what is known of an alloc's checks, as its job lists them; nil: it has none, or is none.
func (k *Keeper) Of(id ids.Alloc) []Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.known[id]
	if a == nil {
		return nil
	}
	var out []Status
	for _, c := range a.checks {
		out = append(out, Status{State: a.states[c.ID].State, Check: c, Mode: service.ModeOf(c.Of, c.Service.Of)})
	}
	return out
}
