// Package scheduler owns the decision what an evaluation asks for: which allocs of a job are to be placed where, with
// which ports and claims, and which are to be stopped or updated. It is pure and deterministic: a view of the state, an
// evaluation and the time in, a plan and its explanation out; whatever has to be chosen freely is chosen by ids. The
// server half imports it; it imports models only. See DESIGN.md.
package scheduler

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/scheduler/filter"
)

// View is the state at one index. What it returns is frozen.
type View struct {
	Jobs    Jobs
	Nodes   Nodes
	Volumes filter.Volumes
	Pools   bool // what is stored may name the pool that failed a placement
	// Deployments: the cluster knows them, and what is stored may name what volumes keep from a place.
	Deployments bool
}

// Jobs reads jobs, their allocs and their evaluations.
type Jobs interface {
	Job(ids.Namespace, ids.Job) *job.Job
	JobVersion(ns ids.Namespace, id ids.Job, createIndex, version uint64) *job.Job
	JobAllocs(ids.Namespace, ids.Job) []*alloc.Alloc
	JobEvals(ids.Namespace, ids.Job) []*eval.Eval
	Deployment(ids.Deployment) *deployment.Deployment
}

// Nodes reads nodes and what runs on them.
type Nodes interface {
	// Groups yields the groups that have nodes, in an order that follows from their names.
	Groups() iter.Seq[*node.GroupSize]
	// Of yields the nodes of a group whose id is not below from, by id.
	Of(group node.Group, from ids.Node) iter.Seq[*node.Node]
	Node(ids.Node) *node.Node
	NodeAllocs(ids.Node) []*alloc.Alloc
}
