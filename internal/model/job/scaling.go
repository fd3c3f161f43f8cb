package job

import (
	"fmt"
	"iter"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

// SchemaScaling is the schema of a cluster whose jobs say between which counts they are scaled, and are.
const SchemaScaling = 14

// Types of scaling policies: of groups, and of tasks.
const (
	ScalingHorizontal     = "horizontal"
	ScalingVerticalCPU    = "vertical_cpu"
	ScalingVerticalMemory = "vertical_mem"
)

// MaxScalingEvents is how many events of a group are remembered.
const MaxScalingEvents = 20

// ScalingPolicy bounds the count of a group, or says to an autoscaler how a task is to be sized. What Policy says only
// the autoscaler reads.
type ScalingPolicy struct {
	Type    string
	Min     int64
	Max     int64
	Policy  map[string]any
	Enabled bool
}

// Policy is a scaling policy with what it is of.
type Policy struct {
	*ScalingPolicy
	Job   *Job
	Group string
	Task  string // empty: of the group
}

// ID is that of the policy, which stays when the job changes.
func (p Policy) ID() ids.Scaling {
	of := p.Job
	return ids.Scaling(ids.Derived("scaling", string(of.Namespace), string(of.ID), p.Group, p.Task, p.Type))
}

// Policies yields the scaling policies of a job: a stopped one has none, for there is nothing to scale.
func (j *Job) Policies() iter.Seq[Policy] {
	return func(yield func(Policy) bool) {
		if j.Stopped() {
			return
		}
		for _, g := range j.TaskGroups {
			if g.Scaling != nil && !yield(Policy{g.Scaling, j, g.Name, ""}) {
				return
			}
			for _, t := range g.Tasks {
				for _, p := range t.ScalingPolicies {
					if !yield(Policy{p, j, g.Name, t.Name}) {
						return
					}
				}
			}
		}
	}
}

// HasPolicies reports a job with scaling policies.
func (j *Job) HasPolicies() bool {
	return slices.ContainsFunc(j.TaskGroups, func(g *TaskGroup) bool {
		return g.Scaling != nil ||
			slices.ContainsFunc(g.Tasks, func(t *Task) bool { return len(t.ScalingPolicies) > 0 })
	})
}

// ScalingEvent is one scaling of a group, or what an autoscaler had to say about it.
type ScalingEvent struct {
	Count         *int64 // nil: it was not scaled
	PreviousCount int64
	Error         bool
	Message       string
	Meta          map[string]any
	Eval          ids.Eval // empty: nothing to follow
	Time          int64    // nanoseconds since the epoch
	CreateIndex   uint64
}

// Scalings are the events of a job's groups, the newest first.
type Scalings struct {
	Namespace   ids.Namespace
	Job         ids.Job
	Groups      map[string][]*ScalingEvent
	CreateIndex uint64
	ModifyIndex uint64
}

// With is a copy with one event more; the oldest of the group goes when there are too many.
func (s *Scalings) With(group string, e *ScalingEvent) *Scalings {
	out := *s
	out.Groups = map[string][]*ScalingEvent{}
	for name, list := range s.Groups { // each its own entry
		out.Groups[name] = list
	}
	list := append([]*ScalingEvent{e}, s.Groups[group]...)
	out.Groups[group] = list[:min(len(list), MaxScalingEvents)]
	return &out
}

// Scaled is a copy of the job in which a group has another count, or the reason why it cannot have it. A job as a whole
// stays in its bounds, too.
func (j *Job) Scaled(group string, count int64) (*Job, error) {
	refuse := func(hint, format string, args ...any) error {
		return fault.WithHint(fault.New(fault.Invalid, "scale", fmt.Sprintf("job %q", j.ID),
			fmt.Sprintf(format, args...)), hint)
	}
	at := slices.IndexFunc(j.TaskGroups, func(g *TaskGroup) bool { return g.Name == group })
	switch {
	case at < 0:
		return nil, refuse("", "it has no group %q", group)
	case OnEveryNode(j.Type):
		return nil, refuse("change its constraints instead", "a job of type %s runs on every node that fits", j.Type)
	case j.Stop:
		return nil, refuse("start it first: berth job start "+ids.Typed(j.Namespace, j.ID), "it is stopped")
	case count < 0 || count > int64(MaxAllocs.Max):
		return nil, refuse("", "the count of group %q must be between 0 and %d, is %d", group, MaxAllocs.Max, count)
	}
	if p := j.TaskGroups[at].Scaling; p != nil { // the texts are what clients of this API know
		const hint = "change the job's scaling block, or take a count within it"
		switch {
		case count < p.Min:
			return nil, refuse(hint, "group count was less than scaling policy minimum: %d < %d", count, p.Min)
		case count > p.Max:
			return nil, refuse(hint, "group count was greater than scaling policy maximum: %d > %d", count, p.Max)
		}
	}
	out := *j
	out.TaskGroups = slices.Clone(j.TaskGroups)
	g := *j.TaskGroups[at]
	g.Count = int(count)
	out.TaskGroups[at] = &g
	if over := out.Excesses(); len(over) > 0 {
		return nil, fault.Wrap(over[0], fault.Invalid, "scale", fmt.Sprintf("job %q", j.ID))
	}
	return &out, nil
}
