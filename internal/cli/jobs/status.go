package jobs

import (
	"context"
	"strings"

	"berth/api"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
)

// status is "job status".
type status struct {
	env                              *kit.Env
	short, evals, allAllocs, verbose bool
	formats                          kit.Formats
}

func newStatus(e *kit.Env) *cobra.Command {
	s := &status{env: e}
	cmd := &cobra.Command{
		Use:               "status [flags] [job]",
		Short:             "List jobs, or show one",
		Long:              "Without an argument, lists the jobs. With one, shows how the job stands: its groups, its allocations, and what has no place.",
		Example:           "  berth job status\n  berth job status -verbose db",
		Args:              kit.Args("[job]"),
		ValidArgsFunction: completeJobs(e),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return s.list(cmd.Context())
			}
			return s.show(cmd.Context(), args[0])
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&s.short, "short", false, "only the head")
	fs.BoolVar(&s.evals, "evals", false, "evaluations, too")
	fs.BoolVar(&s.allAllocs, "all-allocs", false, "allocations of earlier jobs of the same id, too")
	fs.BoolVar(&s.verbose, "verbose", false, "whole ids and absolute times")
	s.formats.AddTo(cmd)
	return cmd
}

func (s *status) list(ctx context.Context) error {
	c, err := s.env.Client()
	if err != nil {
		return err
	}
	list, _, err := c.Jobs().List(ctx, nil)
	if err != nil {
		return kit.Doing(err, "list", "jobs", "")
	}
	if s.formats.Wanted() {
		return s.formats.Print(s.env.Out, list)
	}
	if len(list) == 0 {
		s.env.Out.Printf("No jobs\n")
		return nil
	}
	header := []string{"ID", "Type", "Priority", "Status", "Submit Date"}
	if s.env.AllNamespaces() {
		header = append([]string{"ID", "Namespace"}, header[1:]...)
	}
	var rows [][]string
	for _, j := range list {
		row := []string{j.ID}
		if s.env.AllNamespaces() {
			row = append(row, j.Namespace)
		}
		rows = append(rows, append(row, jobType(j.Type, j.Periodic, j.ParameterizedJob), number(j.Priority), jobStatus(j.Status, j.Stop), kit.AtNanos(j.SubmitTime)))
	}
	s.env.Out.Table(header, rows)
	return nil
}

func jobType(kind string, periodic, parameterized bool) string {
	if periodic {
		kind += "/periodic"
	}
	if parameterized {
		kind += "/parameterized"
	}
	return kind
}

func jobStatus(status string, stop bool) string {
	if stop {
		return status + " (stopped)"
	}
	return status
}

// picture is all that is shown of a job.
type picture struct {
	Job         *api.Job
	Summary     *api.JobSummary
	Allocations []*api.AllocationListStub
	Evaluations []*api.Evaluation
}

func (s *status) gather(ctx context.Context, ref kit.Ref) (*picture, error) {
	c, err := s.env.Client()
	if err != nil {
		return nil, err
	}
	var p picture
	if p.Job, _, err = c.Jobs().Get(ctx, ref.ID, ref.Query()); err != nil {
		return nil, kit.Doing(err, "read", "job", ref.ID)
	}
	if s.short && !s.formats.Wanted() {
		return &p, nil
	}
	if p.Summary, _, err = c.Jobs().Summary(ctx, ref.ID, ref.Query()); err != nil {
		return nil, kit.Doing(err, "sum up", "job", ref.ID)
	}
	if p.Allocations, _, err = c.Jobs().Allocations(ctx, ref.ID, s.allAllocs, ref.Query()); err != nil {
		return nil, kit.Doing(err, "list the allocations of", "job", ref.ID)
	}
	if p.Evaluations, _, err = c.Jobs().Evaluations(ctx, ref.ID, ref.Query()); err != nil {
		return nil, kit.Doing(err, "list the evaluations of", "job", ref.ID)
	}
	return &p, nil
}

func (s *status) show(ctx context.Context, arg string) error {
	ref, err := s.env.Job(ctx, arg, kit.Read)
	if err != nil {
		return err
	}
	p, err := s.gather(ctx, ref)
	if err != nil {
		return err
	}
	if s.formats.Wanted() {
		return s.formats.Print(s.env.Out, p)
	}
	out := s.env.Out
	s.head(p.Job)
	if s.short {
		return nil
	}
	out.Section("Summary")
	var rows [][]string
	for _, g := range sortedKeys(p.Summary.Summary) {
		t := p.Summary.Summary[g]
		rows = append(rows, []string{g, number(t.Queued), number(t.Starting), number(t.Running), number(t.Failed), number(t.Complete), number(t.Lost), number(t.Unknown)})
	}
	out.Table([]string{"Task Group", "Queued", "Starting", "Running", "Failed", "Complete", "Lost", "Unknown"}, rows)
	s.evaluations(p.Evaluations)
	out.Section("Allocations")
	if len(p.Allocations) == 0 {
		out.Printf("No allocations\n")
		return nil
	}
	out.Table(allocHeader(s.verbose), allocRows(p.Allocations, s.verbose))
	return nil
}

func (s *status) head(j *api.Job) {
	var l kit.Pairs
	l.Add("ID", kit.Value(j.ID))
	l.Add("Name", kit.Value(j.Name))
	l.Add("Submit Date", kit.AtNanos(kit.Value(j.SubmitTime)))
	l.Add("Type", kit.Value(j.Type))
	l.Add("Priority", number(kit.Value(j.Priority)))
	l.Add("Datacenters", strings.Join(j.Datacenters, ","))
	l.Add("Namespace", kit.Value(j.Namespace))
	l.Add("Node Pool", kit.Value(j.NodePool))
	l.Add("Version", number(kit.Value(j.Version)))
	l.Add("Status", jobStatus(kit.Value(j.Status), kit.Value(j.Stop)))
	l.AddIf("Status Description", kit.Value(j.StatusDescription))
	if j.Periodic != nil {
		l.Add("Periodic", "true")
	}
	if j.ParameterizedJob != nil {
		l.Add("Parameterized", "true")
	}
	s.env.Out.Pairs(l)
}

// evaluations tells what has no place, by the newest evaluation, and lists them all when asked.
func (s *status) evaluations(list []*api.Evaluation) {
	out := s.env.Out
	for _, e := range list {
		if len(e.FailedTGAllocs) > 0 {
			out.Section("Placement Failure")
			follow.Explain(out, "", e.FailedTGAllocs, e.QueuedAllocations, s.verbose)
		}
		if len(e.FailedTGAllocs) > 0 || e.Status == api.EvalStatusComplete {
			break // what came before is of the past
		}
	}
	if !s.evals && !s.verbose {
		return
	}
	out.Section("Evaluations")
	if len(list) == 0 {
		out.Printf("No evaluations\n")
		return
	}
	var rows [][]string
	for _, e := range list {
		rows = append(rows, []string{kit.ID(e.ID, s.verbose), number(e.Priority), e.TriggeredBy, e.Status, kit.Yes(len(e.FailedTGAllocs) > 0)})
	}
	out.Table([]string{"ID", "Priority", "Triggered By", "Status", "Placement Failures"}, rows)
}
