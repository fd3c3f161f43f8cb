// Package deployment owns deployments: the replacement of one version of a job by the next, as far as it was decided.
// What is placed and healthy is not kept here but follows from the allocs (derive/progress). Every package above the
// model may import it.
package deployment

import (
	"slices"
	"strconv"
	"time"

	"berth/internal/base/ids"
)

// Schema is the number of the cluster from which on there are deployments.
const Schema = 12

// Status values, as clients of this API know them.
const (
	Running    = "running"
	Paused     = "paused"
	Successful = "successful"
	Failed     = "failed"
	Cancelled  = "cancelled"
)

// Descriptions of a status, as clients of this API know them.
const (
	WhyRunning      = "Deployment is running"
	WhyNeedsPromote = "Deployment is running but requires manual promotion"
	WhyAutoPromotes = "Deployment is running pending automatic promotion"
	WhyPaused       = "Deployment is paused"
	WhySuccessful   = "Deployment completed successfully"
	WhyStopped      = "Cancelled because job is stopped"
	WhyNewer        = "Cancelled due to newer version of job"
	WhyLate         = "Failed due to progress deadline"
	WhyUnhealthy    = "Failed due to unhealthy allocations"
	WhyByHand       = "Deployment marked as failed"
)

// Deployment brings one version of a job about. It is made with the first placement of that version.
type Deployment struct {
	ID                ids.Deployment
	Namespace         ids.Namespace
	Job               ids.Job
	JobVersion        uint64
	JobCreateIndex    uint64 // tells a purged and registered-again job apart
	JobModifyIndex    uint64 // of the version
	Groups            map[string]*Group
	Status            string
	StatusDescription string
	EvalPriority      int
	CreateIndex       uint64
	ModifyIndex       uint64
	CreateTime        int64 // nanoseconds since the epoch
	ModifyTime        int64
}

// Group is what a deployment does to one group: what its version of the job asks for, which may be forgotten before the
// deployment is, and what was decided.
type Group struct {
	AutoRevert       bool
	AutoPromote      bool
	ProgressDeadline time.Duration // 0: the first alloc that is not healthy fails the deployment
	DesiredTotal     int           // of a system job: the nodes that fitted when it began
	DesiredCanaries  int           // 0: the version replaces nothing of this group, or has no canaries
	Promoted         bool
	Canaries         []ids.Alloc `cbor:",omitempty"` // that were promoted
	// Came is how far it had come when the deployment ended; nil: it has not, and that follows from the allocs. Those
	// go over to later deployments, by updates in place, and are forgotten.
	Came *Tally `cbor:",omitempty"`
}

// Tally counts what a deployment placed in a group: all of it, what is healthy, and what is not.
type Tally struct{ Placed, Healthy, Unhealthy int }

// IDOf is the id of the deployment of one version of a job: there is one at most.
func IDOf(ns ids.Namespace, id ids.Job, create, version uint64) ids.Deployment {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return ids.Deployment(ids.Derived("deployment", string(ns), string(id), number(create), number(version)))
}

// Active reports whether the deployment may still do something.
func (d *Deployment) Active() bool { return d != nil && (d.Status == Running || d.Status == Paused) }

// Canarying reports a group that keeps to canaries: nothing else of the version is placed in it.
func (g *Group) Canarying() bool { return g != nil && g.DesiredCanaries > 0 && !g.Promoted }

// Names lists the groups in order.
func (d *Deployment) Names() []string {
	out := make([]string, 0, len(d.Groups))
	for name := range d.Groups {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Reverts reports whether the failure of any group goes back to the version before.
func (d *Deployment) Reverts() bool {
	for _, g := range d.Groups {
		if g.AutoRevert {
			return true
		}
	}
	return false
}

// With returns a copy in another status.
func (d *Deployment) With(status, description string) *Deployment {
	n := *d
	n.Status, n.StatusDescription = status, description
	return &n
}

// Describe is the description of a deployment that runs.
func (d *Deployment) Describe() string {
	waits, all := false, true
	for _, g := range d.Groups { // in any order: it is a conjunction
		if g.Canarying() {
			waits, all = true, all && g.AutoPromote
		}
	}
	switch {
	case waits && all:
		return WhyAutoPromotes
	case waits:
		return WhyNeedsPromote
	}
	return WhyRunning
}
