package variable

import (
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/acl"
)

// Workload is who asks for variables as a task of a job.
type Workload struct {
	Namespace   ids.Namespace
	Job         ids.Job
	Group, Task string
}

// Paths are what a task may read without a policy that says so: what is there for all jobs of its namespace, for its
// job, its group and itself. Each is one path, not what lies below it.
func (w Workload) Paths() []string {
	job := jobsRoot + "/" + string(w.Job)
	return []string{jobsRoot, job, job + "/" + w.Group, job + "/" + w.Group + "/" + w.Task}
}

// May tells whether a task may do something with a variable without a policy that says so.
func (w Workload) May(ns ids.Namespace, path string, c acl.Capability) bool {
	return ns == w.Namespace && (c == acl.Read || c == acl.List) && slices.Contains(w.Paths(), path)
}
