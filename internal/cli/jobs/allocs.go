package jobs

import (
	"context"

	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

func newAllocs(e *kit.Env) *kit.Command {
	var all, verbose bool
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "allocs [flags] <job>",
		Short:   "List the allocations of a job",
		Example: "  berth job allocs db\n  berth job allocs -t '{{range .}}{{println .ID}}{{end}}' db",
		IDs:     "jobs",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.Job(ctx, args[0], kit.Read)
			if err != nil {
				return err
			}
			list, _, err := e.Client().Jobs().Allocations(ctx, ref.ID, all, ref.Query())
			return formats.Show(e.Out, list, kit.Doing(err, "list the allocations of", "job", ref.ID), func() {
				follow.AllocTable(e, list, verbose)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "those of earlier jobs of the same id, too")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids and absolute times")
	return formats.AddTo(cmd)
}
