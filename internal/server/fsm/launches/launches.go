// Package launches owns the commands by which one job launches another: by the clock, and with parameters. That it is
// launched, and what is launched, is one step of the state. Packages of the server half may import it.
package launches

import (
	"fmt"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

func init() {
	fsm.Register[Launch]("job-launch", job.SchemaLaunches, "server/launch")
	fsm.Register[Force]("job-force", job.SchemaLaunches, "server/endpoint/launches")
	fsm.Register[Dispatch]("job-dispatch", job.SchemaLaunches, "server/endpoint/launches")
}

// Launched is what became of a launch.
type Launched struct {
	Child   *job.Job   // nil: nothing was launched
	Eval    *eval.Eval // nil: nothing to follow
	Skipped string     // why nothing was launched at its time
}

// Launch launches a job at its time. It is done once however often it is asked for: what was launched is written down
// in the same step.
type Launch struct {
	Namespace ids.Namespace
	Job       ids.Job
	// JobModifyIndex is that of the job whose times were read: another one may have others.
	JobModifyIndex uint64
	Due            int64 // seconds since the epoch
	Seed           string
}

// Overlap is why a job was not launched at its time.
const Overlap = "what was launched before has not ended"

// Apply returns a *Launched.
func (c *Launch) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	parent := tx.Job(nil, c.Namespace, c.Job)
	if parent.Stopped() || parent.Periodic == nil || parent.JobModifyIndex != c.JobModifyIndex ||
		parent.LastLaunch >= c.Due {
		return &Launched{}, nil // another leader was first, or a person was
	}
	id := ids.Job(fmt.Sprintf("%s%s%d", parent.ID, job.PeriodicChild, c.Due))
	out := &Launched{}
	switch {
	case tx.Job(nil, c.Namespace, id) != nil: // a person had it launched in that very second
	case parent.Periodic.ProhibitOverlap && anyGoes(&tx.Snap, parent):
		out.Skipped = Overlap
	default:
		var err error
		if out, err = register(tx, st, parent.Child(id), c.Seed, eval.TriggerPeriodic); err != nil {
			return nil, err
		}
	}
	recorded := *parent
	recorded.LastLaunch = c.Due
	tx.PutJobVersion(&recorded)
	return out, nil
}

// Force launches a job by the clock out of its time, whatever else of it runs.
type Force struct {
	Namespace ids.Namespace
	Job       ids.Job
	Seed      string
}

// Apply returns a *Launched.
func (c *Force) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	parent, err := parentOf(tx, c.Namespace, c.Job)
	if err != nil {
		return nil, err
	}
	refuse := func(text, hint string) error {
		return fault.WithHint(fault.New(fault.Invalid, "force", fmt.Sprintf("job %q", c.Job), text), hint)
	}
	switch {
	case parent.Periodic == nil:
		return nil, refuse("it is not periodic", "only a job with a block periodic { } is launched so")
	case parent.Stop:
		return nil, refuse("it is stopped", "start it first: berth job start "+ids.Typed(parent.Namespace, parent.ID))
	}
	for at := st.Time.Unix(); ; at++ { // several in a second are several
		id := ids.Job(fmt.Sprintf("%s%s%d", parent.ID, job.PeriodicChild, at))
		if tx.Job(nil, c.Namespace, id) == nil {
			return register(tx, st, parent.Child(id), c.Seed, eval.TriggerPeriodic)
		}
	}
}

// Dispatch launches a job with parameters.
type Dispatch struct {
	Namespace        ids.Namespace
	Job              ids.Job
	Payload          []byte
	Meta             map[string]string
	IdempotencyToken string
	IDPrefix         string
	Priority         int
	Seed             string
}

// MaxToken is how long a token may be that makes of several dispatches one.
const MaxToken = 256

