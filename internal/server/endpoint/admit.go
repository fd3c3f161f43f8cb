package endpoint

import (
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/model/job"
	"berth/internal/server/state"
)

// admit checks a job against the state: its namespace, and whether the drivers of tasks with volume mounts can mount. It
// returns what is worth a warning.
func (e *Endpoints) admit(s *state.Snap, j *job.Job) ([]string, error) {
	if s.Namespace(nil, j.Namespace) == nil {
		return nil, &fault.Error{Kind: fault.NotFound, Op: "register", Subject: fmt.Sprintf("job %q", j.ID),
			Err: fmt.Errorf("namespace %q does not exist", j.Namespace), Hint: "namespaces are default and berth"}
	}
	var warnings []string
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			w, err := mountable(s, j, g, t)
			if err != nil {
				return nil, err
			}
			if w != "" && !slices.Contains(warnings, w) {
				warnings = append(warnings, w)
			}
		}
	}
	return warnings, nil
}

// mountable refuses a task with volume mounts if there are ready nodes with its driver and not one of them can mount. A
// driver that no node has may come later: that is a warning.
func mountable(s *state.Snap, j *job.Job, g *job.TaskGroup, t *job.Task) (string, error) {
	have, can := drivers(s, t.Driver)
	if have == 0 {
		return fmt.Sprintf("no ready node has the driver %q of task %q in group %q; the job waits until one has", t.Driver, t.Name, g.Name), nil
	}
	if len(t.VolumeMounts) == 0 || can > 0 {
		return "", nil
	}
	m := t.VolumeMounts[0]
	return "", &fault.Error{Kind: fault.Invalid, Op: "register",
		Subject: fmt.Sprintf("job %q: group %q: task %q", j.ID, g.Name, t.Name),
		Err:     fmt.Errorf("driver %q can't mount anything into a task on any node, but the task mounts volume %q at %q", t.Driver, m.Volume, m.Destination),
		Hint:    "use a driver that can, such as exec, or take the volume_mount out of the task"}
}

// drivers counts the ready nodes with a healthy driver, and those of them where it can mount.
func drivers(s *state.Snap, name string) (have, can int) {
	for n := range s.Nodes(nil, "") {
		d := n.Drivers[name]
		if !n.Ready() || d == nil || !d.Detected || !d.Healthy {
			continue
		}
		have++
		if !d.NoMounts {
			can++
		}
	}
	return have, can
}

// driversKnown tells whether for every task a ready node with its driver could be asked.
func driversKnown(s *state.Snap, j *job.Job) bool {
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if have, _ := drivers(s, t.Driver); have == 0 {
				return false
			}
		}
	}
	return true
}
