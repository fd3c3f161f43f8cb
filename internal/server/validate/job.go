// Package validate owns what is refused, or warned of, before anything is recorded: functions of a request and a
// snapshot of the state, without any effect. Only package endpoint imports it.
package validate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/taskconfig"
	"berth/internal/server/partitions"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// JobShape refuses a job without a proper name, first, without a namespace, one that is misshapen, and one that passes
// a bound: that an agent has judged it by the rules of job files, servers do not believe.
func JobShape(j *job.Job) error {
	if j == nil {
		return fault.New(fault.Invalid, "", "", "Job must be specified")
	}
	err := ids.ValidJob(string(j.ID))
	errs := []error{fault.Wrap(err, fault.Invalid, "", fmt.Sprintf("job id %q", j.ID))}
	if unnamed(j.Namespace) {
		errs = append(errs, fault.New(fault.Invalid, "", fmt.Sprintf("job %q", j.ID), "it names no namespace"))
	}
	for _, e := range j.Misshapen() {
		errs = append(errs, fault.Wrap(e, fault.Invalid, "register", fmt.Sprintf("job %q", j.ID)))
	}
	if len(job.Nulls(j)) == 0 {
		errs = append(errs, bounded(j))
	}
	return errors.Join(errs...)
}

func unnamed(ns ids.Namespace) bool { return ns == "" || ns == wire.AllNamespaces }

func bounded(j *job.Job) error {
	var errs []error
	for _, e := range j.Excesses() {
		errs = append(errs, fault.Wrap(e, fault.Invalid, "register", fmt.Sprintf("job %q", j.ID)))
	}
	return errors.Join(errs...)
}

// Findings lists all that is wrong with a job, its name first. What is beyond a bound is not looked at: who asks cuts
// the job first, to hear of the rest.
func Findings(s *state.Snap, j *job.Job) (warnings []string, findings []error) {
	shape := Each(JobShape(j))
	if j == nil || unnamed(j.Namespace) || len(job.Nulls(j)) > 0 || len(j.Excesses()) > 0 {
		return nil, shape
	}
	warnings, err := Job(s, j)
	return warnings, append(shape, Each(err)...)
}

// KeptCounts refuses a registration that would take over counts beyond a bound, which a version from before it may
// have.
func KeptCounts(j, present *job.Job) error {
	if present == nil {
		return nil
	}
	as := *j
	as.TaskGroups = make([]*job.TaskGroup, len(j.TaskGroups))
	for i, g := range j.TaskGroups {
		c := *g
		as.TaskGroups[i] = &c
	}
	as.KeepCounts(present)
	return fault.WithHint(bounded(&as), "the present version has that count: register without preserving counts")
}

// Job checks a job against the state: its namespace, with what that lets it use, its node pool, what its tasks ask of
// drivers as far as ready nodes know it, and whether the drivers of tasks with volume mounts can mount. It returns what
// is worth a warning, also of a job that it refuses.
func Job(s *state.Snap, j *job.Job) ([]string, error) {
	errs := append([]error{partitions.Admits(s, j)}, partitions.Permits(s, j)...)
	warnings, err := provided(s, j)
	errs = append(errs, ownPlugins(s, j), err, childless(s, j))
	for _, e := range j.Heavy() {
		errs = append(errs, fault.Wrap(e, fault.Invalid, "register", fmt.Sprintf("job %q", j.ID)))
	}
	errs = append(errs, networked(s, j)...)
	if w := poolless(s, j); w != "" {
		warnings = append(warnings, w)
	}
	f := fleet{s: s, taken: map[string][]taskconfig.Schema{}}
	for _, g := range j.TaskGroups {
		errs = append(errs, triable(j, g))
		warnings = append(warnings, untried(j, g)...)
		for _, t := range g.Tasks {
			w, err := mountable(s, j, g, t)
			errs = append(errs, runnable(f, j, g, t), equipped(s, j, g, t), err)
			for _, w := range []string{w, hasty(g, t)} {
				if w != "" && !slices.Contains(warnings, w) {
					warnings = append(warnings, w)
				}
			}
		}
	}
	return warnings, errors.Join(errs...)
}

// childless refuses a new job with the id of one that another job launches: who looks at that one would take it for
// its work. One that is there may be registered anew.
func childless(s *state.Snap, j *job.Job) error {
	if !job.NamedAsChild(j.ID) || s.Job(nil, j.Namespace, j.ID) != nil {
		return nil
	}
	return fault.WithHint(fault.New(fault.Invalid, "register", fmt.Sprintf("job %q", j.ID), fmt.Sprintf(
		"ids with %q or %q are those of jobs that another one has launched", job.PeriodicChild, job.DispatchChild)),
		"give it another id; to launch one: berth job dispatch JOB, or berth job periodic force JOB")
}

