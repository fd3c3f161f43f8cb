// Package scaling owns the public shapes of how groups of jobs are scaled. Only httpapi and package convert import it.
package scaling

import (
	"encoding/json"
	"fmt"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// What may be said of a scaling: events of it are kept.
const (
	maxMessage = 4 << 10
	maxMeta    = 16 << 10
)

// ToScale reads which count a group is to have. The group may be left out where there is one.
func ToScale(in *api.ScalingRequest, ns ids.Namespace, id string) (*wire.JobScaleRequest, error) {
	refuse := func(hint, format string, args ...any) (*wire.JobScaleRequest, error) {
		return nil, fault.WithHint(fault.New(fault.Invalid, "scale", fmt.Sprintf("job %q", id),
			fmt.Sprintf(format, args...)), hint)
	}
	group := in.Target["Group"]
	meta, err := json.Marshal(in.Meta)
	switch {
	case err != nil:
		return refuse("", "Meta: %s", err)
	case in.Target["Job"] != "" && in.Target["Job"] != id:
		return refuse("", "the request's Target names the job %q", in.Target["Job"])
	case group == "":
		return refuse(`name it in Target: {"Group": "..."}`, "the group to scale is not named")
	case in.PolicyOverride:
		return refuse("leave it out", "there are no policies on jobs that PolicyOverride could pass over")
	case in.Error && in.Count != nil:
		return refuse("leave Count out, or Error", "scaling action should not contain count if error is true")
	case in.Count == nil && !in.Error && in.Message == "" && len(in.Meta) == 0:
		return refuse("give a Count, or a Message", "it says nothing: neither a count nor a message")
	case in.Count != nil && *in.Count < 0:
		return refuse("", "scaling action count can't be negative, is %d", *in.Count)
	case len(in.Message) > maxMessage:
		return refuse("", "its message has %d bytes, and may have %d", len(in.Message), maxMessage)
	case len(meta) > maxMeta:
		return refuse("", "its meta have %d bytes, and may have %d", len(meta), maxMeta)
	}
	return &wire.JobScaleRequest{
		Namespace:   ns,
		Job:         ids.Job(id),
		Group:       group,
		Count:       in.Count,
		Message:     in.Message,
		Error:       in.Error,
		Meta:        in.Meta,
		ModifyIndex: in.JobModifyIndex,
	}, nil
}

// Status is the public shape of how the groups of a job are scaled.
func Status(v *wire.JobScaling) *api.JobScaleStatusResponse {
	out := &api.JobScaleStatusResponse{
		JobID:          string(v.Job),
		Namespace:      string(v.Namespace),
		JobCreateIndex: v.JobCreateIndex,
		JobModifyIndex: v.JobModifyIndex,
		JobStopped:     v.Stopped,
		TaskGroups:     map[string]api.TaskGroupScaleStatus{},
	}
	for name, g := range v.Groups { // each its own entry
		is := api.TaskGroupScaleStatus{
			Desired:   g.Desired,
			Placed:    g.Placed,
			Running:   g.Running,
			Healthy:   g.Healthy,
			Unhealthy: g.Unhealthy,
		}
		for _, e := range g.Events {
			is.Events = append(is.Events, event(e))
		}
		out.TaskGroups[name] = is
	}
	return out
}

func event(e *job.ScalingEvent) api.ScalingEvent {
	out := api.ScalingEvent{
		Count:         e.Count,
		PreviousCount: e.PreviousCount,
		Error:         e.Error,
		Message:       e.Message,
		Meta:          e.Meta,
		Time:          uint64(e.Time),
		CreateIndex:   e.CreateIndex,
	}
	if e.Eval != "" {
		out.EvalID = new(string(e.Eval))
	}
	return out
}

// Stub is the line of a policy in lists.
func Stub(p *wire.ScalingPolicy) *api.ScalingPolicyListStub {
	return &api.ScalingPolicyListStub{
		ID:          string(p.ID),
		Enabled:     p.Policy.Enabled,
		Type:        p.Policy.Type,
		Target:      target(p.Namespace, p.Job, p.Group, p.Task),
		CreateIndex: p.CreateIndex,
		ModifyIndex: p.ModifyIndex,
	}
}

// Policy is the public shape of a policy.
func Policy(p *wire.ScalingPolicy) *api.ScalingPolicy {
	return &api.ScalingPolicy{
		ID:          string(p.ID),
		Namespace:   string(p.Namespace),
		Type:        p.Policy.Type,
		Min:         new(p.Policy.Min),
		Max:         new(p.Policy.Max),
		Policy:      p.Policy.Policy,
		Target:      target(p.Namespace, p.Job, p.Group, p.Task),
		Enabled:     new(p.Policy.Enabled),
		CreateIndex: p.CreateIndex,
		ModifyIndex: p.ModifyIndex,
	}
}

func target(ns ids.Namespace, id ids.Job, group, task string) map[string]string {
	out := map[string]string{"Namespace": string(ns), "Job": string(id), "Group": group}
	if task != "" {
		out["Task"] = task
	}
	return out
}

// Fill gives the policies of a public job what only servers say of them.
func Fill(out *api.Job, in *job.Job) {
	fill := func(shown *api.ScalingPolicy, p job.Policy) {
		shown.ID, shown.Namespace = string(p.ID()), string(in.Namespace)
		shown.Target = target(in.Namespace, in.ID, p.Group, p.Task)
		shown.CreateIndex, shown.ModifyIndex = in.CreateIndex, in.JobModifyIndex
	}
	for i, g := range in.TaskGroups {
		if g.Scaling != nil {
			fill(out.TaskGroups[i].Scaling, job.Policy{ScalingPolicy: g.Scaling, Job: in, Group: g.Name})
		}
		for k, t := range g.Tasks {
			for n, p := range t.ScalingPolicies {
				fill(out.TaskGroups[i].Tasks[k].ScalingPolicies[n],
					job.Policy{ScalingPolicy: p, Job: in, Group: g.Name, Task: t.Name})
			}
		}
	}
}
