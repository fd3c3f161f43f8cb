package api

import "time"

// The states of a task.
const (
	TaskStatePending = "pending"
	TaskStateRunning = "running"
	TaskStateDead    = "dead"
)

// TaskState is what a node says of one task.
type TaskState struct {
	State       string
	Failed      bool
	Restarts    uint64
	LastRestart *time.Time
	StartedAt   *time.Time
	FinishedAt  *time.Time
	Events      []*TaskEvent
	TaskHandle  *TaskHandle `json:",omitempty"` // never in replies
	Paused      string
}

// TaskHandle is the part of a driver's handle that a client may see.
type TaskHandle struct {
	Version     int
	DriverState []byte
}

// The types of task events.
const (
	TaskReceived               = "Received"
	TaskSetup                  = "Task Setup"
	TaskSetupFailure           = "Setup Failure"
	TaskDriverFailure          = "Driver Failure"
	TaskDriverMessage          = "Driver"
	TaskFailedValidation       = "Failed Validation"
	TaskStarted                = "Started"
	TaskTerminated             = "Terminated"
	TaskKilling                = "Killing"
	TaskKilled                 = "Killed"
	TaskRestarting             = "Restarting"
	TaskNotRestarting          = "Not Restarting"
	TaskRestartSignal          = "Restart Signaled"
	TaskSignaling              = "Signaling"
	TaskSiblingFailed          = "Sibling Task Failed"
	TaskLeaderDead             = "Leader Task Dead"
	TaskMainDead               = "Main Tasks Dead"
	TaskHookFailed             = "Task hook failed"
	TaskHookMessage            = "Task hook message"
	TaskTemplate               = "Template"
	TaskDownloadingArtifacts   = "Downloading Artifacts"
	TaskArtifactDownloadFailed = "Failed Artifact Download"
	TaskAllocUnhealthy         = "Alloc Unhealthy"
	TaskPluginHealthy          = "Plugin became healthy"
	TaskPluginUnhealthy        = "Plugin became unhealthy"
	TaskReconnected            = "Reconnected"
)

// TaskEvent is something that happened to a task. DisplayMessage is what people read; Details carries the same as
// named values; the members after it are kept for older clients.
type TaskEvent struct {
	Type             string
	Time             int64 // Unix nanoseconds
	DisplayMessage   string
	Details          map[string]string
	Message          string
	FailsTask        bool
	RestartReason    string
	SetupError       string
	DriverError      string
	DriverMessage    string
	ExitCode         int
	Signal           int
	KillReason       string
	KillTimeout      time.Duration
	KillError        string
	StartDelay       int64 // nanoseconds
	DownloadError    string
	ValidationError  string
	DiskLimit        int64
	DiskSize         int64 `json:",omitempty"`
	FailedSibling    string
	VaultError       string
	TaskSignalReason string
	TaskSignal       string
	GenericSource    string
}
