package service

import (
	"cmp"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/derive/taskenv"
	"berth/internal/model/job"
)

// NameOf is the name that a service of an alloc is found by: that of the job, with what it refers to. Task is the one
// that it belongs to; nil: the group.
func NameOf(s Source, t *job.Task, of *job.Service) (string, error) {
	if Static(of.Name) {
		return of.Name, nil
	}
	if s.Node == nil {
		return "", fault.New(fault.NotReady, "name", "service "+of.Name, "its node is not known")
	}
	g := s.Job.Group(s.Alloc.TaskGroup)
	env := &texts{of: taskenv.Source{
		Alloc:  s.Alloc,
		Job:    s.Job,
		Group:  g,
		Task:   cmp.Or(t, g.Task(of.TaskName)),
		Node:   s.Node,
		Region: s.Job.Region,

		Network: s.Alloc.Network,
	}}
	name, err := env.Replace(of.Name)
	if err != nil {
		return "", err
	}
	if why := BadName(name); why != "" {
		return "", fault.New(fault.Invalid, "name", "service "+of.Name,
			fmt.Sprintf("its name becomes %q: %s", name, why))
	}
	return name, nil
}
