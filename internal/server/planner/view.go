package planner

import (
	"iter"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/scheduler"
	"berth/internal/server/instances"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
)

// ViewOf shows a snapshot of the state to the scheduler.
func ViewOf(s *state.Snap) scheduler.View {
	r := &reader{snap: s}
	return scheduler.View{
		Jobs:        r,
		Nodes:       r,
		Volumes:     r,
		Pools:       s.Understands(PoolSchema),
		Deployments: s.Understands(deployment.Schema),
	}
}

// PoolSchema is the number of the cluster from which on explanations name the pool of their job.
const PoolSchema = 10

// reader reads one snapshot.
type reader struct{ snap *state.Snap }

func (r *reader) Job(ns ids.Namespace, id ids.Job) *job.Job { return r.snap.Job(nil, ns, id) }

func (r *reader) JobVersion(ns ids.Namespace, id ids.Job, createIndex, version uint64) *job.Job {
	return r.snap.JobVersion(nil, ns, id, createIndex, version)
}

func (r *reader) JobAllocs(ns ids.Namespace, id ids.Job) []*alloc.Alloc {
	return slices.Collect(r.snap.AllocsByJob(nil, ns, id))
}

func (r *reader) JobEvals(ns ids.Namespace, id ids.Job) []*eval.Eval {
	return slices.Collect(r.snap.EvalsByJob(nil, ns, id))
}

func (r *reader) Deployment(id ids.Deployment) *deployment.Deployment {
	return r.snap.Deployment(nil, id)
}

func (r *reader) Groups() iter.Seq[*node.GroupSize] { return r.snap.NodeGroups() }

func (r *reader) Of(g node.Group, from ids.Node) iter.Seq[*node.Node] { return r.snap.NodesOf(g, from) }

func (r *reader) Node(id ids.Node) *node.Node     { return r.snap.Node(nil, id) }
func (r *reader) Alloc(id ids.Alloc) *alloc.Alloc { return r.snap.Alloc(nil, id) }

func (r *reader) NodeAllocs(id ids.Node) []*alloc.Alloc {
	return slices.Collect(r.snap.AllocsByNode(nil, id))
}

// Volume shows a volume of which nothing may be claimed now as suspended, with the reason.
func (r *reader) Volume(id volume.ID) *volume.Volume {
	v := r.snap.Volume(nil, id)
	if v == nil {
		return nil
	}
	why := suspension.Claims(r.snap, nil, v)
	if why == nil {
		return v
	}
	n := *v
	n.Status.Phase, n.Status.LastError = volume.PhaseSuspended, why.String()
	return &n
}

func (r *reader) Claims(id volume.ID) []*volume.Claim {
	v := r.snap.Volume(nil, id)
	if v == nil {
		return nil
	}
	return slices.Collect(r.snap.ClaimsOf(nil, v.Staging()))
}

// Shortage implements filter.Volumes: what is on the node needs no more room, and what is attached was not refused.
func (r *reader) Shortage(on ids.Node, k volume.StagingKey, use string) *plugin.Shortage {
	at := r.snap.Attachment(nil, volume.AttachmentKey{StagingKey: k, Node: on})
	refusal := r.snap.Shortage(nil, plugin.ShortageKey{Node: on, Plugin: k.Plugin, ExternalID: k.ExternalID})
	if refusal != nil && refusal.Use == use && (at == nil || at.Presence != volume.Present) {
		return refusal
	}
	s := r.snap.Shortage(nil, plugin.ShortageKey{Node: on, Plugin: k.Plugin})
	if s == nil || s.Over {
		return nil
	}
	if at != nil && at.Presence.Exists() {
		return nil
	}
	return s
}

// Instances implements filter.Volumes.
func (r *reader) Instances(n *node.Node) []*plugin.Instance { return instances.On(r.snap, nil, n) }

// Holdings lists what takes attach slots on a node: claims, attachments, and what the node itself knows of.
func (r *reader) Holdings(id ids.Node) []volume.StagingKey {
	var out []volume.StagingKey
	for c := range r.snap.ClaimsByNode(nil, id) {
		out = append(out, c.Staging())
	}
	for a := range r.snap.AttachmentsByNode(nil, id) {
		if a.Presence.Exists() {
			out = append(out, a.Staging())
		}
	}
	for i := range r.snap.InventoryOf(nil, id) {
		if !i.Entry.Quiet() {
			out = append(out, i.Entry.StagingKey)
		}
	}
	return out
}
