package filter

import (
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
)

// UnfitKey is what Unfit answers with.
const UnfitKey = "start refused"

// Unfit keeps the allocs of a group off the nodes that have refused to start one of the same version for a reason that
// trying again can't change: a command that does not exist there, a user that the node does not know. A person who has
// mended the node says so (job eval -force-reschedule), and what was refused before counts no more. Storage plugins are
// excepted: everything waits for them, so that they are tried again without end.
type Unfit struct {
	allocs []*alloc.Alloc
	nodes  map[ids.Node]*alloc.Alloc
	job    string // as commands take it
}

// NewUnfit returns the filter of a group whose allocs are given, in any order.
func NewUnfit(allocs []*alloc.Alloc) *Unfit { return &Unfit{allocs: allocs} }

// Prepare implements Filter.
func (u *Unfit) Prepare(r *Request) bool {
	for _, t := range r.Group.Tasks {
		if t.CSIPluginConfig != nil {
			return false
		}
	}
	mended := uint64(0)
	for _, a := range u.allocs {
		if a.ForceReschedule {
			mended = max(mended, a.CreateIndex)
		}
	}
	u.job, u.nodes = ids.Typed(r.Job.Namespace, string(r.Job.ID)), map[ids.Node]*alloc.Alloc{}
	for _, a := range u.allocs {
		same := a.JobVersion == r.Job.Version && a.JobCreateIndex == r.Job.CreateIndex && a.TaskGroup == r.Group.Name
		if known := u.nodes[a.Node]; !same || a.CreateIndex <= mended || a.Unfit() == "" ||
			known != nil && known.CreateIndex > a.CreateIndex {
			continue
		}
		u.nodes[a.Node] = a
	}
	return len(u.nodes) > 0
}

// Check implements Filter.
func (u *Unfit) Check(n *node.Node) string {
	if u.nodes[n.ID] != nil {
		return UnfitKey
	}
	return ""
}

// Explain implements Filter.
func (u *Unfit) Explain(n *node.Node) (string, string) {
	a := u.nodes[n.ID]
	return "it could not start alloc " + ids.Short(a.ID) + ", and is not asked again: " + a.Unfit(),
		"change the job and run it again; or mend the node, then: berth job eval -force-reschedule " + u.job
}
