package api

// ScalingRequest gives a group another count, or says why it did not get one.
type ScalingRequest struct {
	Count          *int64            // absent: it stays, and what is said is remembered
	Target         map[string]string // {"Group": the group's name}
	Message        string
	Error          bool // of what went wrong; there is no count then
	Meta           map[string]any
	PolicyOverride bool   // refused: there are no policies on jobs
	JobModifyIndex uint64 // only if the job has it; 0: any
}

// JobScaleStatusResponse is how the groups of a job are scaled.
type JobScaleStatusResponse struct {
	JobID          string
	Namespace      string
	JobCreateIndex uint64
	JobModifyIndex uint64
	JobStopped     bool
	TaskGroups     map[string]TaskGroupScaleStatus
}

// TaskGroupScaleStatus is the count of a group, and what there is of it.
type TaskGroupScaleStatus struct {
	Desired   int
	Placed    int
	Running   int
	Healthy   int
	Unhealthy int
	Events    []ScalingEvent // the newest first
}

// ScalingEvent is one scaling of a group, or what was said of one.
type ScalingEvent struct {
	Count         *int64
	PreviousCount int64
	Error         bool
	Message       string
	Meta          map[string]any
	EvalID        *string
	Time          uint64 // Unix nanoseconds
	CreateIndex   uint64
}

// ScalingPolicyListStub is the line of a policy in lists.
type ScalingPolicyListStub struct {
	ID          string
	Enabled     bool
	Type        string
	Target      map[string]string // Namespace, Job, Group and, of a task's, Task
	CreateIndex uint64
	ModifyIndex uint64
}
