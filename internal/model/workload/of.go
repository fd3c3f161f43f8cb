package workload

import (
	"slices"

	"berth/internal/model/job"
)

// Named is the identity of that name which a task of a group has; nil: it has none. Those of its services are among
// them, as far as it is shown them.
func Named(g *job.TaskGroup, t *job.Task, name string) *job.WorkloadIdentity {
	if name == job.DefaultIdentity {
		if t.Identity != nil {
			return t.Identity
		}
		return Default()
	}
	for _, id := range slices.Concat(t.Identities, ofServices(g, t)) {
		if id.Name == name {
			return id
		}
	}
	return nil
}

// Shown are the identities that a task of a group finds in its environment or in a file: no other is signed for it
// without being asked for.
func Shown(g *job.TaskGroup, t *job.Task) (out []*job.WorkloadIdentity) {
	if id := t.Identity; id != nil && (id.Env || id.File) {
		out = append(out, id)
	}
	for _, id := range slices.Concat(t.Identities, ofServices(g, t)) {
		if id.Env || id.File {
			out = append(out, id)
		}
	}
	return out
}

// ofServices are the identities of services that a task is shown: of its own, and of those that it answers for.
func ofServices(g *job.TaskGroup, t *job.Task) (out []*job.WorkloadIdentity) {
	for of, s := range g.AllServices() {
		if id := s.Identity; id != nil && (id.Env || id.File) && (of == t || of == nil && s.TaskName == t.Name) {
			out = append(out, id)
		}
	}
	return out
}

// Service finds a service of a group, and the task that it belongs to, nil for the group's: by the names that the job
// gives task and service, and its port.
func Service(g *job.TaskGroup, task, name, port string) (*job.Task, *job.Service) {
	for t, s := range g.AllServices() {
		if s.Name == name && s.PortLabel == port && (t == nil && task == "" || t != nil && t.Name == task) {
			return t, s
		}
	}
	return nil, nil
}

// ServiceOf is the service that an identity is of, with the task that it belongs to; nil: it is a task's own.
func ServiceOf(g *job.TaskGroup, id *job.WorkloadIdentity) (*job.Task, *job.Service) {
	for t, s := range g.AllServices() {
		if s.Identity == id {
			return t, s
		}
	}
	return nil, nil
}
