package job

import (
	"errors"
	"strings"
	"testing"
)

// Given jobs that no job file makes, as a program may send them, then all that is misshapen is said, with its place.
func TestAMisshapenJobIsRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		change func(j *Job, g *TaskGroup, t *Task)
		says   string
	}{
		"a group's name": {func(_ *Job, g *TaskGroup, _ *Task) { g.Name = "a\n\x1b" }, `group "a\n\x1b": name: `},
		"a task's name": {func(_ *Job, _ *TaskGroup, t *Task) { t.Name = "../../../tmp/x" },
			`"../../../tmp/x": name: `},
		"a reserved name": {func(_ *Job, _ *TaskGroup, t *Task) { t.Name = "alloc" }, `task "alloc": name: `},
		"count":           {func(_ *Job, g *TaskGroup, _ *Task) { g.Count = -5 }, "count must be at least 0, is -5"},
		"cpu":             {func(_ *Job, _ *TaskGroup, t *Task) { t.Resources.CPU = -1 }, "cpu must be at least 0"},
		"memory": {func(_ *Job, _ *TaskGroup, t *Task) { t.Resources.MemoryMB = -1 },
			"memory must be at least 0"},
		"memory_max": {func(_ *Job, _ *TaskGroup, t *Task) { t.Resources.MemoryMaxMB = -2 },
			"memory_max must be at least -1"},
		"disk":    {func(_ *Job, _ *TaskGroup, t *Task) { t.Resources.DiskMB = -1 }, "disk must be at least 0"},
		"no pids": {func(_ *Job, _ *TaskGroup, t *Task) { t.Resources.PIDs = -1 }, "pids must be at least 0"},
		"pids": {func(_ *Job, _ *TaskGroup, t *Task) { t.Resources.PIDs = 1 << 30 },
			"pids must be at most 4194304, is 1073741824"},
		"ephemeral_disk": {func(_ *Job, g *TaskGroup, _ *Task) { g.EphemeralDisk = &EphemeralDisk{SizeMB: -1} },
			"size of ephemeral_disk must be at least 0"},
		"a port": {func(_ *Job, g *TaskGroup, _ *Task) {
			g.Networks = []*NetworkResource{{ReservedPorts: []Port{{Label: "web", Value: 1 << 16}}}}
		}, `port "web" must be at most 65535`},
		"logs": {func(_ *Job, _ *TaskGroup, t *Task) { t.LogConfig = &LogConfig{MaxFiles: -1} },
			"max_files of logs must be at least 0"},
		"no group": {func(j *Job, _ *TaskGroup, _ *Task) { j.TaskGroups[0] = nil }, "TaskGroups[0] is null"},
		"no constraint": {func(j *Job, _ *TaskGroup, _ *Task) { j.Constraints = []*Constraint{nil} },
			"Constraints[0] is null"},
		"no volume": {func(_ *Job, g *TaskGroup, _ *Task) { g.Volumes = map[string]*VolumeRequest{"v": nil} },
			`TaskGroups[0].Volumes["v"] is null`},
	} {
		task := &Task{Name: "t", Resources: &Resources{CPU: 1, MemoryMB: 10, MemoryMaxMB: -1}}
		group := &TaskGroup{Name: "g", Count: 1, Tasks: []*Task{task}}
		j := &Job{ID: "j", TaskGroups: []*TaskGroup{group}}
		if errs := j.Misshapen(); len(errs) > 0 {
			t.Fatalf("a job of the right shape: %v", errs)
		}
		c.change(j, group, task)
		errs := j.Misshapen()
		if len(errs) != 1 || !strings.Contains(errors.Join(errs...).Error(), c.says) {
			t.Errorf("%s: %v", name, errs)
		}
	}
}
