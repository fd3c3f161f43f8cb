package permissions

import (
	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/policies"
	"berth/internal/server/state"
	"berth/internal/wire"
)

var jobs = []entry{
	asks(wire.JobRegister, func(r *wire.JobRegisterRequest, _ *state.Snap) []need {
		return submits(r.Job, acl.RegisterJob)
	}),
	asks(wire.JobPlan, func(r *wire.JobPlanRequest, _ *state.Snap) []need { return submits(r.Job, acl.PlanJob) }),
	asks(wire.JobValidate, func(r *wire.JobValidateRequest, _ *state.Snap) []need {
		if r.Job == nil {
			return everything()
		}
		return in(r.Job.Namespace, acl.ParseJob, acl.ReadJob, acl.PlanJob, acl.RegisterJob)
	}),
	asks(wire.JobDeregister, func(r *wire.JobDeregisterRequest, _ *state.Snap) []need {
		if r.Purge {
			return append(in(r.Namespace, acl.DeregisterJob), in(r.Namespace, acl.PurgeJob)...)
		}
		return in(r.Namespace, acl.DeregisterJob)
	}),
	// What it runs is what is stored: it is judged as if it were submitted.
	asks(wire.JobStart, func(r *wire.JobStartRequest, s *state.Snap) []need {
		if j := s.Job(nil, r.Namespace, r.Job); j != nil {
			return submits(j, acl.RegisterJob)
		}
		return in(r.Namespace, acl.RegisterJob)
	}),
	asks(wire.JobEvaluate, func(r *wire.JobEvaluateRequest, _ *state.Snap) []need {
		return in(r.Namespace, acl.EvaluateJob)
	}),
	asks(wire.JobDispatch, func(r *wire.JobDispatchRequest, _ *state.Snap) []need {
		return in(r.Namespace, acl.DispatchJob)
	}),
	asks(wire.JobForce, func(r *wire.JobForceRequest, _ *state.Snap) []need {
		return in(r.Namespace, acl.ForcePeriodicJob)
	}),
	asks(wire.JobGet, readsJob),
	asks(wire.JobVersions, readsJob),
	asks(wire.JobRollout, readsJob),
	asks(wire.JobEvals, readsJob),
	// What its own job offers, a task may know without a rule.
	asks(wire.JobServices, func(r *wire.Ref[ids.Job], _ *state.Snap) []need {
		n := in(r.Namespace, acl.ReadJob)
		n[0].ownJob = r.ID
		return n
	}),
	asks(wire.JobConsul, func(r *wire.JobConsulRequest, _ *state.Snap) []need { return in(r.Namespace, acl.ReadJob) }),
	asks(wire.ServiceList, func(r *wire.Query, _ *state.Snap) []need { return listed(r.Namespace, acl.ReadJob) }),
	asks(wire.ServiceGet, func(r *wire.ServiceGetRequest, _ *state.Snap) []need {
		return in(r.Namespace, acl.ReadJob)
	}),
	asks(wire.ServiceDelete, func(r *wire.ServiceDeleteRequest, _ *state.Snap) []need {
		return in(r.Namespace, acl.SubmitJob)
	}),
	asks(wire.JobSubmission, func(r *wire.JobSubmissionRequest, _ *state.Snap) []need {
		return in(r.Namespace, acl.ReadJob)
	}),
	asks(wire.JobAllocs, func(r *wire.JobAllocsRequest, _ *state.Snap) []need { return in(r.Namespace, acl.ReadJob) }),
	asks(wire.JobList, func(r *wire.Query, _ *state.Snap) []need { return listed(r.Namespace, acl.ListJobs) }),
	asks(wire.EvalList, func(r *wire.Query, _ *state.Snap) []need { return listed(r.Namespace, acl.ReadJob) }),
	asks(wire.EvalGet, readsEval),
	asks(wire.EvalAllocs, readsEval),
	// A version that is gone back to is judged as if it were submitted.
	asks(wire.JobRevert, func(r *wire.JobRevertRequest, s *state.Snap) []need {
		if j := s.Job(nil, r.Namespace, r.Job); j != nil {
			if v := s.JobVersion(nil, r.Namespace, r.Job, j.CreateIndex, r.Version); v != nil {
				return submits(v, acl.RevertJob)
			}
		}
		return in(r.Namespace, acl.RevertJob)
	}),
	asks(wire.JobTag, func(r *wire.JobTagRequest, _ *state.Snap) []need {
		return in(r.Namespace, acl.TagJobVersion)
	}),
	asks(wire.JobUntag, func(r *wire.JobUntagRequest, _ *state.Snap) []need {
		return in(r.Namespace, acl.TagJobVersion)
	}),
	asks(wire.JobScale, func(r *wire.JobScaleRequest, _ *state.Snap) []need {
		return in(r.Namespace, acl.ScaleJob, acl.SubmitJob)
	}),
	asks(wire.JobScaleStatus, func(r *wire.Ref[ids.Job], _ *state.Snap) []need {
		return in(r.Namespace, acl.ReadJobScaling, acl.ReadJob)
	}),
	asks(wire.ScalingPolicyList, func(r *wire.ScalingPoliciesRequest, _ *state.Snap) []need {
		return listed(r.Namespace, acl.ListScalingPolicies, acl.ReadJob)
	}),
	asks(wire.ScalingPolicyGet, func(r *wire.Ref[ids.Scaling], s *state.Snap) []need {
		p, there := policies.Find(s, nil, r.ID)
		own := r.Namespace
		if there {
			own = p.Job.Namespace
		}
		return inThat(own, r.Namespace, there, acl.ReadScalingPolicy, acl.ReadJob)
	}),
	asks(wire.JobStable, func(r *wire.JobStableRequest, _ *state.Snap) []need {
		return in(r.Namespace, acl.StableJob)
	}),
}

