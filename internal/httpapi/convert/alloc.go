package convert

import (
	"time"

	"berth/api"
	"berth/internal/httpapi/convert/devices"
	"berth/internal/httpapi/convert/networks"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// Alloc makes the public form of an alloc with its job version.
func Alloc(b alloc.Bundle, storage []wire.AllocVolume) *api.Allocation {
	a := b.Alloc
	out := &api.Allocation{
		ID:                 string(a.ID),
		Namespace:          string(a.Namespace),
		EvalID:             string(a.Eval),
		Name:               a.Name,
		NodeID:             string(a.Node),
		NodeName:           a.NodeName,
		JobID:              string(a.Job),
		Job:                FromJob(b.Job, job.StatusRunning, ""),
		TaskGroup:          a.TaskGroup,
		TaskResources:      map[string]*api.Resources{},
		AllocatedResources: allocated(a, groupOf(b)),
		Metrics:            Metric(a.Metrics),
		DesiredStatus:      a.DesiredStatus,
		DesiredDescription: a.DesiredDescription,
		DesiredTransition:  transition(a),
		ClientStatus:       a.ClientStatus,
		ClientDescription:  a.ClientDescription,
		TaskStates:         TaskStates(a.TaskStates),
		PreviousAllocation: string(a.PreviousAlloc),
		NextAllocation:     string(a.NextAlloc),
		DeploymentID:       string(a.Deployment),
		DeploymentStatus:   health(a),
		FollowupEvalID:     string(a.FollowupEval),
		RescheduleTracker:  tracker(a),
		NetworkStatus:      networks.Status(a),
		Standing:           standing(b),
		CreateIndex:        a.CreateIndex,
		ModifyIndex:        a.ModifyIndex,
		AllocModifyIndex:   a.AllocModifyIndex,
		CreateTime:         a.CreateTime,
		ModifyTime:         a.ModifyTime,
	}
	if out.Metrics == nil {
		out.Metrics = &api.AllocationMetric{}
	} else if b.Job != nil {
		out.Metrics.NodePool = node.PoolOf(b.Job.NodePool)
	}
	cpu, mem, disk := a.Resources.Total()
	out.Resources, out.SharedResources = amounts(cpu, mem, 0, disk), amounts(0, 0, 0, disk)
	for name, t := range a.Resources.Tasks {
		out.TaskResources[name] = amounts(t.CPUShares, t.MemoryMB, t.MemoryMaxMB, 0)
		out.TaskResources[name].Cores = new(len(t.Cores))
	}
	for _, v := range storage {
		out.Storage = append(out.Storage, api.AllocVolume{
			Alias:     v.Alias,
			Volume:    string(v.Volume),
			Plugin:    string(v.Plugin),
			Provider:  v.Provider,
			ReadOnly:  v.ReadOnly,
			State:     v.State,
			Path:      v.Path,
			Held:      v.Held,
			LastError: v.LastError,
			NextTry:   when(v.NextTry),
		})
	}
	return out
}

// amounts makes resources without a null among them: clients follow the pointers.
func amounts(cpu, mem, memMax, disk int64) *api.Resources {
	out := &api.Resources{
		CPU:         new(int(cpu)),
		MemoryMB:    new(int(mem)),
		MemoryMaxMB: new(int(memMax)),
		DiskMB:      new(int(disk)),
	}
	noNulls(out)
	return out
}

// noNulls fills the amounts that nothing asks for.
func noNulls(r *api.Resources) {
	for _, p := range []**int{&r.CPU, &r.Cores, &r.MemoryMB, &r.MemoryMaxMB, &r.DiskMB, &r.SecretsMB, &r.IOPS} {
		if *p == nil {
			*p = new(0)
		}
	}
}

func orEmpty[M ~map[string]V, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}

// AllocStub is the line of an alloc in lists. Its job is nil when that is not at hand.
func AllocStub(b alloc.Bundle) *api.AllocationListStub {
	a := b.Alloc
	return &api.AllocationListStub{
		ID:                 string(a.ID),
		EvalID:             string(a.Eval),
		Name:               a.Name,
		Namespace:          string(a.Namespace),
		NodeID:             string(a.Node),
		NodeName:           a.NodeName,
		JobID:              string(a.Job),
		JobType:            a.JobType,
		JobVersion:         a.JobVersion,
		TaskGroup:          a.TaskGroup,
		AllocatedResources: allocated(a, groupOf(b)),
		DesiredStatus:      a.DesiredStatus,
		DesiredDescription: a.DesiredDescription,
		ClientStatus:       a.ClientStatus,
		ClientDescription:  a.ClientDescription,
		DesiredTransition:  transition(a),
		TaskStates:         TaskStates(a.TaskStates),
		DeploymentStatus:   health(a),
		FollowupEvalID:     string(a.FollowupEval),
		NextAllocation:     string(a.NextAlloc),
		RescheduleTracker:  tracker(a),
		Standing:           standing(b),
		CreateIndex:        a.CreateIndex,
		ModifyIndex:        a.ModifyIndex,
		CreateTime:         a.CreateTime,
		ModifyTime:         a.ModifyTime,
	}
}

// AllocLine shows the allocs of a list.
func AllocLine(list *wire.AllocListReply) func(alloc.Bundle) *api.AllocationListStub {
	return func(b alloc.Bundle) *api.AllocationListStub {
		line := AllocStub(b)
		line.Standing.Orphan = list.Orphans[b.Alloc.ID]
		return line
	}
}

func transition(a *alloc.Alloc) api.DesiredTransition {
	return api.DesiredTransition{
		Migrate:         new(a.Migrate && !a.Replace),
		Reschedule:      new(a.Migrate && a.Replace),
		ForceReschedule: new(a.ForceReschedule),
		NoShutdownDelay: new(a.NoShutdownDelay),
	}
}

// groupOf is the alloc's group, or nil where its job is not at hand.
func groupOf(b alloc.Bundle) *job.TaskGroup {
	if b.Job == nil {
		return nil
	}
	return b.Job.Group(b.Alloc.TaskGroup)
}

func standing(b alloc.Bundle) *api.AllocStanding {
	s := alloc.Describe(b.Alloc, groupOf(b))
	return &api.AllocStanding{
		Phase:     s.Phase,
		Waits:     s.Waits,
		Task:      s.Task,
		Trouble:   s.Trouble,
		RestartAt: when(s.RestartAt),
		Attempt:   s.Attempt,
		Attempts:  s.Attempts,
	}
}

func health(a *alloc.Alloc) *api.AllocDeploymentStatus {
	if a.Health == nil {
		if a.Canary {
			return &api.AllocDeploymentStatus{Canary: true}
		}
		return nil
	}
	h := *a.Health
	return &api.AllocDeploymentStatus{
		Healthy:     &h.Healthy,
		Timestamp:   &h.At,
		Canary:      a.Canary,
		ModifyIndex: h.Index,
		Reason:      h.Reason,
	}
}

func tracker(a *alloc.Alloc) *api.RescheduleTracker {
	if len(a.Reschedule) == 0 {
		return nil
	}
	out := &api.RescheduleTracker{}
	for _, e := range a.Reschedule {
		out.Events = append(out.Events,
			&api.RescheduleEvent{
				RescheduleTime: e.Time,
				PrevAllocID:    string(e.PrevAlloc),
				PrevNodeID:     string(e.PrevNode),
				Delay:          e.Delay,
			})
	}
	return out
}

func allocated(a *alloc.Alloc, g *job.TaskGroup) *api.AllocatedResources {
	out := &api.AllocatedResources{
		Tasks:          map[string]*api.AllocatedTaskResources{},
		TaskLifecycles: map[string]*api.TaskLifecycle{},
	}
	for name, t := range a.Resources.Tasks {
		out.Tasks[name] = &api.AllocatedTaskResources{
			Cpu:     api.AllocatedCpuResources{CpuShares: t.CPUShares, ReservedCores: t.Cores},
			Memory:  api.AllocatedMemoryResources{MemoryMB: t.MemoryMB, MemoryMaxMB: t.MemoryMaxMB},
			Devices: devices.Given(t.Devices),
		}
		out.TaskLifecycles[name] = nil
	}
	out.Shared.DiskMB = a.Resources.DiskMB
	networks.Allocated(&out.Shared, a, g)
	return out
}

// TaskStates makes the public task states.
func TaskStates(in map[string]*alloc.TaskState) map[string]*api.TaskState {
	if in == nil {
		return nil
	}
	out := make(map[string]*api.TaskState, len(in))
	for name, s := range in {
		t := &api.TaskState{
			State:       s.State,
			Failed:      s.Failed,
			Restarts:    s.Restarts,
			LastRestart: when(s.LastRestart),
			StartedAt:   when(s.StartedAt),
			FinishedAt:  when(s.FinishedAt),
		}
		for _, e := range s.Events {
			t.Events = append(t.Events, &api.TaskEvent{
				Type:           e.Type,
				Time:           e.Time,
				DisplayMessage: e.DisplayMessage,
				Details:        orEmpty(e.Details),
				Message:        e.Message,
				FailsTask:      e.FailsTask,
				ExitCode:       e.ExitCode,
				Signal:         e.Signal,
			})
		}
		out[name] = t
	}
	return out
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Metric makes the public explanation of a placement.
func Metric(m *alloc.Metric) *api.AllocationMetric {
	if m == nil {
		return nil
	}
	out := &api.AllocationMetric{
		NodesEvaluated:     m.NodesEvaluated,
		NodesFiltered:      m.NodesFiltered,
		NodesInPool:        m.NodesInPool,
		NodePool:           node.PoolOf(m.NodePool),
		NodesAvailable:     m.NodesAvailable,
		ClassFiltered:      m.ClassFiltered,
		ConstraintFiltered: m.ConstraintFiltered,
		NodesExhausted:     m.NodesExhausted,
		ClassExhausted:     m.ClassExhausted,
		DimensionExhausted: m.DimensionExhausted,
		AllocationTime:     m.AllocationTime,
		CoalescedFailures:  m.CoalescedFailures,
	}
	for _, s := range m.ScoreMetaData {
		out.ScoreMetaData = append(out.ScoreMetaData,
			&api.NodeScoreMeta{NodeID: string(s.NodeID), Scores: s.Scores, NormScore: s.NormScore})
	}
	for _, r := range m.Reasons {
		out.Reasons = append(out.Reasons,
			api.NodeReason{Node: string(r.Node), Name: r.Name, Reason: r.Reason, Hint: r.Hint})
	}
	return out
}

// Metrics translates the failures of an evaluation by group.
func Metrics(in map[string]*alloc.Metric) map[string]*api.AllocationMetric {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]*api.AllocationMetric, len(in))
	for g, m := range in {
		out[g] = Metric(m)
	}
	return out
}

