package alloc

import "time"

// States of a task.
const (
	TaskPending = "pending"
	TaskRunning = "running"
	TaskDead    = "dead"
)

// TaskState is what the node says of a task.
type TaskState struct {
	State       string       `cbor:",omitzero"`
	Failed      bool         `cbor:",omitzero"`
	Restarts    uint64       `cbor:",omitzero"`
	LastRestart time.Time    `cbor:",omitzero"`
	StartedAt   time.Time    `cbor:",omitzero"`
	FinishedAt  time.Time    `cbor:",omitzero"`
	Events      []*TaskEvent `cbor:",omitzero"` // oldest first, at most 10
}

// Successful reports a task that ended well.
func (s *TaskState) Successful() bool { return s.State == TaskDead && !s.Failed }

// TaskEvent is one line of a task's history.
type TaskEvent struct {
	Type           string            `cbor:",omitzero"`
	Time           int64             `cbor:",omitzero"` // nanoseconds since the epoch
	DisplayMessage string            `cbor:",omitzero"`
	Details        map[string]string `cbor:",omitzero"`
	Message        string            `cbor:",omitzero"`
	FailsTask      bool              `cbor:",omitzero"`
	ExitCode       int               `cbor:",omitzero"`
	Signal         int               `cbor:",omitzero"`
}

// Types of task events, as clients of this API know them; "Storage Waiting", "Storage Ready", "Volume
// Condition" and "Shim Died" are ours, and so is "Network".
const (
	EventReceived        = "Received"
	EventTaskSetup       = "Task Setup"
	EventSetupFailure    = "Setup Failure"
	EventHookFailed      = "Task hook failed"
	EventDriverFailure   = "Driver Failure"
	EventDriver          = "Driver"
	EventServices        = "Services"
	EventStarted         = "Started"
	EventTerminated      = "Terminated"
	EventKilling         = "Killing"
	EventKilled          = "Killed"
	EventRestarting      = "Restarting"
	EventNotRestarting   = "Not Restarting"
	EventSignaling       = "Signaling"
	EventRestartSignal   = "Restart Signaled"
	EventLeaderDead      = "Leader Task Dead"
	EventSiblingFailed   = "Sibling Task Failed"
	EventMainDead        = "Main Tasks Dead"
	EventPluginHealthy   = "Plugin became healthy"
	EventPluginFailing   = "Plugin became unhealthy"
	EventStorageWaiting  = "Storage Waiting"
	EventStorageReady    = "Storage Ready"
	EventNetworkWaiting  = "Network Waiting"
	EventNetworkReady    = "Network Ready"
	EventVolumeCondition = "Volume Condition"
	EventShimDied        = "Shim Died"
	EventNotWritten      = "Not Written Down"
	EventWritten         = "Written Down Again"
	EventNotTakenUp      = "Not Taken Up"
	EventDiskExceeded    = "Disk Resources Exceeded"
	EventOverdue         = "Max Run Duration Exceeded"
	EventOOMKill         = "Process OOM Killed"
	EventRecovered       = "Recovered"
	EventNetwork         = "Network"
	EventDownloading     = "Downloading Artifacts"
	EventNotDownloaded   = "Failed Artifact Download"
	EventTemplate        = "Template"
	EventDeviceHealthy   = "Device became healthy"
	EventDeviceFailing   = "Device became unhealthy"
	EventNotReserved     = "Device Reservation Failed"
	EventDeviceVariables = "Device Variables Left Out"
	EventConsulToken     = "Consul Token"
)

// DetailUnfit is the detail, "true", of an event that tells of a start which this node refuses however often it is
// tried.
const DetailUnfit = "unfit"

// DetailWaits is the detail, "true", of an event that tells of what a start waits for beside storage and networks.
const DetailWaits = "waits"

// DetailStorage is the detail, "true", of an event that tells of a start which did not happen for the sake of storage.
const DetailStorage = "storage"

// Unfit says of an alloc that failed why its node will never start it, in words that name the task; empty: it may, or
// has once.
func (a *Alloc) Unfit() string {
	if a.ClientStatus != ClientFailed {
		return ""
	}
	for _, name := range taskOrder(a, nil) {
		for _, e := range a.TaskStates[name].Events {
			if e.Details[DetailUnfit] == "true" {
				return endWords(name, e, nil)
			}
		}
	}
	return ""
}

// Obstacle reports whether the event tells of something that stands in the task's way.
func (e *TaskEvent) Obstacle() bool {
	switch e.Type {
	case EventSetupFailure, EventHookFailed, EventDriverFailure, EventNotRestarting, EventPluginFailing,
		EventStorageWaiting, EventNetworkWaiting, EventShimDied, EventNotWritten, EventNotTakenUp, EventTemplate,
		EventDeviceFailing, EventNotReserved:
		return true
	}
	return false
}

// Waits reports whether the event tells of what a start waits for: storage, or a network.
func (e *TaskEvent) Waits() bool {
	return e.Type == EventStorageWaiting || e.Type == EventNetworkWaiting
}
