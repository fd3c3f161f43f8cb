package taskrunner

import (
	"path/filepath"

	"berth/internal/base/redact"
	"berth/internal/client/allocdir"
	"berth/internal/derive/taskenv"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/port/driver"
)

// EnvSource is all that a task's environment is made from on its node.
type EnvSource struct {
	Bundle alloc.Bundle
	Group  *job.TaskGroup
	Task   *job.Task
	Node   *node.Node
	Region string
	// ParentCgroup is the cgroup below which the cgroups of all tasks lie; empty: the node has none.
	ParentCgroup string
	Network      *alloc.NetworkStatus // nil: the node's own
	Caps         driver.Caps
	Dir          allocdir.Dir
	// Isolation decides how the task sees its directories.
	Isolation driver.Isolation
	Secrets   redact.Map // see taskenv.Source
}

// NewEnv builds the environment that does not depend on hooks: see taskenv.New.
func NewEnv(s EnvSource) (taskenv.Env, error) {
	given := s.Bundle.Alloc.Resources.Tasks[s.Task.Name]
	return taskenv.New(taskenv.Source{
		Alloc:        s.Bundle.Alloc,
		Job:          s.Bundle.Job,
		Group:        s.Group,
		Task:         s.Task,
		Node:         s.Node,
		Region:       s.Region,
		ParentCgroup: s.ParentCgroup,
		Network:      s.Network,
		Secrets:      s.Secrets,
		MemoryMaxMB:  s.Caps.MemoryMax(given.MemoryMB, given.MemoryMaxMB),
		Dirs: taskenv.Dirs{
			Alloc:   s.view(s.Dir.SharedDir()),
			Task:    s.view(filepath.Join(s.Dir.TaskDir(s.Task.Name), allocdir.Local)),
			Secrets: s.view(filepath.Join(s.Dir.TaskDir(s.Task.Name), allocdir.Secrets)),
		},
	})
}

// view is how the task sees a directory of its alloc.
func (s EnvSource) view(path string) string {
	if s.Isolation == driver.IsolationNone || s.Isolation == "" {
		return path
	}
	if path == s.Dir.SharedDir() {
		return "/" + allocdir.Shared
	}
	return "/" + filepath.Base(path)
}
