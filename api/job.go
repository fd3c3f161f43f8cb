package api

import "time"

// The job types.
const (
	JobTypeService  = "service"
	JobTypeBatch    = "batch"
	JobTypeSystem   = "system"
	JobTypeSysBatch = "sysbatch"
)

// The statuses of a job.
const (
	JobStatusPending = "pending"
	JobStatusRunning = "running"
	JobStatusDead    = "dead"
)

// Job is a declaration of work: groups of tasks, how many of each, and where they may run.
// A nil member is unset; defaults are applied by the server.
type Job struct {
	Region           *string                 `hcl:"region"`
	Namespace        *string                 `hcl:"namespace"`
	ID               *string                 `hcl:"id"`
	Name             *string                 `hcl:"name"`
	Type             *string                 `hcl:"type"`
	Priority         *int                    `hcl:"priority"`
	AllAtOnce        *bool                   `hcl:"all_at_once"`
	Datacenters      []string                `hcl:"datacenters"`
	NodePool         *string                 `hcl:"node_pool"`
	Constraints      []*Constraint           `hcl:"constraint,block"`
	Affinities       []*Affinity             `hcl:"affinity,block"`
	TaskGroups       []*TaskGroup            `hcl:"group,block"`
	Update           *UpdateStrategy         `hcl:"update,block"`
	Multiregion      *Multiregion            `hcl:"multiregion,block"`
	Spreads          []*Spread               `hcl:"spread,block"`
	Periodic         *PeriodicConfig         `hcl:"periodic,block"`
	ParameterizedJob *ParameterizedJobConfig `hcl:"parameterized,block"`
	Reschedule       *ReschedulePolicy       `hcl:"reschedule,block"`
	Migrate          *MigrateStrategy        `hcl:"migrate,block"`
	Meta             map[string]string       `hcl:"meta,map"`
	UI               *JobUIConfig            `hcl:"ui,block"`

	// What follows is set by the server.
	Stop                     *bool
	ParentID                 *string
	Dispatched               bool
	DispatchIdempotencyToken *string
	Payload                  []byte
	ConsulNamespace          *string
	VaultNamespace           *string
	NomadTokenID             *string
	Status                   *string
	StatusDescription        *string
	Stable                   *bool
	Version                  *uint64
	SubmitTime               *int64
	CreateIndex              *uint64
	ModifyIndex              *uint64
	JobModifyIndex           *uint64
	VersionTag               *JobVersionTag
}

// TagVersionRequest names a version of a job.
type TagVersionRequest struct {
	Version     uint64
	Latest      bool // the newest, if Version is 0
	Description string
}

// JobVersionTag is a name given to one version of a job.
type JobVersionTag struct {
	Name        string
	Description string
	TaggedTime  int64 // Unix nanoseconds
}

// Multiregion spreads a job over regions.
type Multiregion struct {
	Strategy *MultiregionStrategy `hcl:"strategy,block"`
	Regions  []*MultiregionRegion `hcl:"region,block"`
}

// MultiregionStrategy says how many regions are deployed at once.
type MultiregionStrategy struct {
	MaxParallel *int    `hcl:"max_parallel"`
	OnFailure   *string `hcl:"on_failure"`
}

// MultiregionRegion is one region of a multi-region job.
type MultiregionRegion struct {
	Name        string            `hcl:"name,label"`
	Count       *int              `hcl:"count"`
	Datacenters []string          `hcl:"datacenters"`
	NodePool    string            `hcl:"node_pool"`
	Meta        map[string]string `hcl:"meta,map"`
}

// PeriodicConfig launches a batch job again and again.
type PeriodicConfig struct {
	Enabled         *bool    `hcl:"enabled"`
	Spec            *string  `hcl:"cron"`
	Specs           []string `hcl:"crons"`
	SpecType        *string
	ProhibitOverlap *bool   `hcl:"prohibit_overlap"`
	TimeZone        *string `hcl:"time_zone"`
}

// ParameterizedJobConfig makes a batch job a template that is dispatched with a payload.
type ParameterizedJobConfig struct {
	Payload      string   `hcl:"payload"`
	MetaRequired []string `hcl:"meta_required"`
	MetaOptional []string `hcl:"meta_optional"`
}

// JobUIConfig is what a web page shows about a job.
type JobUIConfig struct {
	Description string       `hcl:"description"`
	Links       []*JobUILink `hcl:"link,block"`
}

// JobUILink is a link shown with a job.
type JobUILink struct {
	Label string `hcl:"label"`
	URL   string `hcl:"url"`
}

// TaskGroup is a set of tasks that run together on one node.
type TaskGroup struct {
	Name                      string                    `hcl:"name,label"`
	Count                     *int                      `hcl:"count"`
	Constraints               []*Constraint             `hcl:"constraint,block"`
	Affinities                []*Affinity               `hcl:"affinity,block"`
	Tasks                     []*Task                   `hcl:"task,block"`
	Spreads                   []*Spread                 `hcl:"spread,block"`
	Volumes                   map[string]*VolumeRequest `hcl:"volume,block"`
	RestartPolicy             *RestartPolicy            `hcl:"restart,block"`
	Disconnect                *DisconnectStrategy       `hcl:"disconnect,block"`
	ReschedulePolicy          *ReschedulePolicy         `hcl:"reschedule,block"`
	EphemeralDisk             *EphemeralDisk            `hcl:"ephemeral_disk,block"`
	Update                    *UpdateStrategy           `hcl:"update,block"`
	Migrate                   *MigrateStrategy          `hcl:"migrate,block"`
	Networks                  []*NetworkResource        `hcl:"network,block"`
	Meta                      map[string]string         `hcl:"meta,map"`
	Services                  []*Service                `hcl:"service,block"`
	ShutdownDelay             *time.Duration            `hcl:"shutdown_delay"`
	MaxRunDuration            *time.Duration            `hcl:"max_run_duration"`
	StopAfterClientDisconnect *time.Duration            `hcl:"stop_after_client_disconnect"`
	MaxClientDisconnect       *time.Duration            `hcl:"max_client_disconnect"`
	Scaling                   *ScalingPolicy            `hcl:"scaling,block"`
	Consul                    *Consul                   `hcl:"consul,block"`
	PreventRescheduleOnLost   *bool                     `hcl:"prevent_reschedule_on_lost"`
}

// EphemeralDisk is the scratch space that the tasks of a group share.
type EphemeralDisk struct {
	Sticky  *bool `hcl:"sticky"`
	Migrate *bool `hcl:"migrate"`
	SizeMB  *int  `hcl:"size"`
}

// ScalingPolicy bounds the count of a group, or carries what an autoscaler reads.
type ScalingPolicy struct {
	ID          string
	Namespace   string
	Type        string         `hcl:"type,label?"`
	Min         *int64         `hcl:"min"`
	Max         *int64         `hcl:"max"`
	Policy      map[string]any `hcl:"policy,any"`
	Target      map[string]string
	Enabled     *bool `hcl:"enabled"`
	CreateIndex uint64
	ModifyIndex uint64
}

// Consul selects the Consul cluster, namespace and partition of a group or a task.
type Consul struct {
	Cluster   string `hcl:"cluster"`
	Namespace string `hcl:"namespace"`
	Partition string `hcl:"partition"`
}
