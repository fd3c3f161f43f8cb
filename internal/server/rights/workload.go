package rights

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"berth/internal/base/redact"
	"berth/internal/model/acl"
	"berth/internal/model/alloc"
	"berth/internal/model/variable"
	"berth/internal/model/workload"
	"berth/internal/server/state"
)

// Workload is a task that shows its signed identity.
type Workload struct {
	variable.Workload
	Alloc    *alloc.Alloc
	Claims   *workload.Claims
	Policies []*acl.Policy // of its job, its group and itself, by name
}

// String is what logs call it.
func (w *Workload) String() string {
	return fmt.Sprintf("task %q of job %q in namespace %q (allocation %s)", w.Task, w.Job, w.Namespace, w.Alloc.ID)
}

// WorkloadOf finds the task that has an identity, NotFound if it is none that is believed: it is signed by one of the
// cluster's keys and good now, its allocation is there and has not ended, and has such a task. The watch hears when the
// allocation ends, when a key goes, and of changes of the policies.
func WorkloadOf(snap *state.Snap, watch *state.Watch, token redact.Secret, now time.Time) (*Workload, error) {
	c, err := workload.Read(token, func(id string) ed25519.PublicKey {
		if k := snap.SigningKey(watch, id); k != nil {
			return k.Public
		}
		return nil
	}, now)
	if err != nil {
		return nil, NotFound()
	}
	a := snap.Alloc(watch, c.Alloc)
	if a == nil || a.ClientTerminal() || a.Namespace != c.Namespace || a.Job != c.Job {
		return nil, NotFound()
	}
	if snap.JobOf(watch, a).TaskOf(a.TaskGroup, c.Task) == nil {
		return nil, NotFound()
	}
	out := &Workload{
		Workload: variable.Workload{Namespace: a.Namespace, Job: a.Job, Group: a.TaskGroup, Task: c.Task},
		Alloc:    a,
		Claims:   c,
	}
	for p := range snap.ACLPoliciesOf(watch, a.Namespace, a.Job) {
		if p.Job.Covers(a.TaskGroup, c.Task) {
			out.Policies = append(out.Policies, p)
		}
	}
	slices.SortFunc(out.Policies, func(a, b *acl.Policy) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// Names are those of its policies.
func (w *Workload) Names() (out []string) {
	for _, p := range w.Policies {
		out = append(out, p.Name)
	}
	return out
}