// Eval makes the public form of an evaluation.
func Eval(e *eval.Eval, related []*eval.Eval) *api.Evaluation {
	if e == nil {
		return nil
	}
	out := &api.Evaluation{
		ID:                string(e.ID),
		Namespace:         string(e.Namespace),
		Priority:          e.Priority,
		Type:              e.Type,
		TriggeredBy:       e.TriggeredBy,
		JobID:             string(e.Job),
		JobModifyIndex:    e.JobModifyIndex,
		NodeID:            string(e.Node),
		NodeModifyIndex:   e.NodeModifyIndex,
		DeploymentID:      string(e.Deployment),
		Status:            e.Status,
		StatusDescription: e.StatusDescription,
		WaitUntil:         when(e.WaitUntil),
		NextEval:          string(e.NextEval),
		PreviousEval:      string(e.PreviousEval),
		BlockedEval:       string(e.BlockedEval),
		FailedTGAllocs:    Metrics(e.FailedTGAllocs),
		QueuedAllocations: e.QueuedAllocations,
		SnapshotIndex:     e.SnapshotIndex,
		CreateIndex:       e.CreateIndex,
		ModifyIndex:       e.ModifyIndex,
		CreateTime:        e.CreateTime,
		ModifyTime:        e.ModifyTime,
	}
	for _, r := range related {
		out.RelatedEvals = append(out.RelatedEvals, &api.EvaluationStub{
			ID:                string(r.ID),
			Namespace:         string(r.Namespace),
			Priority:          r.Priority,
			Type:              r.Type,
			TriggeredBy:       r.TriggeredBy,
			JobID:             string(r.Job),
			NodeID:            string(r.Node),
			DeploymentID:      string(r.Deployment),
			Status:            r.Status,
			StatusDescription: r.StatusDescription,
			WaitUntil:         when(r.WaitUntil),
			NextEval:          string(r.NextEval),
			PreviousEval:      string(r.PreviousEval),
			BlockedEval:       string(r.BlockedEval),
			CreateIndex:       r.CreateIndex,
			ModifyIndex:       r.ModifyIndex,
			CreateTime:        r.CreateTime,
			ModifyTime:        r.ModifyTime,
		})
	}
	return out
}
