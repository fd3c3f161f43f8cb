// Package adoption owns the command by which a person gives orphans to the replicated state: the alloc, its job, the
// claims of its volumes and their attachments, as its node has them. Packages of the server half may import it.
package adoption

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/server/versions"
	"berth/internal/wire"
)

// schema is that of the cluster from which on orphans are adopted.
const schema = 5

func init() { fsm.Register[OrphanAdopt]("orphan-adopt", schema, "server/endpoint/orphans") }

// OrphanAdopt gives orphans of one job to the state, all or none. What runs goes on under the same ids of alloc and
// claim. Everything that a placement is held to is held against them here, for no scheduler has looked at them.
type OrphanAdopt struct {
	Job     *job.Job // as its nodes have it, under the id that it is to have
	Orphans []Orphan
	By      string // who vouches for it
	Seed    string
}

// Needs is what the job's members need, as where it is registered.
func (c *OrphanAdopt) Needs() uint64 { return (&fsm.JobRegister{Job: c.Job}).Needs() }

// Orphan is what its node has of an alloc. Incarnation is that of the state from which the node received it; empty: the
// node has lost that.
type Orphan struct {
	Alloc       *alloc.Alloc
	Incarnation string
	Volumes     []wire.HeldVolume
}

// Adopted is the result of OrphanAdopt.
type Adopted struct {
	Job  *job.Job
	Eval *eval.Eval
}

