// Package launches owns the commands by which one job launches another: by the clock, and with parameters. That it is
// launched, and what is launched, is one step of the state. Packages of the server half may import it.
package launches

import (
	"fmt"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/children"
	"berth/internal/server/fsm"
	"berth/internal/server/partitions"
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
	Gave    []ids.Job  // what was launched before, had no place, and was stopped for this one
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
	// MaxPlaceless is how many of what was launched before may wait for a place; 0: any number.
	MaxPlaceless int `cbor:",omitempty"`
}

// SchemaPlaceless is the number of the cluster from which on what waits for a place is bounded.
const SchemaPlaceless = 15

// MaxPlaceless is how many of what a job launched by the clock wait for a place, with nothing of them running, before
// its times are passed over: more of them would only fill the servers.
const MaxPlaceless = 100

// Needs is what the bound needs: servers of an older version would launch beyond it.
func (c *Launch) Needs() uint64 {
	if c.MaxPlaceless > 0 {
		return SchemaPlaceless
	}
	return 0
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
	out, err := c.launch(tx, st, parent)
	if err != nil {
		return nil, err
	}
	recorded := *parent
	recorded.LastLaunch = c.Due
	tx.PutJobVersion(&recorded)
	return out, nil
}

func (c *Launch) launch(tx *state.Tx, st fsm.Stamp, parent *job.Job) (*Launched, error) {
	child := parent.Child(nameAt(tx, parent, c.Due, c.Seed))
	if err := permitted(tx, child, "launch", parent.ID); err != nil {
		return &Launched{Skipped: err.Error()}, nil
	}
	var gave []ids.Job
	if parent.Periodic.ProhibitOverlap {
		goes, waiting := unended(&tx.Snap, parent)
		if goes != "" {
			return &Launched{Skipped: fmt.Sprintf("%s: %s", Overlap, goes)}, nil
		}
		for _, id := range waiting {
			stop := &fsm.JobDeregister{Namespace: c.Namespace, Job: id, Seed: c.Seed}
			if _, err := stop.Apply(tx, st); err != nil {
				return nil, err
			}
		}
		gave = waiting
	} else if n := placeless(&tx.Snap, parent); c.MaxPlaceless > 0 && n >= c.MaxPlaceless {
		return &Launched{Skipped: fmt.Sprintf("%d jobs that were launched before wait for a place that no node has; "+
			"stop them, or make a place", n)}, nil
	}
	out, err := register(tx, st, child, c.Seed, eval.TriggerPeriodic)
	if err != nil {
		return nil, err
	}
	out.Gave = gave
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
	child := parent.Child(nameAt(tx, parent, st.Time.Unix(), c.Seed)) // several in a second are several
	if err := permitted(tx, child, "force", c.Job); err != nil {
		return nil, err
	}
	return register(tx, st, child, c.Seed, eval.TriggerPeriodic)
}

// permitted refuses to launch what the namespace lets no job use any more: it may have changed since the one that
// launches it was registered.
func permitted(tx *state.Tx, child *job.Job, op string, parent ids.Job) error {
	if errs := partitions.Permits(&tx.Snap, child); len(errs) > 0 {
		return fault.Note(errs[0], op, fmt.Sprintf("job %q", parent))
	}
	return nil
}

// nameAt is the id of what is launched at a time, in seconds since the epoch. Where something has it already, because a
// person had it launched in that very second, it gets a text behind it: no other second's name, which would be taken
// when that comes.
func nameAt(tx *state.Tx, parent *job.Job, at int64, seed string) ids.Job {
	plain := fmt.Sprintf("%s%s%d", parent.ID, job.PeriodicChild, at)
	id := ids.Job(plain)
	for n := 0; tx.Job(nil, parent.Namespace, id) != nil; n++ {
		id = ids.Job(plain + "-" + ids.Short(ids.Derived(seed, plain, strconv.Itoa(n))))
	}
	return id
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
	if heavy := child.Heavy(); len(heavy) > 0 {
		return nil, fault.Wrap(heavy[0], fault.Invalid, "dispatch", fmt.Sprintf("job %q", c.Job))
	}
	if err := permitted(tx, child, "dispatch", c.Job); err != nil {
		return nil, err
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

// placeless counts what a job launched by the clock that waits for a place, with nothing of it running.
func placeless(s *state.Snap, parent *job.Job) (n int) {
	for j := range s.Children(nil, parent) {
		if strings.HasPrefix(string(j.ID), string(parent.ID)+job.PeriodicChild) &&
			children.StandingOf(s, j) == children.Placeless {
			n++
		}
	}
	return n
}

// unended finds what a job launched by the clock and has not ended: the first that goes on, or all that wait for a
// place, though nothing of them runs.
func unended(s *state.Snap, parent *job.Job) (goes ids.Job, waiting []ids.Job) {
	for j := range s.Children(nil, parent) {
		if !strings.HasPrefix(string(j.ID), string(parent.ID)+job.PeriodicChild) {
			continue
		}
		switch children.StandingOf(s, j) {
		case children.Going:
			return j.ID, nil
		case children.Placeless:
			waiting = append(waiting, j.ID)
		}
	}
	return "", waiting
}