// Apply returns a *Launched. With a token that one of the children has, nothing new is launched.
func (c *Dispatch) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	parent, err := parentOf(tx, c.Namespace, c.Job)
	if err != nil {
		return nil, err
	}
	with := job.Dispatch{Payload: c.Payload, Meta: c.Meta}
	if err := with.Check(parent); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.IdempotencyToken != "" {
		for j := range tx.Children(nil, parent) {
			if j.DispatchIdempotencyToken == c.IdempotencyToken {
				return &Launched{Child: j}, nil
			}
		}
	}
	prefix := c.IDPrefix
	if prefix != "" {
		prefix += "-"
	}
	short := ids.Short(ids.Derived(c.Seed, "dispatch", string(parent.ID)))
	id := ids.Job(fmt.Sprintf("%s%s%s%d-%s", parent.ID, job.DispatchChild, prefix, st.Time.Unix(), short))
	if err := ids.ValidJob(string(id)); err != nil {
		return nil, c.refuse("the id of what it launches: " + err.Error())
	}
	if tx.Job(nil, c.Namespace, id) != nil { // four bytes met in one second
		return nil, fault.New(fault.Conflict, "dispatch", fmt.Sprintf("job %q", c.Job),
			fmt.Sprintf("there is a job %q already; dispatch again", id))
	}
	child := parent.Child(id)
	with.With(child)
	child.DispatchIdempotencyToken = c.IdempotencyToken
	if c.Priority > 0 {
		child.Priority = c.Priority
	}
	if over := child.Excesses(); len(over) > 0 {
		return nil, fault.Wrap(over[0], fault.Invalid, "dispatch", fmt.Sprintf("job %q", c.Job))
	}
	return register(tx, st, child, c.Seed, eval.TriggerJobRegister)
}

func (c *Dispatch) refuse(text string) error {
	return fault.New(fault.Invalid, "dispatch", fmt.Sprintf("job %q", c.Job), text)
}

func (c *Dispatch) check() error {
	switch {
	case len(c.IdempotencyToken) > MaxToken:
		return c.refuse(fmt.Sprintf("its idempotency token has %d bytes, and may have %d", len(c.IdempotencyToken),
			MaxToken))
	case strings.ContainsRune(c.IDPrefix, '/'):
		return c.refuse(fmt.Sprintf("the prefix of an id %q contains \"/\", which stands between the ids of parent "+
			"and child", c.IDPrefix))
	case c.Priority < 0 || c.Priority > 100:
		return c.refuse(fmt.Sprintf("its priority must be between 1 and 100, is %d; 0: that of the job", c.Priority))
	}
	return nil
}

func parentOf(tx *state.Tx, ns ids.Namespace, id ids.Job) (*job.Job, error) {
	j := tx.Job(nil, ns, id)
	if j == nil {
		return nil, fault.New(fault.NotFound, "", fmt.Sprintf("job %q in namespace %q", id, ns), "job not found")
	}
	return j, nil
}

// register stores a child with its evaluation.
func register(tx *state.Tx, st fsm.Stamp, child *job.Job, seed, trigger string) (*Launched, error) {
	done, err := (&fsm.JobRegister{Job: child, Seed: seed}).Apply(tx, st)
	if err != nil {
		return nil, err
	}
	e := *done.(*fsm.JobRegistered).Eval
	e.TriggeredBy = trigger
	tx.PutEval(&e)
	return &Launched{Child: child, Eval: &e}, nil
}

// anyGoes reports whether something that a job launched by the clock has not ended. Those that ended are many: what
// cannot go on any more costs no look at more than its evaluation and its allocs.
func anyGoes(s *state.Snap, parent *job.Job) bool {
	for j := range s.Children(nil, parent) {
		if strings.HasPrefix(string(j.ID), string(parent.ID)+job.PeriodicChild) && goes(s, j) {
			return true
		}
	}
	return false
}

func goes(s *state.Snap, j *job.Job) bool {
	for a := range s.AllocsByJob(nil, j.Namespace, j.ID) {
		if !a.ClientTerminal() {
			return true
		}
	}
	for e := range s.EvalsByJob(nil, j.Namespace, j.ID) {
		if !e.Terminal() {
			return true
		}
	}
	return false
}
