package jobs

import (
	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
)

func newAllocs(e *kit.Env) *cobra.Command {
	var all, verbose bool
	var formats kit.Formats
	cmd := &cobra.Command{
		Use:               "allocs [flags] <job>",
		Short:             "List the allocations of a job",
		Example:           "  berth job allocs db\n  berth job allocs -t '{{range .}}{{println .ID}}{{end}}' db",
		Args:              kit.Args("job"),
		ValidArgsFunction: completeJobs(e),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := e.Job(cmd.Context(), args[0], kit.Read)
			if err != nil {
				return err
			}
			c, err := e.Client()
			if err != nil {
				return err
			}
			list, _, err := c.Jobs().Allocations(cmd.Context(), ref.ID, all, ref.Query())
			switch {
			case err != nil:
				return kit.Doing(err, "list the allocations of", "job", ref.ID)
			case formats.Wanted():
				return formats.Print(e.Out, list)
			case len(list) == 0:
				e.Out.Printf("No allocations\n")
			default:
				e.Out.Table(allocHeader(verbose), allocRows(list, verbose))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "those of earlier jobs of the same id, too")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids and absolute times")
	formats.AddTo(cmd)
	return cmd
}
