package allocs

import (
	"fmt"
	"maps"
	"slices"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
)

func newStop(e *kit.Env) *cobra.Command {
	var detach, verbose, noDelay bool
	t := target{env: e}
	cmd := &cobra.Command{
		Use:     "stop [flags] <alloc>",
		Short:   "Stop an allocation, so that its job is placed anew",
		Example: "  berth alloc stop 4ff1d9c5",
		Args:    kit.Args("alloc"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			a, err := t.find(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			f, err := follow.New(e, verbose, false)
			if err != nil {
				return err
			}
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

func newRestart(e *kit.Env) *cobra.Command {
	var all bool
	t := target{env: e}
	cmd := &cobra.Command{
		Use:     "restart [flags] <alloc> [task]",
		Short:   "Restart the tasks of an allocation where they are",
		Long:    "Restarts one task, or all that run. With -all-tasks also those that have ended.",
		Example: "  berth alloc restart 4ff1d9c5 redis",
		Args:    kit.Args("alloc", "[task]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := namedTask(args, t.task)
			if err != nil {
				return err
			}
			if name != "" && all {
				return kit.Usage(cmd, "-all-tasks and a task exclude each other")
			}
			a, err := t.find(cmd.Context(), args[0], kit.Change)
			if err != nil {
				return err
			}
			c, err := e.Client()
			if err != nil {
				return err
			}
			if name != "" {
				if name, err = taskOf(a, name); err != nil {
					return err
				}
			}
			err = c.Allocations().Restart(cmd.Context(), a.ID, &api.AllocRestartRequest{TaskName: name, AllTasks: all}, write(a))
			return kit.Doing(err, "restart", "allocation", kit.ID(a.ID, false))
		},
	}
	t.addTo(cmd, true)
	cmd.Flags().BoolVar(&all, "all-tasks", false, "tasks that have ended, too")
	return cmd
}

func newSignal(e *kit.Env) *cobra.Command {
	var signal string
	t := target{env: e}
	cmd := &cobra.Command{
		Use:     "signal [flags] <alloc> [task]",
		Short:   "Send a signal to the tasks of an allocation",
		Example: "  berth alloc signal -s SIGHUP 4ff1d9c5 redis",
		Args:    kit.Args("alloc", "[task]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := namedTask(args, t.task)
			if err != nil {
				return err
			}
			a, err := t.find(cmd.Context(), args[0], kit.Change)
			if err != nil {
				return err
			}
			c, err := e.Client()
			if err != nil {
				return err
			}
			if name != "" {
				if name, err = taskOf(a, name); err != nil {
					return err
				}
			}
			err = c.Allocations().Signal(cmd.Context(), a.ID, &api.AllocSignalRequest{Task: name, Signal: signal}, write(a))
			return kit.Doing(err, "signal", "allocation", kit.ID(a.ID, false))
		},
	}
	t.addTo(cmd, true)
	cmd.Flags().StringVarP(&signal, "signal", "s", "SIGKILL", "`name` of the signal")
	return cmd
}

// namedTask is the task that argument or flag names, or none.
func namedTask(args []string, flag string) (string, error) {
	if len(args) < 2 {
		return flag, nil
	}
	if flag != "" && flag != args[1] {
		return "", fault.New(fault.Invalid, "", "", fmt.Sprintf("two tasks are named, %q and %q; give one", args[1], flag))
	}
	return args[1], nil
}

func newChecks(e *kit.Env) *cobra.Command {
	var formats kit.Formats
	t := target{env: e}
	cmd := &cobra.Command{
		Use:     "checks [flags] <alloc>",
		Short:   "Show the service checks of an allocation",
		Example: "  berth alloc checks 4ff1d9c5",
		Args:    kit.Args("alloc"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := t.find(cmd.Context(), args[0], kit.Read)
			if err != nil {
				return err
			}
			c, err := e.Client()
			if err != nil {
				return err
			}
			checks, err := c.Allocations().Checks(cmd.Context(), a.ID, query(a))
			switch {
			case err != nil:
				return kit.Doing(err, "read the checks of", "allocation", kit.ID(a.ID, false))
			case formats.Wanted():
				return formats.Print(e.Out, checks)
			case len(checks) == 0:
				e.Out.Printf("No checks\n")
				return nil
			}
			checkTable(e, checks)
			return nil
		},
	}
	t.addTo(cmd, false)
	formats.AddTo(cmd)
	return cmd
}

func checkTable(e *kit.Env, checks map[string]*api.AllocCheckStatus) {
	var rows [][]string
	for _, id := range slices.Sorted(maps.Keys(checks)) {
		if c := checks[id]; c != nil {
			rows = append(rows, []string{c.Service, c.Task, c.Check, c.Mode, c.Status, c.Output})
		}
	}
	e.Out.Table([]string{"Service", "Task", "Name", "Mode", "Status", "Output"}, rows)
}
