package acl

// Capability is one thing that a token may be allowed to do with what a rule is about.
type Capability string

// Deny takes away what any other rule for the same pattern gives.
const Deny Capability = "deny"

// What a token may do in a namespace. The list and the names are those that HashiCorp documents for Nomad's policies.
const (
	ListJobs               Capability = "list-jobs"
	ParseJob               Capability = "parse-job"
	ReadJob                Capability = "read-job"
	SubmitJob              Capability = "submit-job"
	DispatchJob            Capability = "dispatch-job"
	ReadLogs               Capability = "read-logs"
	ReadFS                 Capability = "read-fs"
	AllocExec              Capability = "alloc-exec"
	AllocNodeExec          Capability = "alloc-node-exec"
	AllocLifecycle         Capability = "alloc-lifecycle"
	CSIRegisterPlugin      Capability = "csi-register-plugin"
	CSIWriteVolume         Capability = "csi-write-volume"
	CSIReadVolume          Capability = "csi-read-volume"
	CSIListVolume          Capability = "csi-list-volume"
	CSIMountVolume         Capability = "csi-mount-volume"
	HostVolumeCreate       Capability = "host-volume-create"
	HostVolumeRegister     Capability = "host-volume-register"
	HostVolumeRead         Capability = "host-volume-read"
	HostVolumeWrite        Capability = "host-volume-write"
	HostVolumeDelete       Capability = "host-volume-delete"
	ListScalingPolicies    Capability = "list-scaling-policies"
	ReadScalingPolicy      Capability = "read-scaling-policy"
	ReadJobScaling         Capability = "read-job-scaling"
	ScaleJob               Capability = "scale-job"
	SentinelOverride       Capability = "sentinel-override"
	RegisterJob            Capability = "register-job"
	RevertJob              Capability = "revert-job"
	DeregisterJob          Capability = "deregister-job"
	PurgeJob               Capability = "purge-job"
	EvaluateJob            Capability = "evaluate-job"
	PlanJob                Capability = "plan-job"
	TagJobVersion          Capability = "tag-job-version"
	StableJob              Capability = "stable-job"
	FailDeployment         Capability = "fail-deployment"
	PauseDeployment        Capability = "pause-deployment"
	PromoteDeployment      Capability = "promote-deployment"
	UnblockDeployment      Capability = "unblock-deployment"
	CancelDeployment       Capability = "cancel-deployment"
	SetDeploymentHealth    Capability = "set-alloc-health-deployment"
	GCAllocation           Capability = "gc-allocation"
	PauseAllocation        Capability = "pause-allocation"
	ForcePeriodicJob       Capability = "force-periodic-job"
	DeleteServiceInstances Capability = "delete-service-registration"
)

// What a token may do with the rest. Of a node, an agent, an operator's affairs and quotas there is Read and Write, of
// plugins List and Read, of node pools Read, Write and Delete, of variables all but the mounts.
const (
	List           Capability = "list"
	Read           Capability = "read"
	Write          Capability = "write"
	Delete         Capability = "delete"
	Destroy        Capability = "destroy"
	MountReadOnly  Capability = "mount-readonly"
	MountReadWrite Capability = "mount-readwrite"
)

// partsOfSubmit are what SubmitJob was before it could be given in parts: whoever has it has them.
var partsOfSubmit = []Capability{
	RegisterJob, RevertJob, DeregisterJob, PurgeJob, EvaluateJob, PlanJob, TagJobVersion, StableJob, FailDeployment,
	PauseDeployment, PromoteDeployment, UnblockDeployment, CancelDeployment, SetDeploymentHealth, GCAllocation,
	PauseAllocation, ForcePeriodicJob, DeleteServiceInstances,
}

// Kind is what a rule is about: the name of its block.
type Kind string

// Kinds of rules.
const (
	Namespace  Kind = "namespace"
	NodePool   Kind = "node_pool"
	HostVolume Kind = "host_volume"
	Node       Kind = "node"
	Agent      Kind = "agent"
	Operator   Kind = "operator"
	Quota      Kind = "quota"
	Plugin     Kind = "plugin"
)

// grammar is what the block of a kind may say.
type grammar struct {
	kind   Kind
	named  bool // it has a label, the pattern of the names that it is about
	levels []level
	// capabilities that may be named one by one; none: only levels.
	capabilities []Capability
}

// level is a word of the attribute policy, and what it stands for.
type level struct {
	word  string
	gives []Capability
}

var none = level{"deny", []Capability{Deny}}

// readNamespace and scaleNamespace are parts of others, so they have names.
var (
	readNamespace = []Capability{
		ListJobs, ParseJob, ReadJob, CSIListVolume, CSIReadVolume, HostVolumeRead, ListScalingPolicies,
		ReadScalingPolicy, ReadJobScaling,
	}
	writeNamespace = []Capability{
		ListJobs, ParseJob, ReadJob, CSIListVolume, CSIReadVolume, HostVolumeRead, ListScalingPolicies,
		ReadScalingPolicy, ReadJobScaling, ScaleJob, SubmitJob, DispatchJob, ReadLogs, ReadFS, AllocExec,
		AllocLifecycle, CSIMountVolume, CSIWriteVolume, HostVolumeWrite,
	}
	scaleNamespace = []Capability{ListScalingPolicies, ReadScalingPolicy, ReadJobScaling, ScaleJob}
)

// inNamespace are all capabilities that a rule of a namespace may name.
var inNamespace = append([]Capability{
	Deny, ListJobs, ParseJob, ReadJob, SubmitJob, DispatchJob, ReadLogs, ReadFS, AllocExec, AllocNodeExec,
	AllocLifecycle, CSIRegisterPlugin, CSIWriteVolume, CSIReadVolume, CSIListVolume, CSIMountVolume, HostVolumeCreate,
	HostVolumeRegister, HostVolumeRead, HostVolumeWrite, HostVolumeDelete, ListScalingPolicies, ReadScalingPolicy,
	ReadJobScaling, ScaleJob, SentinelOverride,
}, partsOfSubmit...)

// ofVariables are those that a path of variables may name.
var ofVariables = []Capability{Deny, List, Read, Write, Destroy}

// plain are the levels of what is read or written as a whole.
var plain = []level{none, {"read", []Capability{Read}}, {"write", []Capability{Read, Write}}}

// grammars is the language of policies. AllocNodeExec, CSIRegisterPlugin, SentinelOverride and those of host volumes
// that are not in a level are given by name only.
var grammars = []grammar{
	{
		kind:  Namespace,
		named: true,
		levels: []level{
			none,
			{"read", readNamespace},
			{"write", writeNamespace},
			{"scale", scaleNamespace},
		},
		capabilities: inNamespace,
	},
	{
		kind:  NodePool,
		named: true,
		levels: []level{
			none,
			{"read", []Capability{Read}},
			{"write", []Capability{Delete, Read, Write}},
		},
		capabilities: []Capability{Deny, Delete, Read, Write},
	},
	{
		kind:  HostVolume,
		named: true,
		levels: []level{
			none,
			{"read", []Capability{MountReadOnly}},
			{"write", []Capability{MountReadOnly, MountReadWrite}},
		},
		capabilities: []Capability{Deny, MountReadOnly, MountReadWrite},
	},
	{kind: Node, levels: plain},
	{kind: Agent, levels: plain},
	{kind: Operator, levels: plain},
	{kind: Quota, levels: plain},
	{kind: Plugin, levels: []level{none, {"list", []Capability{List}}, {"read", []Capability{List, Read}}}},
}