var deployments = []entry{
	asks(wire.DeploymentList, func(r *wire.Query, _ *state.Snap) []need { return listed(r.Namespace, acl.ReadJob) }),
	asks(wire.DeploymentGet, readsDeployment),
	asks(wire.DeploymentAllocs, readsDeployment),
	asks(wire.DeploymentOfJob, func(r *wire.JobDeploymentsRequest, _ *state.Snap) []need {
		return in(r.Namespace, acl.ReadJob)
	}),
	asks(wire.DeploymentPromote, func(r *wire.DeploymentPromoteRequest, s *state.Snap) []need {
		return ofDeployment(s, r.Deployment, r.Namespace, acl.PromoteDeployment)
	}),
	asks(wire.DeploymentFail, func(r *wire.DeploymentRequest, s *state.Snap) []need {
		return ofDeployment(s, r.Deployment, r.Namespace, acl.FailDeployment)
	}),
	asks(wire.DeploymentPause, func(r *wire.DeploymentPauseRequest, s *state.Snap) []need {
		return ofDeployment(s, r.Deployment, r.Namespace, acl.PauseDeployment)
	}),
	asks(wire.DeploymentSetHealth, func(r *wire.DeploymentHealthRequest, s *state.Snap) []need {
		return ofDeployment(s, r.Deployment, r.Namespace, acl.SetDeploymentHealth)
	}),
}

func readsDeployment(r *wire.Ref[ids.Deployment], s *state.Snap) []need {
	return ofDeployment(s, r.ID, r.Namespace, acl.ReadJob)
}