// Apply returns an *Adopted.
func (c *OrphanAdopt) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	out := &Adopted{}
	for i := range c.Orphans {
		o := &c.Orphans[i]
		known := tx.Alloc(nil, o.Alloc.ID)
		if known == nil {
			continue
		}
		if err := again(tx, st, known, o); err != nil {
			return nil, err
		}
		out.Job = tx.JobOf(nil, known)
	}
	for i := range c.Orphans {
		o := &c.Orphans[i]
		if tx.Alloc(nil, o.Alloc.ID) != nil {
			continue
		}
		if out.Eval == nil {
			if err := c.file(tx, st, out); err != nil {
				return nil, err
			}
		}
		if err := c.place(tx, st, out, o); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func refuse(id ids.Alloc, text, hint string) error {
	return fault.WithHint(fault.New(fault.Conflict, "adopt", fmt.Sprintf("allocation %q", id), text), hint)
}

func endIt(id ids.Alloc) string { return "end the orphan: berth node orphans end " + ids.Short(id) }

// again lets a node take up an alloc that the state knows and of which the node has lost its record.
func again(tx *state.Tx, st fsm.Stamp, known *alloc.Alloc, o *Orphan) error {
	switch {
	case known.Node != o.Alloc.Node:
		return refuse(known.ID, "it is placed on node "+ids.Short(known.Node), endIt(known.ID))
	case known.Terminal():
		return refuse(known.ID, fmt.Sprintf("the servers have given it up: it is %s/%s", known.DesiredStatus,
			known.ClientStatus), endIt(known.ID))
	}
	a := *known
	a.Adopted, a.AllocModifyIndex = st.Index, st.Index
	a.ModifyTime = st.Time.UnixNano()
	j := tx.JobOf(nil, known)
	if j == nil {
		return refuse(known.ID, fmt.Sprintf("version %d of its job is not stored any more", known.JobVersion),
			endIt(known.ID))
	}
	tx.PutAlloc(&a)
	return claimAll(tx, st, j, &a, o)
}

// file finds the job of the orphans in the state, or stores it. A job of the same name counts as theirs only when it
// began at the same index of the same incarnation.
func (c *OrphanAdopt) file(tx *state.Tx, st fsm.Stamp, out *Adopted) error {
	j := *c.Job
	old := tx.Job(nil, j.Namespace, j.ID)
	refuse := func(text, hint string) error {
		return fault.WithHint(fault.New(fault.Conflict, "adopt", fmt.Sprintf("job %q", j.ID), text), hint)
	}
	const otherID = "adopt it under another id: berth node orphans adopt -as ID …"
	switch {
	case old == nil:
		return c.submit(tx, st, &j, out)
	case !c.continues(tx, old):
		return refuse(fmt.Sprintf("another job of this id began at index %d", old.CreateIndex), otherID)
	case old.Stop:
		return refuse("it is stopped", "end the orphan, or "+otherID)
	}
	for _, v := range tx.JobVersions(nil, j.Namespace, j.ID) {
		same, err := versions.Same(v, &j)
		if err != nil {
			return err
		}
		if same {
			out.Job, out.Eval = v, fsm.NewEval(c.Seed, eval.TriggerJobRegister, old)
			tx.PutEval(out.Eval)
			return nil
		}
	}
	if j.Version <= old.Version {
		return refuse(fmt.Sprintf("it has gone on to version %d, and version %d is not what the node has", old.Version,
			j.Version), otherID)
	}
	return c.submit(tx, st, &j, out)
}

// continues reports whether the orphans are allocs of the job that the state has under its id.
func (c *OrphanAdopt) continues(tx *state.Tx, old *job.Job) bool {
	m := tx.Meta(nil)
	for _, o := range c.Orphans {
		if tx.Alloc(nil, o.Alloc.ID) != nil {
			continue
		}
		if o.Alloc.Job != old.ID || o.Alloc.JobCreateIndex != old.CreateIndex || m == nil ||
			o.Incarnation != "" && o.Incarnation != m.Incarnation {
			return false
		}
	}
	return true
}

func (c *OrphanAdopt) submit(tx *state.Tx, st fsm.Stamp, j *job.Job, out *Adopted) error {
	made, err := (&fsm.JobRegister{Job: j, Seed: c.Seed}).Apply(tx, st)
	if err != nil {
		return err
	}
	if r, ok := made.(*fsm.JobRegistered); ok {
		out.Eval = r.Eval
	}
	out.Job = tx.Job(nil, j.Namespace, j.ID)
	return nil
}

// place stores an alloc that the state does not know, with its claims.
func (c *OrphanAdopt) place(tx *state.Tx, st fsm.Stamp, out *Adopted, o *Orphan) error {
	n := tx.Node(nil, o.Alloc.Node)
	if n == nil {
		return refuse(o.Alloc.ID, "its node is not registered", endIt(o.Alloc.ID))
	}
	if n.Unfollowed != "" {
		return refuse(o.Alloc.ID, "its node takes nothing from these servers: "+n.Unfollowed,
			"if it is to go on with them: berth operator recovery begin -reason \"...\"; else end what it holds of the "+
				"other cluster state")
	}
	if out.Job.Group(o.Alloc.TaskGroup) == nil {
		return refuse(o.Alloc.ID, fmt.Sprintf("its job has no group %q", o.Alloc.TaskGroup), endIt(o.Alloc.ID))
	}
	old := o.Alloc
	a := &alloc.Alloc{
		ID:               old.ID,
		Namespace:        out.Job.Namespace,
		Eval:             out.Eval.ID,
		Name:             fmt.Sprintf("%s.%s[%d]", out.Job.ID, old.TaskGroup, old.Index),
		Node:             n.ID,
		NodeName:         n.Name,
		Job:              out.Job.ID,
		JobVersion:       out.Job.Version,
		JobCreateIndex:   out.Job.CreateIndex,
		JobType:          out.Job.Type,
		TaskGroup:        old.TaskGroup,
		Index:            old.Index,
		Resources:        old.Resources,
		DesiredStatus:    alloc.DesiredRun,
		Adopted:          st.Index,
		ClientStatus:     alloc.ClientRunning,
		AllocModifyIndex: st.Index,
		CreateTime:       old.CreateTime,
		ModifyTime:       st.Time.UnixNano(),
	}
	for other := range tx.AllocsByJob(nil, a.Namespace, a.Job) {
		if other.Name == a.Name && !other.Terminal() {
			return refuse(a.ID, fmt.Sprintf("allocation %s has its name %q", ids.Short(other.ID), a.Name),
				"stop that one first (berth alloc stop "+ids.Short(other.ID)+"), or end the orphan")
		}
	}
	tx.PutAlloc(a)
	return claimAll(tx, st, out.Job, a, o)
}

// claimAll takes the claims of an adopted alloc that are not there.
func claimAll(tx *state.Tx, st fsm.Stamp, j *job.Job, a *alloc.Alloc, o *Orphan) error {
	group := j.Group(a.TaskGroup)
	if group == nil {
		return refuse(a.ID, fmt.Sprintf("its job has no group %q", a.TaskGroup), endIt(a.ID))
	}
	for _, r := range group.CSIVolumes() {
		id := volume.ID{Namespace: a.Namespace, ID: r.SourceFor(a.Index)}
		if cl := tx.Claim(nil, volume.ClaimKey{Volume: id, Alloc: a.ID}); cl != nil && cl.State == volume.Held {
			continue
		}
		if err := claim(tx, st, a, r, id, o); err != nil {
			return err
		}
	}
	return nil
}
