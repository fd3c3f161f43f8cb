package convert

import (
	"cmp"
	"time"

	"berth/api"
	"berth/internal/httpapi/convert/launches"
	"berth/internal/httpapi/convert/scaling"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// ToJob makes the internal job of a canonical one.
func ToJob(in *api.Job) *job.Job {
	out := &job.Job{}
	mirror(out, in)
	for _, g := range out.TaskGroups {
		for _, n := range g.Networks {
			if n.Mode == "" {
				n.Mode = onHost
			}
			for _, ports := range [][]job.Port{n.ReservedPorts, n.DynamicPorts} {
				for i := range ports {
					if ports[i].HostNetwork == defaultNetwork {
						ports[i].HostNetwork = ""
					}
				}
			}
		}
	}
	return out
}

// What a job that leaves it unset is kept as, and what clients are used to see there.
const (
	onHost         = "host"
	defaultNetwork = "default"
)

// asObserved shows the defaults as clients of this API are used to see them.
func asObserved(g *api.TaskGroup) {
	for _, n := range g.Networks {
		if n.Mode == onHost {
			n.Mode = ""
		}
		for _, ports := range [][]api.Port{n.ReservedPorts, n.DynamicPorts} {
			for i := range ports {
				ports[i].HostNetwork = cmp.Or(ports[i].HostNetwork, defaultNetwork)
			}
		}
	}
}

// shownServices gives services what only their public shape has.
func shownServices(j *job.Job, services []*api.Service) {
	for _, s := range services {
		s.Namespace, s.Cluster = string(j.Namespace), defaultNetwork
	}
}

// Drained is how allocs of every service leave a node that is drained: other ways are refused.
func Drained() *api.MigrateStrategy {
	return &api.MigrateStrategy{
		MaxParallel:     new(1),
		HealthCheck:     new(job.HealthByChecks),
		MinHealthyTime:  new(10 * time.Second),
		HealthyDeadline: new(5 * time.Minute),
	}
}

// FromJob makes the public job, status included. The shapes that clients need to be there are: no nil where the API
// promises a value.
func FromJob(in *job.Job, status, description string) *api.Job {
	if in == nil {
		return nil
	}
	out := &api.Job{}
	mirror(out, in)
	out.Status, out.StatusDescription = &status, &description
	out.ConsulNamespace = new("")
	out.VaultNamespace = new("")
	out.NomadTokenID = new("")
	if len(in.TaskGroups) > 0 && in.TaskGroups[0].Update != nil {
		out.Update = shownUpdate(in.TaskGroups[0].Update)
	}
	for _, g := range out.TaskGroups {
		fillGroup(g)
		shownServices(in, g.Services)
		for _, t := range g.Tasks {
			shownServices(in, t.Services)
		}
		if in.Type == api.JobTypeService {
			g.Migrate = Drained()
		}
	}
	scaling.Fill(out, in)
	return out
}

// shownUpdate is the job's own update, as clients are used to see it when every group has its own: of how allocs are
// held to be healthy it says nothing (jobrules.Canonicalize knows it again).
func shownUpdate(first *job.UpdateStrategy) *api.UpdateStrategy {
	out := &api.UpdateStrategy{}
	mirror(out, first)
	out.HealthCheck = new("")
	out.MinHealthyTime = new(time.Duration(0))
	out.HealthyDeadline = new(time.Duration(0))
	out.ProgressDeadline = new(time.Duration(0))
	out.Canary = new(0)
	out.AutoRevert = new(false)
	out.AutoPromote = new(false)
	return out
}

// fillGroup gives the members that only the public shape has the values that say: not asked for.
func fillGroup(g *api.TaskGroup) {
	g.PreventRescheduleOnLost = new(false)
	asObserved(g)
	for name, v := range g.Volumes {
		v.Name = name
	}
	for _, t := range g.Tasks {
		if t.Resources != nil {
			noNulls(t.Resources)
		}
	}
}

// FromJobView makes the public job of a view; nil stays nil.
func FromJobView(v *wire.JobView) *api.Job {
	if v == nil {
		return nil
	}
	return FromJob(v.Job, v.Status, v.StatusDescription)
}

// JobStub is the line of a job in lists.
func JobStub(v *wire.JobView, withMeta bool) *api.JobListStub {
	j := v.Job
	out := &api.JobListStub{
		ID:                string(j.ID),
		Name:              j.Name,
		Namespace:         string(j.Namespace),
		Datacenters:       j.Datacenters,
		NodePool:          j.NodePool,
		Type:              j.Type,
		Priority:          j.Priority,
		ParentID:          string(j.ParentID),
		Periodic:          j.Periodic != nil,
		ParameterizedJob:  j.ParameterizedJob != nil,
		Stop:              j.Stop,
		Status:            v.Status,
		StatusDescription: v.StatusDescription,
		JobSummary:        JobSummary(v),
		CreateIndex:       j.CreateIndex,
		ModifyIndex:       j.ModifyIndex,
		JobModifyIndex:    j.JobModifyIndex,
		SubmitTime:        j.SubmitTime,
	}
	if withMeta {
		out.Meta = j.Meta
	}
	return out
}

// Plan makes the public form of what a registration of a job would do.
func Plan(p *wire.JobPlanReply, j *job.Job) *api.JobPlanResponse {
	out := &api.JobPlanResponse{
		JobModifyIndex: p.JobModifyIndex,
		FailedTGAllocs: Metrics(p.FailedTGAllocs),
		Warnings:       WarningText(p.Warnings),
		Index:          p.Index,
		Annotations:    &api.PlanAnnotations{DesiredTGUpdates: map[string]*api.DesiredUpdates{}},

		NextPeriodicLaunch: launches.Next(j),
	}
	for _, m := range out.FailedTGAllocs { // each of its own
		m.NodePool = j.NodePool
	}
	for _, v := range p.NewVolumes {
		out.NewVolumes = append(out.NewVolumes, string(v))
	}
	for g, c := range p.Annotations {
		out.Annotations.DesiredTGUpdates[g] = &api.DesiredUpdates{}
		mirror(out.Annotations.DesiredTGUpdates[g], c)
	}
	if len(p.FailedTGAllocs) > 0 { // what has no place would wait for it
		out.CreatedEvals = []*api.Evaluation{{
			Namespace:         string(j.Namespace),
			Priority:          j.Priority,
			Type:              j.Type,
			TriggeredBy:       "queued-allocs",
			JobID:             string(j.ID),
			Status:            "blocked",
			StatusDescription: "created to place remaining allocations",
			FailedTGAllocs:    out.FailedTGAllocs,
		}}
	}
	return out
}

// JobSummary counts a job's allocs.
func JobSummary(v *wire.JobView) *api.JobSummary {
	out := &api.JobSummary{
		JobID:       string(v.Job.ID),
		Namespace:   string(v.Job.Namespace),
		Summary:     map[string]api.TaskGroupSummary{},
		Children:    launches.Counts(v),
		CreateIndex: v.SummaryCreate,
		ModifyIndex: v.SummaryModify,
	}
	for g, s := range v.Summary {
		out.Summary[g] = api.TaskGroupSummary{
			Queued:   s.Queued,
			Complete: s.Complete,
			Failed:   s.Failed,
			Running:  s.Running,
			Starting: s.Starting,
			Lost:     s.Lost,
			Unknown:  s.Unknown,
		}
	}
	return out
}