// Each lists what is in an error that has several.
func Each(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, one := range many.Unwrap() {
			out = append(out, Each(one)...)
		}
		return out
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// foreign are drivers that others have and this system has not, with what to do instead.
var foreign = map[string]string{
	"containerd-driver": unpack,
	"docker":            unpack + ", or install Docker on a node: its agent finds it by itself",
	"java":              "install a Java machine on a node: its agent finds it by itself",
	"podman":            unpack,
	"qemu":              "install qemu on a node, such as the package qemu-system-x86: its agent finds it by itself",
}

const unpack = "unpack its image on a volume or below a host volume, and run its program by exec"

// hasty warns of restarts that nodes let wait longer than the policy says.
func hasty(g *job.TaskGroup, t *job.Task) string {
	p := cmp.Or(t.RestartPolicy, g.RestartPolicy)
	if p == nil || p.Delay >= alloc.QuickPause || p.Attempts <= alloc.QuickRestarts {
		return ""
	}
	return fmt.Sprintf("task %q of group %q: restarts after the first %d within %s wait %s each, not %s",
		t.Name, g.Name, alloc.QuickRestarts, p.Interval, alloc.QuickPause, p.Delay)
}

// mountable refuses a task with volume mounts if there are ready nodes with its driver and not one of them can mount. A
// driver that no node has may come later: that is a warning.
func mountable(s *state.Snap, j *job.Job, g *job.TaskGroup, t *job.Task) (string, error) {
	if t.Driver == "" {
		return "", nil // refused before
	}
	have, can := drivers(s, t.Driver)
	if have == 0 && closed(s, t.Driver) {
		return fmt.Sprintf(
			"the nodes with the driver %q of task %q in group %q take no new allocations; the job waits until one does",
			t.Driver, t.Name, g.Name), nil
	}
	if where, why := unhealthy(s, t.Driver); have == 0 && where != "" {
		return fmt.Sprintf("the driver %q of task %q in group %q is healthy on no node, on node %s because: %s; the "+
			"job waits until it is", t.Driver, t.Name, g.Name, where, why), nil
	}
	if instead := foreign[t.Driver]; have == 0 && instead != "" {
		return fmt.Sprintf("there is no driver %q for task %q in group %q, so that the job waits for ever: %s%s",
			t.Driver, t.Name, g.Name, instead, present(s)), nil
	}
	if have == 0 {
		return fmt.Sprintf("no ready node has the driver %q of task %q in group %q; the job waits until one has%s",
			t.Driver, t.Name, g.Name, present(s)), nil
	}
	if len(t.VolumeMounts) == 0 || can > 0 {
		return "", nil
	}
	m := t.VolumeMounts[0]
	return "", &fault.Error{
		Kind:    fault.Invalid,
		Op:      "register",
		Subject: fmt.Sprintf("job %q: group %q: task %q", j.ID, g.Name, t.Name),
		Err: fmt.Errorf(
			"driver %q can't mount anything into a task on any node, but the task mounts volume %q at %q", t.Driver,
			m.Volume, m.Destination),
		Hint: "use a driver that can, such as exec, or take the volume_mount out of the task",
	}
}

// drivers counts the ready nodes with a healthy driver, and those of them where it can mount.
func drivers(s *state.Snap, name string) (have, can int) {
	for n := range readyWith(s, name) {
		have++
		if d := n.Drivers[name]; !d.NoMounts {
			can++
		}
	}
	return have, can
}

// unhealthy names a ready node that has a driver and cannot use it, and why; empty: there is none.
func unhealthy(s *state.Snap, name string) (where, why string) {
	for n := range s.Nodes(nil, "") {
		if d := n.Drivers[name]; n.Ready() && d != nil && d.Detected && !d.Healthy {
			return n.Name, d.HealthDescription
		}
	}
	return "", ""
}

// closed tells whether a node has a healthy driver and takes no new allocs.
func closed(s *state.Snap, name string) bool {
	for n := range s.Nodes(nil, "") {
		if d := n.Drivers[name]; n.Status == node.StatusReady && !n.Ready() && d != nil && d.Detected && d.Healthy {
			return true
		}
	}
	return false
}

// DriversKnown tells whether for every task a ready node with its driver could be asked.
func DriversKnown(s *state.Snap, j *job.Job) bool {
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if have, _ := drivers(s, t.Driver); have == 0 {
				return false
			}
		}
	}
	return true
}
