package permissions

import (
	"strings"

	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/acl"
	"berth/internal/model/job"
	"berth/internal/model/partition"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// asked is one call of the table in testdata/persons.txt, under the name that it has there.
type asked struct {
	what   string
	method string
	req    any
}

func calls[Req, Rep any](m wire.Method[Req, Rep], of string, req *Req) asked {
	return namedOf(m.Name(), of, req)
}

func streams[Req, In, Out any](m wire.StreamMethod[Req, In, Out], of string, req *Req) asked {
	return namedOf(m.Name(), of, req)
}

func namedOf(path, of string, req any) asked {
	name := strings.ReplaceAll(strings.TrimPrefix(path, "/berth."), "/", ".")
	if of != "" {
		name += " " + of
	}
	return asked{what: name, method: path, req: req}
}

// using is a job in namespace app with one thing that asks for more than the right to run it.
func using(change func(*job.TaskGroup)) *job.Job {
	j := jobIn("app", "a", "exec")
	change(j.TaskGroups[0])
	return j
}

func volumeOf(v job.VolumeRequest) *job.Job {
	return using(func(g *job.TaskGroup) { g.Volumes = map[string]*job.VolumeRequest{"x": &v} })
}

func cases() []asked {
	var out []asked
	groups := [][]asked{ofJobs(), ofDeployments(), ofAllocs(), ofVolumes(), ofCluster(), ofLists(), ofVariables()}
	for _, some := range groups {
		out = append(out, some...)
	}
	return out
}

func ofJobs() []asked {
	app, all := inside("app"), inside("*")
	a, star := &wire.Ref[ids.Job]{Query: app, ID: "a"}, &wire.Ref[ids.Job]{Query: all, ID: "a"}
	csi, host := job.VolumeTypeCSI, job.VolumeTypeHost
	register := func(of string, j *job.Job) asked {
		return calls(wire.JobRegister, of, &wire.JobRegisterRequest{Job: j})
	}
	return []asked{
		register("in app", jobIn("app", "a", "exec")),
		register("in *", jobIn("*", "a", "exec")),
		register("with a volume", volumeOf(job.VolumeRequest{Type: csi, Source: "v"})),
		register("that makes a volume", volumeOf(job.VolumeRequest{
			Type:   csi,
			Source: "v",
			Create: &job.VolumeCreate{PluginID: "p"},
		})),
		register("with a directory of its node", volumeOf(job.VolumeRequest{Type: host, Source: "h"})),
		register("with a directory that it reads",
			volumeOf(job.VolumeRequest{Type: host, Source: "h", ReadOnly: true})),
		register("that runs a plugin", using(func(g *job.TaskGroup) {
			g.Tasks[0].CSIPluginConfig = &job.CSIPluginConfig{ID: "p"}
		})),
		register("without a job", nil),
		calls(wire.JobPlan, "in app", &wire.JobPlanRequest{Job: jobIn("app", "a", "exec")}),
		calls(wire.JobValidate, "in app", &wire.JobValidateRequest{Job: jobIn("app", "a", "exec")}),
		calls(wire.JobDeregister, "in app", &wire.JobDeregisterRequest{Namespace: "app", Job: "a"}),
		calls(wire.JobDeregister, "and purge", &wire.JobDeregisterRequest{Namespace: "app", Job: "a", Purge: true}),
		calls(wire.JobDeregister, "in *", &wire.JobDeregisterRequest{Namespace: "*", Job: "a"}),
		calls(wire.JobStart, "in app", &wire.JobStartRequest{Namespace: "app", Job: "a"}),
		calls(wire.JobStart, "that is not there", &wire.JobStartRequest{Namespace: "app", Job: "gone"}),
		calls(wire.JobDispatch, "in app", &wire.JobDispatchRequest{Namespace: "app", Job: "a"}),
		calls(wire.JobForce, "in app", &wire.JobForceRequest{Namespace: "app", Job: "a"}),
		calls(wire.JobEvaluate, "in app", &wire.JobEvaluateRequest{Namespace: "app", Job: "a"}),
		calls(wire.JobTag, "in app", &wire.JobTagRequest{Namespace: "app", Job: "a"}),
		calls(wire.JobUntag, "in app", &wire.JobUntagRequest{Namespace: "app", Job: "a"}),
		calls(wire.JobScale, "in app", &wire.JobScaleRequest{Namespace: "app", Job: "a"}),
		calls(wire.JobScaleStatus, "in app", a),
		calls(wire.ScalingPolicyList, "in app", &wire.ScalingPoliciesRequest{Query: app}),
		calls(wire.ScalingPolicyList, "in *", &wire.ScalingPoliciesRequest{Query: all}),
		calls(wire.ScalingPolicyGet, "that is not there",
			&wire.Ref[ids.Scaling]{Query: inside("other"), ID: "gone"}),
		calls(wire.JobGet, "in app", a),
		calls(wire.JobGet, "in *", star),
		calls(wire.JobVersions, "in app", a),
		calls(wire.JobRollout, "in app", a),
		calls(wire.JobRollout, "in *", star),
		calls(wire.JobVersions, "in *", star),
		calls(wire.JobEvals, "in app", a),
		calls(wire.JobEvals, "in *", star),
		calls(wire.JobServices, "in app", a),
		calls(wire.JobServices, "in *", star),
		calls(wire.JobConsul, "in app", &wire.JobConsulRequest{Namespace: "app", Job: "a"}),
		calls(wire.ServiceList, "in app", &app),
		calls(wire.ServiceList, "in *", &all),
		calls(wire.ServiceGet, "in app", &wire.ServiceGetRequest{Query: app, Name: "web"}),
		calls(wire.ServiceGet, "in *", &wire.ServiceGetRequest{Query: all, Name: "web"}),
		calls(wire.ServiceDelete, "in app", &wire.ServiceDeleteRequest{Namespace: "app", Name: "web", ID: "x"}),
		calls(wire.ServiceDelete, "in *", &wire.ServiceDeleteRequest{Namespace: "*", Name: "web", ID: "x"}),
		calls(wire.JobSubmission, "in app", &wire.JobSubmissionRequest{Query: app, Job: "a"}),
		calls(wire.JobAllocs, "in app", &wire.JobAllocsRequest{Query: app, Job: "a"}),
		calls(wire.JobAllocs, "in *", &wire.JobAllocsRequest{Query: all, Job: "a"}),
		calls(wire.JobList, "in app", &app),
		calls(wire.JobList, "in *", &all),
		calls(wire.EvalList, "in app", &app),
		calls(wire.EvalList, "in *", &all),
		calls(wire.EvalGet, "of app", &wire.Ref[ids.Eval]{Query: inside("other"), ID: "appa"}),
		calls(wire.EvalGet, "that is not there", &wire.Ref[ids.Eval]{Query: inside("other"), ID: "gone"}),
		calls(wire.EvalAllocs, "of app", &wire.Ref[ids.Eval]{Query: inside("other"), ID: "appa"}),
	}
}

func ofDeployments() []asked {
	app, all := inside("app"), inside("*")
	a := wire.DeploymentRequest{Namespace: "other", Deployment: "appa"}
	gone := wire.DeploymentRequest{Namespace: "other", Deployment: "gone"}
	return []asked{
		calls(wire.DeploymentList, "in app", &app),
		calls(wire.DeploymentList, "in *", &all),
		calls(wire.DeploymentGet, "of app", &wire.Ref[ids.Deployment]{Query: inside("other"), ID: "appa"}),
		calls(wire.DeploymentGet, "that is not there", &wire.Ref[ids.Deployment]{Query: inside("other"), ID: "gone"}),
		calls(wire.DeploymentAllocs, "of app", &wire.Ref[ids.Deployment]{Query: inside("other"), ID: "appa"}),
		calls(wire.DeploymentOfJob, "in app", &wire.JobDeploymentsRequest{Query: app, Job: "a"}),
		calls(wire.DeploymentOfJob, "in *", &wire.JobDeploymentsRequest{Query: all, Job: "a"}),
		calls(wire.DeploymentPromote, "of app", &wire.DeploymentPromoteRequest{DeploymentRequest: a}),
		calls(wire.DeploymentPromote, "that is not there", &wire.DeploymentPromoteRequest{DeploymentRequest: gone}),
		calls(wire.DeploymentFail, "of app", &a),
		calls(wire.DeploymentPause, "of app", &wire.DeploymentPauseRequest{DeploymentRequest: a}),
		calls(wire.DeploymentSetHealth, "of app", &wire.DeploymentHealthRequest{DeploymentRequest: a}),
		calls(wire.JobRevert, "in app", &wire.JobRevertRequest{Namespace: "app", Job: "a"}),
		calls(wire.JobRevert, "in *", &wire.JobRevertRequest{Namespace: "*", Job: "a"}),
		calls(wire.JobStable, "in app", &wire.JobStableRequest{Namespace: "app", Job: "a"}),
	}
}

func ofAllocs() []asked {
	app, all := inside("app"), inside("*")
	a := wire.AgentRef{Node: "n", Alloc: "appa"}
	elsewhere, orphan := wire.AgentRef{Node: "m", Alloc: "appa"}, wire.AgentRef{Node: "n", Alloc: "gone"}
	return []asked{
		calls(wire.AllocList, "in app", &app),
		calls(wire.AllocList, "in *", &all),
		calls(wire.AllocGet, "of app", &wire.Ref[ids.Alloc]{Query: inside("other"), ID: "appa"}),
		calls(wire.AllocGet, "that is not there", &wire.Ref[ids.Alloc]{Query: inside("other"), ID: "gone"}),
		calls(wire.AllocGet, "that is not there, in *", &wire.Ref[ids.Alloc]{Query: all, ID: "gone"}),
		calls(wire.AllocStop, "of app", &wire.AllocStopRequest{Namespace: "other", Alloc: "appa"}),
		calls(wire.AllocRestart, "of app", &wire.AllocRestartRequest{AgentRef: a}),
		calls(wire.AllocRestart, "that nobody knows", &wire.AllocRestartRequest{AgentRef: orphan}),
		calls(wire.AllocSignal, "of app", &wire.AllocSignalRequest{AgentRef: a}),
		calls(wire.AllocServices, "of app", &wire.Ref[ids.Alloc]{Query: inside("other"), ID: "appa"}),
		calls(wire.AllocChecks, "of app", &a),
		calls(wire.AllocChecks, "on another node", &elsewhere),
		calls(wire.AllocStats, "of app", &a),
		calls(wire.AllocStats, "on another node", &elsewhere),
		calls(wire.AllocFiles, "of app", &wire.AllocPath{AgentRef: a}),
		calls(wire.AllocFileStat, "of app", &wire.AllocPath{AgentRef: a}),
		streams(wire.AllocFileRead, "of app", &wire.FileReadRequest{AllocPath: wire.AllocPath{AgentRef: a}}),
		streams(wire.AllocFileRead, "that nobody knows",
			&wire.FileReadRequest{AllocPath: wire.AllocPath{AgentRef: orphan}}),
		streams(wire.AllocLogs, "of app", &wire.AllocLogsRequest{AgentRef: a}),
		streams(wire.AllocExec, "of app", &wire.AllocExecRequest{AgentRef: a, Task: "t"}),
		streams(wire.AllocExec, "of app, on the node itself",
			&wire.AllocExecRequest{AgentRef: wire.AgentRef{Node: "n", Alloc: "appab"}, Task: "t"}),
		streams(wire.AllocExec, "that nobody knows", &wire.AllocExecRequest{AgentRef: orphan, Task: "t"}),
		calls(wire.AgentGC, "of app", &a),
		calls(wire.AgentGC, "of a node", &wire.AgentRef{Node: "n"}),
		calls(wire.AllocOrphan, "", &orphan),
		calls(wire.AllocEndOrphan, "", &orphan),
		calls(wire.OrphanAdopt, "", &wire.OrphanAdoptRequest{Orphans: []wire.AgentRef{orphan}}),
	}
}

func ofVolumes() []asked {
	app, all := inside("app"), inside("*")
	v := volume.ID{Namespace: "app", ID: "v"}
	get := func(q wire.Query) *wire.Ref[ids.Volume] { return &wire.Ref[ids.Volume]{Query: q, ID: "v"} }
	create := func(of string, s volume.Spec) asked {
		s.Plugin = "p"
		return calls(wire.VolumeCreate, of, &wire.VolumeWriteRequest{Volume: v, Spec: s})
	}
	register := func(of, external string) asked {
		return calls(wire.VolumeRegister, of,
			&wire.VolumeWriteRequest{Volume: v, Spec: volume.Spec{Plugin: "p"}, ExternalID: external})
	}
	return []asked{
		create("in app", volume.Spec{}),
		create("in app, a clone", volume.Spec{CloneID: "v"}),
		create("in app, of its snapshot", volume.Spec{SnapshotID: "snap of app"}),
		create("in app, of other's snapshot", volume.Spec{SnapshotID: "snap of other"}),
		register("in app", "of nobody"),
		register("in app, the volume of other", "of other"),
		calls(wire.VolumeExpand, "in app", &wire.VolumeExpandRequest{Volume: v}),
		calls(wire.VolumeDeregister, "in app", &wire.VolumeDeleteRequest{Volume: v}),
		calls(wire.VolumeDelete, "in app", &wire.VolumeDeleteRequest{Volume: v}),
		calls(wire.VolumeDelete, "in *", &wire.VolumeDeleteRequest{Volume: volume.ID{Namespace: "*", ID: "v"}}),
		calls(wire.VolumeDetach, "in app", &wire.VolumeDetachRequest{Volume: v}),
		calls(wire.VolumeDetach, "in app, on somebody's word", &wire.VolumeDetachRequest{Volume: v, Attest: "dead"}),
		calls(wire.VolumeRelease, "in app", &wire.VolumeReleaseRequest{Volume: v}),
		calls(wire.VolumeGet, "in app", get(app)),
		calls(wire.VolumeGet, "in *", get(all)),
		calls(wire.VolumeUsages, "in app", get(app)),
		calls(wire.VolumeUsages, "in *", get(all)),
		calls(wire.VolumeList, "in app", &wire.VolumeListRequest{Query: app}),
		calls(wire.VolumeList, "in *", &wire.VolumeListRequest{Query: all}),
		calls(wire.VolumeExternal, "", &wire.ExternalListRequest{Plugin: "p"}),
		calls(wire.SnapshotList, "", &wire.SnapshotListRequest{Plugin: "p"}),
		calls(wire.SnapshotCreate, "in app", &wire.SnapshotCreateRequest{Volume: v}),
		calls(wire.SnapshotDelete, "in app",
			&wire.SnapshotDeleteRequest{Namespace: "app", Plugin: "p", SnapshotID: "x"}),
		calls(wire.SnapshotDelete, "in no namespace", &wire.SnapshotDeleteRequest{Plugin: "p", SnapshotID: "x"}),
		calls(wire.PluginGet, "", &wire.Ref[ids.Plugin]{ID: "p"}),
		calls(wire.PluginList, "", &app),
		calls(wire.PluginRebind, "", &wire.PluginRebindRequest{Plugin: "p"}),
	}
}

func ofCluster() []asked {
	list, node := inside("app"), &wire.Ref[ids.Node]{ID: "n"}
	word := &wire.RecoveryWord{}
	agent := wire.Need{Kind: acl.Agent, Any: []acl.Capability{acl.Write}}
	return []asked{
		calls(wire.SystemStatus, "", &wire.Empty{}),
		calls(wire.SigningKeys, "", &list),
		calls(wire.TrustCertify, "", &wire.CertifyRequest{}),
		calls(wire.PersonAllowed, "nothing", &wire.PersonAllowedRequest{}),
		calls(wire.PersonAllowed, "to write to the agent", &wire.PersonAllowedRequest{Needs: []wire.Need{agent}}),
		calls(wire.SystemGC, "", &wire.Empty{}),
		calls(wire.SystemSearch, "", &wire.SearchRequest{Namespace: "app"}),
		calls(wire.NamespaceList, "", &list),
		calls(wire.NamespaceGet, "app", &wire.Ref[ids.Namespace]{ID: "app"}),
		calls(wire.NamespacePut, "app", &wire.NamespacePutRequest{Namespace: partition.Namespace{Name: "app"}}),
		calls(wire.NamespaceDelete, "app", &wire.PartitionDeleteRequest{Name: "app"}),
		calls(wire.NodePoolList, "", &list),
		calls(wire.NodePoolGet, "gpu", &wire.Ref[string]{ID: "gpu"}),
		calls(wire.NodePoolPut, "gpu", &wire.NodePoolPutRequest{Pool: partition.NodePool{Name: "gpu"}}),
		calls(wire.NodePoolDelete, "gpu", &wire.PartitionDeleteRequest{Name: "gpu"}),
		calls(wire.SystemCounts, "", &list),
		streams(wire.EventStream, "in app", &wire.EventRequest{Namespace: "app"}),
		streams(wire.EventStream, "in *", &wire.EventRequest{Namespace: "*"}),
		streams(wire.EventStream, "of jobs in app", eventsOf("app", wire.TopicJob)),
		streams(wire.EventStream, "of volumes in *", eventsOf("*", wire.TopicVolume)),
		streams(wire.EventStream, "of nodes", eventsOf("app", wire.TopicNode)),
		streams(wire.EventStream, "of plugins", eventsOf("app", wire.TopicPlugin)),
		streams(wire.EventStream, "of node pools", eventsOf("app", wire.TopicNodePool)),
		streams(wire.EventStream, "of jobs and tokens", eventsOf("app", wire.TopicJob, wire.TopicACLToken)),
		streams(wire.EventStream, "of what is not there", eventsOf("app", "Nothing")),
		streams(wire.StateSave, "", &wire.Empty{}),
		streams(wire.StateRestore, "", word),
		calls(wire.RecoveryStatus, "", &list),
		calls(wire.RecoveryBegin, "", word),
		calls(wire.RecoveryFinish, "", word),
		calls(wire.RecoveryDismiss, "", word),
		calls(wire.TrustAdmit, "", &wire.AdmitRequest{}),
		calls(wire.TrustAdmissions, "", &list),
		calls(wire.TrustRevoke, "", &wire.RevokeRequest{}),
		calls(wire.TrustRoots, "", &wire.Query{}),
		calls(wire.TrustRotate, "", &wire.RotateRootRequest{}),
		calls(wire.TrustFinish, "", &wire.FinishRootRequest{}),
		calls(wire.ServerList, "", &list),
		calls(wire.ServerRemove, "", &wire.ServerRef{}),
		calls(wire.ServerTransfer, "", &wire.ServerRef{}),
		calls(wire.ServerProgress, "", &wire.ProgressRequest{}),
		calls(wire.ServerAnnounce, "", &wire.AnnounceRequest{}),
		calls(wire.ServerLeave, "", &wire.LeaveRequest{}),
		calls(wire.ServerEntries, "", &wire.EntriesRequest{}),
		streams(wire.ServerSnapshot, "", &wire.Empty{}),
		calls(wire.AutopilotGet, "", &list),
		calls(wire.AutopilotPut, "", &wire.AutopilotPutRequest{}),
		calls(wire.DataKeys, "", &list),
		calls(wire.DataKeyRotate, "", &wire.RotateRequest{}),
		calls(wire.DataKeyRemove, "", &wire.DataKeyRequest{}),
		calls(wire.NodeList, "", &list),
		calls(wire.NodeGet, "", node),
		calls(wire.NodeAllocList, "", node),
		calls(wire.NodeEligibility, "", &wire.NodeEligibilityRequest{}),
		calls(wire.NodeRebootConfirm, "", &wire.RebootConfirmRequest{}),
		calls(wire.NodeReadmit, "", &wire.ReadmitRequest{}),
		calls(wire.NodeDeny, "", &wire.DenialRequest{}),
		calls(wire.NodeAllow, "", &wire.DenialRequest{}),
		calls(wire.NodeDenials, "", &wire.Query{}),
		calls(wire.NodeReplace, "", &wire.NodeReplaceRequest{}),
		calls(wire.AgentForgetMount, "", &wire.ForgetMountRequest{}),
		calls(wire.AgentHostStats, "", &wire.AgentRef{Node: "n"}),
		calls(wire.NodePurge, "", &wire.NodePurgeRequest{}),
		calls(wire.AgentMeta, "", &wire.AgentRef{Node: "n"}),
		calls(wire.AgentSetMeta, "", &wire.NodeMetaRequest{Node: "n"}),
		streams(wire.AgentMonitor, "", &wire.AgentMonitorRequest{Node: "n"}),
		calls(wire.NodeRegister, "", &wire.NodeRegisterRequest{}),
		calls(wire.NodeHeartbeat, "", &wire.NodeHeartbeatRequest{}),
		streams(wire.NodeAllocs, "", &wire.NodeAllocsRequest{}),
		calls(wire.NodeAllocsKnown, "", &wire.NodeAllocsKnownRequest{}),
		calls(wire.NodeUpdate, "", &wire.NodeUpdateRequest{}),
		calls(wire.NodeInventory, "", &wire.InventoryReport{}),
		calls(wire.NodeInventoryKnown, "", &wire.InventoryDigest{}),
		calls(wire.NodeGrants, "", &wire.GrantsRequest{}),
		calls(wire.NodeSources, "", &wire.SourcesRequest{}),
		streams(wire.NodeControllerCalls, "", &wire.ControllerCallsRequest{}),
		calls(wire.VariableGet, "of job a", &wire.Ref[string]{Query: inside("app"), ID: "nomad/jobs/a"}),
		calls(wire.VariableGet, "of job a in other", &wire.Ref[string]{Query: inside("other"), ID: "nomad/jobs/a"}),
		calls(wire.VariableGet, "of job ab", &wire.Ref[string]{Query: inside("app"), ID: "nomad/jobs/ab"}),
		calls(wire.JobServices, "of job ab", &wire.Ref[ids.Job]{Query: inside("app"), ID: "ab"}),
		calls(wire.NodeIdentities, "", &wire.IdentitiesRequest{}),
		calls(wire.NodeServiceIdentity, "", &wire.ServiceIdentityRequest{}),
		calls(wire.NodeConsulToken, "", &wire.ConsulTokenRequest{}),
		calls(wire.NodeLeave, "", &wire.NodeLeaveRequest{}),
		calls(wire.AgentVolumeUsage, "", &wire.VolumeUsageRequest{}),
		calls(wire.AgentReleaseVolume, "", &wire.ReleaseVolumeRequest{}),
		calls(wire.AgentListVolumes, "", &wire.PluginReadRequest{}),
		calls(wire.AgentListSnapshots, "", &wire.PluginReadRequest{}),
		calls(wire.AgentCapacity, "", &wire.CapacityRequest{}),
		calls(wire.AgentValidateVolume, "", &wire.ValidateVolumeRequest{}),
	}
}

func ofLists() []asked {
	list, ref := inside("app"), &wire.Ref[string]{ID: "x"}
	secret := wire.SealSecret(redact.New("secret of other"))
	return []asked{
		calls(wire.ACLBootstrap, "", &wire.ACLBootstrapRequest{}),
		calls(wire.ACLPolicyList, "of all", &wire.ACLPolicyListRequest{Query: list}),
		calls(wire.ACLPolicyList, "of a token", &wire.ACLPolicyListRequest{Query: list, Secret: secret}),
		calls(wire.ACLPolicyGet, "of all", &wire.ACLPolicyRequest{Ref: *ref}),
		calls(wire.ACLPolicyGet, "of a token", &wire.ACLPolicyRequest{Ref: *ref, Secret: secret}),
		calls(wire.ACLPolicyPut, "", &wire.ACLPolicyPutRequest{}),
		calls(wire.ACLPolicyDelete, "", &wire.ACLDeleteRequest{}),
		calls(wire.ACLRoleList, "", &list),
		calls(wire.ACLRoleGet, "", ref),
		calls(wire.ACLRoleNamed, "", ref),
		calls(wire.ACLRolePut, "", &wire.ACLRolePutRequest{}),
		calls(wire.ACLRoleDelete, "", &wire.ACLDeleteRequest{}),
		calls(wire.ACLTokenList, "", &wire.ACLTokenListRequest{Query: list}),
		calls(wire.ACLTokenGet, "", ref),
		calls(wire.ACLTokenSelf, "", &wire.ACLSelfRequest{Secret: secret}),
		calls(wire.ACLTokenPut, "", &wire.ACLTokenPutRequest{}),
		calls(wire.ACLTokenDelete, "", &wire.ACLDeleteRequest{}),
	}
}

func ofVariables() []asked {
	app, all := inside("app"), inside("*")
	out := []asked{calls(wire.VariableList, "in app", &app), calls(wire.VariableList, "in *", &all)}
	for _, path := range []string{"shop/a", "shop/db", "shop/db2", "own"} {
		of := "of " + path
		lock := &wire.VariableLockRequest{Namespace: "app", Path: path}
		out = append(out,
			calls(wire.VariableGet, of, &wire.Ref[string]{Query: app, ID: path}),
			calls(wire.VariablePut, of, &wire.VariablePutRequest{Namespace: "app", Path: path}),
			calls(wire.VariableDelete, of, &wire.VariableDeleteRequest{Namespace: "app", Path: path}),
			calls(wire.VariableAcquire, of, &wire.VariableAcquireRequest{Namespace: "app", Path: path}),
			calls(wire.VariableRenew, of, lock),
			calls(wire.VariableRelease, of, lock),
		)
	}
	return append(out,
		calls(wire.VariableGet, "in *", &wire.Ref[string]{Query: all, ID: "own"}),
		calls(wire.VariablePut, "in *", &wire.VariablePutRequest{Namespace: "*", Path: "own"}))
}

func eventsOf(ns ids.Namespace, topics ...string) *wire.EventRequest {
	r := &wire.EventRequest{Namespace: ns, Topics: map[string][]string{}}
	for _, t := range topics {
		r.Topics[t] = []string{"*"}
	}
	return r
}
