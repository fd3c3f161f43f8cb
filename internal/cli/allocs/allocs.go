// Package allocs owns the commands about allocations and evaluations. Only the root of the command line imports it.
package allocs

import (
	"context"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// Noun returns "alloc" with its verbs.
func Noun(e *kit.Env) *kit.Command {
	return kit.Noun("alloc", "Look into allocations and act on them", newStatus(e), newLogs(e), newFS(e), newExec(e),
		newStop(e), newRestart(e), newSignal(e), newChecks(e))
}

// Shortcuts are the verbs that need no noun.
func Shortcuts(e *kit.Env) []*kit.Command {
	return []*kit.Command{newLogs(e), newFS(e), newExec(e)}
}

// Status shows an allocation.
func Status(ctx context.Context, e *kit.Env, id string) error {
	return (&status{env: e}).do(ctx, id)
}

// target finds the allocation that a command is about: the argument, or with -job one of a job's.
type target struct {
	env   *kit.Env
	job   bool
	group string
	task  string
}

// addTo gives a command the flags; tasks tells whether it is about one task.
func (t *target) addTo(cmd *kit.Command, tasks bool) {
	cmd.Flags().BoolVar(&t.job, "job", false, "the argument is a job; take one of its running allocations")
	cmd.Flags().StringVar(&t.group, "group", "", "with -job: of this `group`")
	if tasks {
		cmd.Flags().StringVar(&t.task, "task", "", "`name` of the task; needed when there are several")
	}
	cmd.IDs, cmd.JobIDs = "allocs", &t.job
}

// find reads the allocation in full.
func (t *target) find(ctx context.Context, arg string, access kit.Access) (*api.Allocation, error) {
	var ref kit.Ref
	var err error
	if t.job {
		ref, err = t.ofJob(ctx, arg, access)
	} else {
		ref, err = t.env.Alloc(ctx, arg, access)
	}
	if err != nil {
		return nil, err
	}
	a, _, err := t.env.Client().Allocations().Get(ctx, ref.ID, ref.Query())
	if access == kit.Change {
		return a, kit.Doing(err, "read", "allocation", arg)
	}
	return a, kit.Doing(err, "read", "allocation", arg)
}

// ofJob takes the newest running allocation of a job, or else the newest.
func (t *target) ofJob(ctx context.Context, arg string, access kit.Access) (kit.Ref, error) {
	job, err := t.env.Job(ctx, arg, access)
	if err != nil {
		return kit.Ref{}, err
	}
	list, _, err := t.env.Client().Jobs().Allocations(ctx, job.ID, false, job.Query())
	if err != nil {
		return kit.Ref{}, kit.Doing(err, "list the allocations of", "job", job.ID)
	}
	if t.group != "" {
		list = slices.DeleteFunc(list, func(a *api.AllocationListStub) bool { return a.TaskGroup != t.group })
	}
	for _, a := range list {
		if a.ClientStatus == api.AllocClientStatusRunning {
			return kit.Ref{ID: a.ID, Namespace: a.Namespace}, nil
		}
	}
	if len(list) > 0 {
		return kit.Ref{ID: list[0].ID, Namespace: list[0].Namespace}, nil
	}
	none := kit.Fail(fault.NotFound, `see "berth job status `+job.Typed()+`"`, "job %q has no such allocation", job.ID)
	return kit.Ref{}, none
}

// taskOf chooses the task: the named one, or the only one.
func taskOf(a *api.Allocation, name string) (string, error) {
	tasks := tasksOf(a)
	switch {
	case name != "" && slices.Contains(tasks, name):
		return name, nil
	case name != "":
		return "", kit.Fail(fault.NotFound, "its tasks are "+strings.Join(tasks, ", "), "allocation %q has no task %q",
			kit.ID(a.ID, false), name)
	case len(tasks) == 1:
		return tasks[0], nil
	}
	return "", kit.Fail(fault.Invalid, "name one with -task: "+strings.Join(tasks, ", "), "allocation %q has %d tasks",
		kit.ID(a.ID, false), len(tasks))
}

// tasksOf are the names of an allocation's tasks, in the order of the job.
func tasksOf(a *api.Allocation) []string {
	var out []string
	if g := groupOf(a); g != nil {
		for _, t := range g.Tasks {
			out = append(out, t.Name)
		}
		return out
	}
	return slices.Sorted(maps.Keys(a.TaskStates))
}

func groupOf(a *api.Allocation) *api.TaskGroup {
	if a.Job == nil {
		return nil
	}
	for _, g := range a.Job.TaskGroups {
		if g != nil && g.Name == a.TaskGroup {
			return g
		}
	}
	return nil
}

func query(a *api.Allocation) *api.QueryOptions { return &api.QueryOptions{Namespace: a.Namespace} }
func write(a *api.Allocation) *api.WriteOptions { return &api.WriteOptions{Namespace: a.Namespace} }
