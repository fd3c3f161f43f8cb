package allocs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

func newStop(e *kit.Env) *kit.Command {
	var detach, verbose, noDelay bool
	t := target{env: e}
	cmd := &kit.Command{
		Use:     "stop [flags] <alloc>",
		Short:   "Stop an allocation, so that its job is placed anew",
		Example: "  berth alloc stop 4ff1d9c5",
		Run: func(ctx context.Context, args []string) error {
			a, err := t.find(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			f := follow.New(e, verbose, false)
			out, _, err := f.Client.Allocations().Stop(ctx, a.ID, noDelay, write(a))
			if err != nil {
				return kit.Doing(err, "stop", "allocation", kit.ID(a.ID, verbose))
			}
			if detach {
				e.Out.Printf("%s\n", out.EvalID)
				return nil
			}
			_, err = f.Evaluation(ctx, out.EvalID, a.Namespace)
			return err
		},
	}
	t.addTo(cmd, false)
	cmd.Flags().BoolVar(&detach, "detach", false, "do not follow; print the evaluation's id")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids")
	cmd.Flags().BoolVar(&noDelay, "no-shutdown-delay", false, "skip the shutdown delays")
	return cmd
}

func newRestart(e *kit.Env) *kit.Command {
	var all bool
	t := target{env: e}
	cmd := &kit.Command{
		Use:   "restart [flags] <alloc> [task]",
		Short: "Restart the tasks of an allocation where they are",
		Long: "Restarts one task, or all that run. With -all-tasks also those that have ended: everything ends, and " +
			"then begins anew, in the order of the lifecycle. An allocation that its agent does not take up, because it died of it, is taken up again instead: what runs of it runs on.",
		Example: "  berth alloc restart 4ff1d9c5 redis",
		Run: func(ctx context.Context, args []string) error {
			if all && (t.task != "" || len(args) > 1) {
				return kit.Usage("-all-tasks and a task exclude each other")
			}
			a, name, err := t.findTask(ctx, args)
			if err != nil {
				return err
			}
			err = e.Client().Allocations().Restart(ctx, a.ID, &api.AllocRestartRequest{TaskName: name, AllTasks: all},
				write(a))
			return kit.Doing(err, "restart", "allocation", kit.ID(a.ID, false))
		},
	}
	t.addTo(cmd, true)
	cmd.Flags().BoolVar(&all, "all-tasks", false, "tasks that have ended, too")
	return cmd
}

func newSignal(e *kit.Env) *kit.Command {
	var signal string
	t := target{env: e}
	cmd := &kit.Command{
		Use:     "signal [flags] <alloc> [task]",
		Short:   "Send a signal to the tasks of an allocation",
		Example: "  berth alloc signal -s SIGHUP 4ff1d9c5 redis",
		Run: func(ctx context.Context, args []string) error {
			a, name, err := t.findTask(ctx, args)
			if err != nil {
				return err
			}
			err = e.Client().Allocations().Signal(ctx, a.ID, &api.AllocSignalRequest{Task: name, Signal: signal},
				write(a))
			return kit.Doing(err, "signal", "allocation", kit.ID(a.ID, false))
		},
	}
	t.addTo(cmd, true)
	cmd.Flags().StringVar(&signal, "signal", "SIGKILL", "`name` of the signal")
	cmd.Flags().Letters("s=signal")
	return cmd
}

// findTask reads the allocation to change, and which of its tasks argument or flag names, if any.
func (t *target) findTask(ctx context.Context, args []string) (*api.Allocation, string, error) {
	name := t.task
	if len(args) > 1 {
		if name != "" && name != args[1] {
			return nil, "", kit.Fail(fault.Invalid, "", "two tasks are named, %q and %q; give one", args[1], name)
		}
		name = args[1]
	}
	a, err := t.find(ctx, args[0], kit.Change)
	if err == nil && name != "" {
		name, err = taskOf(a, name)
	}
	return a, name, err
}

// showChecks lists what checks have found, ordered by their services.
func showChecks(p *kit.Printer, checks map[string]*api.AllocCheckStatus, output bool) {
	none := func(c *api.AllocCheckStatus) bool { return c == nil }
	list := slices.DeleteFunc(slices.Collect(maps.Values(checks)), none)
	slices.SortFunc(list, func(a, b *api.AllocCheckStatus) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Task, b.Task),
			strings.Compare(a.Check, b.Check), strings.Compare(a.ID, b.ID))
	})
	header := []string{"Service", "Task", "Name", "Mode", "Status"}
	if output {
		header = append(header, "Output")
	}
	kit.List(p, list, "checks", header, func(c *api.AllocCheckStatus) []string {
		line := []string{c.Service, cmp.Or(c.Task, "(group)"), c.Check, c.Mode, c.Status}
		if output {
			line = append(line, strings.Join(strings.Fields(c.Output), " "))
		}
		return line
	})
}

func newChecks(e *kit.Env) *kit.Command {
	var formats kit.Formats
	t := target{env: e}
	cmd := &kit.Command{
		Use:     "checks [flags] <alloc>",
		Short:   "Show the service checks of an allocation",
		Example: "  berth alloc checks 4ff1d9c5",
		Run: func(ctx context.Context, args []string) error {
			a, err := t.find(ctx, args[0], kit.Read)
			if err != nil {
				return err
			}
			checks, err := e.Client().Allocations().Checks(ctx, a.ID, query(a))
			return formats.Show(e.Out, checks, kit.Doing(err, "read the checks of", "allocation", kit.ID(a.ID, false)),
				func() { showChecks(e.Out, checks, true) })
		},
	}
	t.addTo(cmd, false)
	return formats.AddTo(cmd)
}