var allocs = []entry{
	asks(wire.AllocList, func(r *wire.Query, _ *state.Snap) []need { return listed(r.Namespace, acl.ReadJob) }),
	asks(wire.AllocGet, func(r *wire.Ref[ids.Alloc], s *state.Snap) []need {
		return ofAlloc(s, r.ID, r.Namespace, acl.ReadJob)
	}),
	asks(wire.AllocServices, func(r *wire.Ref[ids.Alloc], s *state.Snap) []need {
		return ofAlloc(s, r.ID, r.Namespace, acl.ReadJob)
	}),
	asks(wire.AllocStop, func(r *wire.AllocStopRequest, s *state.Snap) []need {
		return ofAlloc(s, r.Alloc, r.Namespace, acl.AllocLifecycle)
	}),
	asks(wire.AllocRestart, func(r *wire.AllocRestartRequest, s *state.Snap) []need {
		return onNode(s, r.AgentRef, acl.AllocLifecycle)
	}),
	asks(wire.AllocSignal, func(r *wire.AllocSignalRequest, s *state.Snap) []need {
		return onNode(s, r.AgentRef, acl.AllocLifecycle)
	}),
	asks(wire.AllocStats, func(r *wire.AgentRef, s *state.Snap) []need { return onNode(s, *r, acl.ReadJob) }),
	asks(wire.AllocChecks, func(r *wire.AgentRef, s *state.Snap) []need { return onNode(s, *r, acl.ReadJob) }),
	asks(wire.AllocFiles, readsFiles),
	asks(wire.AllocFileStat, readsFiles),
	opens(wire.AllocFileRead, func(r *wire.FileReadRequest, s *state.Snap) []need {
		return onNode(s, r.AgentRef, acl.ReadFS)
	}),
	opens(wire.AllocLogs, func(r *wire.AllocLogsRequest, s *state.Snap) []need {
		return onNode(s, r.AgentRef, acl.ReadLogs, acl.ReadFS)
	}),
	opens(wire.AllocExec, func(r *wire.AllocExecRequest, s *state.Snap) []need {
		n := onNode(s, r.AgentRef, acl.AllocExec)
		if a := s.Alloc(nil, r.Alloc); a != nil && !confined(s, a, r.Task) {
			n = append(n, onNode(s, r.AgentRef, acl.AllocNodeExec)...)
		}
		return n
	}),
	asks(wire.AgentGC, func(r *wire.AgentRef, s *state.Snap) []need {
		if r.Alloc == "" {
			return of(acl.Node, acl.Write)
		}
		return onNode(s, *r, acl.GCAllocation)
	}),
	// An orphan is a job of any namespace, with all that its environment says.
	asks(wire.AllocOrphan, always[wire.AgentRef](everything())),
	asks(wire.AllocEndOrphan, always[wire.AgentRef](everything())),
	asks(wire.OrphanAdopt, always[wire.OrphanAdoptRequest](everything())),
}

func submits(j *job.Job, c acl.Capability) []need {
	if j == nil {
		return everything()
	}
	return append(in(j.Namespace, c), uses(j)...)
}

func readsJob(r *wire.Ref[ids.Job], _ *state.Snap) []need { return in(r.Namespace, acl.ReadJob) }

func readsEval(r *wire.Ref[ids.Eval], s *state.Snap) []need {
	return ofEval(s, r.ID, r.Namespace, acl.ReadJob)
}

func readsFiles(r *wire.AllocPath, s *state.Snap) []need { return onNode(s, r.AgentRef, acl.ReadFS) }

// confined tells whether a session in a task stays in it: exec gives every task a root of its own, and of other drivers
// the node says so. Of what is not known it does not: in a task of raw_exec a session is one on the node.
func confined(s *state.Snap, a *alloc.Alloc, task string) bool {
	j := s.JobOf(nil, a)
	if j == nil {
		return false
	}
	g := j.Group(a.TaskGroup)
	if g == nil || g.Task(task) == nil {
		return false
	}
	name := g.Task(task).Driver
	if name == "exec" {
		return true // nodes of earlier versions do not say it
	}
	n := s.Node(nil, a.Node)
	return n != nil && n.Drivers[name] != nil && n.Drivers[name].Attributes[node.DriverConfined(name)] == "1"
}
