package api

import "time"

// Task is one program that a driver runs.
type Task struct {
	Name            string               `hcl:"name,label"`
	Driver          string               `hcl:"driver"`
	User            string               `hcl:"user"`
	Lifecycle       *TaskLifecycle       `hcl:"lifecycle,block"`
	Config          map[string]any       `hcl:"config,any"`
	Constraints     []*Constraint        `hcl:"constraint,block"`
	Affinities      []*Affinity          `hcl:"affinity,block"`
	Env             map[string]string    `hcl:"env,map"`
	Services        []*Service           `hcl:"service,block"`
	Resources       *Resources           `hcl:"resources,block"`
	RestartPolicy   *RestartPolicy       `hcl:"restart,block"`
	Meta            map[string]string    `hcl:"meta,map"`
	KillTimeout     *time.Duration       `hcl:"kill_timeout"`
	LogConfig       *LogConfig           `hcl:"logs,block"`
	Artifacts       []*TaskArtifact      `hcl:"artifact,block"`
	Vault           *Vault               `hcl:"vault,block"`
	Consul          *Consul              `hcl:"consul,block"`
	Templates       []*Template          `hcl:"template,block"`
	DispatchPayload *DispatchPayload     `hcl:"dispatch_payload,block"`
	VolumeMounts    []*VolumeMount       `hcl:"volume_mount,block"`
	CSIPluginConfig *TaskCSIPluginConfig `hcl:"csi_plugin,block"`
	Leader          bool                 `hcl:"leader"`
	ShutdownDelay   time.Duration        `hcl:"shutdown_delay"`
	KillSignal      string               `hcl:"kill_signal"`
	Kind            string               `hcl:"kind"`
	ScalingPolicies []*ScalingPolicy     `hcl:"scaling,block"`
	Secrets         []*Secret            `hcl:"secret,block"`
	Identity        *WorkloadIdentity    // the identity named "default"
	Identities      []*WorkloadIdentity  `hcl:"identity,block"`
	Actions         []*Action            `hcl:"action,block"`
	Schedule        *TaskSchedule        `hcl:"schedule,block"`
}

// TaskLifecycle says when a task runs relative to the main tasks of its group.
type TaskLifecycle struct {
	Hook    string `hcl:"hook"`
	Sidecar bool   `hcl:"sidecar"`
}

// LogConfig bounds what is kept of a task's output.
type LogConfig struct {
	MaxFiles      *int  `hcl:"max_files"`
	MaxFileSizeMB *int  `hcl:"max_file_size"`
	Enabled       *bool `hcl:"enabled"` // deprecated: the inverse of Disabled
	Disabled      *bool `hcl:"disabled"`
}

// Template is a file that is rendered into the task's directory.
type Template struct {
	SourcePath    *string        `hcl:"source"`
	DestPath      *string        `hcl:"destination"`
	EmbeddedTmpl  *string        `hcl:"data"`
	ChangeMode    *string        `hcl:"change_mode"`
	ChangeScript  *ChangeScript  `hcl:"change_script,block"`
	ChangeSignal  *string        `hcl:"change_signal"`
	Once          *bool          `hcl:"once"`
	Splay         *time.Duration `hcl:"splay"`
	Perms         *string        `hcl:"perms"`
	Uid           *int           `hcl:"uid"`
	Gid           *int           `hcl:"gid"`
	LeftDelim     *string        `hcl:"left_delimiter"`
	RightDelim    *string        `hcl:"right_delimiter"`
	Envvars       *bool          `hcl:"env"`
	VaultGrace    *time.Duration `hcl:"vault_grace"`
	Wait          *WaitConfig    `hcl:"wait,block"`
	ErrMissingKey *bool          `hcl:"error_on_missing_key"`
}

// ChangeScript is a program run in the task when a template has changed.
type ChangeScript struct {
	Command          *string        `hcl:"command"`
	Args             []string       `hcl:"args"`
	Timeout          *time.Duration `hcl:"timeout"`
	FailOnError      *bool          `hcl:"fail_on_error"`
	RunOnFirstRender *bool          `hcl:"run_on_first_render"`
}

// WaitConfig is how long changes of a template are gathered before it is rendered.
type WaitConfig struct {
	Min *time.Duration `hcl:"min"`
	Max *time.Duration `hcl:"max"`
}

// TaskArtifact is something fetched into the task's directory before it starts.
type TaskArtifact struct {
	GetterSource   *string           `hcl:"source"`
	GetterOptions  map[string]string `hcl:"options,map"`
	GetterHeaders  map[string]string `hcl:"headers,map"`
	GetterMode     *string           `hcl:"mode"`
	GetterInsecure *bool             `hcl:"insecure"`
	RelativeDest   *string           `hcl:"destination"`
	Chown          bool              `hcl:"chown"`
}

// DispatchPayload names the file that receives a dispatched job's payload.
type DispatchPayload struct {
	File string `hcl:"file"`
}

// Action is a command that users may run in a task by name.
type Action struct {
	Name    string   `hcl:"name,label"`
	Command string   `hcl:"command"`
	Args    []string `hcl:"args"`
}

// TaskSchedule confines a task to certain times.
type TaskSchedule struct {
	Cron *TaskScheduleCron `hcl:"cron,block"`
}

// TaskScheduleCron is the start and end of a schedule.
type TaskScheduleCron struct {
	Start    string `hcl:"start"`
	End      string `hcl:"end"`
	Timezone string `hcl:"timezone"`
}

// Secret is a value fetched from a provider before the task starts.
type Secret struct {
	Name     string            `hcl:"name,label"`
	Provider string            `hcl:"provider"`
	Path     string            `hcl:"path"`
	Config   map[string]any    `hcl:"config,any"`
	Env      map[string]string `hcl:"env,map"`
}

// Vault gives a task a Vault token.
type Vault struct {
	Policies             []string `hcl:"policies"`
	Role                 string   `hcl:"role"`
	Namespace            *string  `hcl:"namespace"`
	Cluster              string   `hcl:"cluster"`
	Env                  *bool    `hcl:"env"`
	DisableFile          *bool    `hcl:"disable_file"`
	ChangeMode           *string  `hcl:"change_mode"`
	ChangeSignal         *string  `hcl:"change_signal"`
	AllowTokenExpiration *bool    `hcl:"allow_token_expiration"`
}

// WorkloadIdentity is a signed statement of who a task or service is.
type WorkloadIdentity struct {
	Name         string            `hcl:"name"`
	Audience     []string          `hcl:"aud"`
	ChangeMode   string            `hcl:"change_mode"`
	ChangeSignal string            `hcl:"change_signal"`
	Env          bool              `hcl:"env"`
	File         bool              `hcl:"file"`
	Filepath     string            `hcl:"filepath"`
	ServiceName  string            `hcl:"service_name"`
	TTL          time.Duration     `hcl:"ttl"`
	ExtraClaims  map[string]string `hcl:"extra_claims,map"`
}
