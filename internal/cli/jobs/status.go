package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
	"berth/internal/cli/launches"
	"berth/internal/cli/rollout"
	"berth/internal/cli/services"
)

// status is "job status".
type status struct {
	env                              *kit.Env
	short, evals, allAllocs, verbose bool
	page                             kit.Page
	formats                          kit.Formats
}

func newStatus(e *kit.Env) *kit.Command {
	s := &status{env: e}
	cmd := &kit.Command{
		Use:   "status [flags] [job]",
		Short: "List jobs, or show one",
		Long: "Without an argument, lists the jobs. With one, shows how the job stands: its groups, its " +
			"allocations, and what has no place.",
		Example: "  berth job status\n  berth job status -filter 'Status == \"running\"'\n" +
			"  berth job status -verbose db",
		IDs: "jobs",
		Run: func(ctx context.Context, args []string) error {
			if len(args) == 0 {
				return s.list(ctx)
			}
			return s.show(ctx, args[0])
		},
	}
	s.page.AddTo(cmd)
	fs := cmd.Flags()
	fs.BoolVar(&s.short, "short", false, "only the head")
	fs.BoolVar(&s.evals, "evals", false, "evaluations, too")
	fs.BoolVar(&s.allAllocs, "all-allocs", false, "allocations of earlier jobs of the same id, too")
	fs.BoolVar(&s.verbose, "verbose", false, "whole ids and absolute times")
	return s.formats.AddTo(cmd)
}

func (s *status) list(ctx context.Context) error {
	o := s.page.Query()
	list, meta, err := s.env.Client().Jobs().List(ctx, o)
	if err == nil && len(list) == 0 && o.Filter == "" && o.NextToken == "" && !s.formats.Wanted() {
		defer s.own(ctx)
	}
	return s.formats.Show(s.env.Out, list, s.page.Doing(err, "jobs"), func() {
		header := []string{"ID", "Type", "Priority", "Status", "Submit Date"}
		all := s.env.AllNamespaces()
		if all {
			header = slices.Insert(header, 1, "Namespace")
		}
		kit.List(s.env.Out, list, "jobs", header, func(j *api.JobListStub) []string {
			row := []string{j.ID, jobType(j.Type, j.Periodic, j.ParameterizedJob), number(j.Priority),
				jobStatus(j.Status, j.Stop, nil), kit.AtNanos(j.SubmitTime)}
			if all {
				row = slices.Insert(row, 1, j.Namespace)
			}
			return row
		})
		s.page.More(s.env, meta)
	})
}

// own names, where no job was found, those that Berth runs for itself: they outlive an agent in service as every job
// does, and who takes a node out of service is to end them, too.
func (s *status) own(ctx context.Context) {
	const own = string(ids.ReservedNamespace)
	list, _, err := s.env.Client().Jobs().List(ctx, &api.QueryOptions{Namespace: own})
	if err != nil {
		return // whoever may not read there has nothing to end there
	}
	for _, j := range list {
		if !j.Stop && !s.env.AllNamespaces() {
			s.env.Err.Notice(fmt.Sprintf("Berth's own job %q is %s in namespace %q; to end it, too: berth job stop "+
				"-namespace %s -purge %s", j.ID, j.Status, own, own, j.ID))
		}
	}
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

// jobStatus is the status of a job in words: one that is to stop does not run, though not all of it may have ended.
func jobStatus(status string, stop bool, allocs []*api.AllocationListStub) string {
	phases := map[string]bool{}
	for _, a := range allocs {
		phases[a.Phase()] = true
	}
	switch {
	case !stop:
		return status
	case status != api.JobStatusRunning:
		return status + " (stopped)"
	case phases[api.AllocPhaseReleasing] && !phases[api.AllocPhaseStopping]:
		return "stopped, releasing its storage"
	}
	return "stopping"
}

// picture is all that is shown of a job.
type picture struct {
	Job         *api.Job
	Summary     *api.JobSummary
	Allocations []*api.AllocationListStub
	Evaluations []*api.Evaluation
	Deployment  *api.Deployment
	Entries     []*api.ConsulEntryStatus `json:",omitempty"` // that its gateways need in Consul
}

func (s *status) gather(ctx context.Context, ref kit.Ref) (*picture, error) {
	c := s.env.Client()
	var p picture
	var err error
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
	if p.Deployment, _, err = c.Jobs().Deployment(ctx, ref.ID, ref.Query()); err != nil {
		return nil, kit.Doing(err, "read the deployment of", "job", ref.ID)
	}
	if !gateways(p.Job) {
		return &p, nil
	}
	if p.Entries, err = c.Jobs().ConsulEntries(ctx, ref.ID, ref.Query()); err != nil {
		return nil, kit.Doing(err, "read what the gateways do of", "job", ref.ID)
	}
	return &p, nil
}

// gateways reports whether a job has gateways of Consul's mesh.
func gateways(j *api.Job) bool {
	for _, g := range j.TaskGroups {
		for _, s := range g.Services {
			if s.Connect != nil && s.Connect.Gateway != nil {
				return true
			}
		}
	}
	return false
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
	s.head(p.Job, p.Allocations)
	if s.short {
		return nil
	}
	if launches.Parent(p.Job) {
		return launches.Show(ctx, s.env, p.Job, p.Summary)
	}
	out.Section("Summary")
	out.Table(summary(p))
	r := rollout.Assess(&api.JobRollout{Job: p.Job, Allocations: p.Allocations, Evaluations: p.Evaluations}, time.Now())
	s.orphans(p.Allocations)
	s.health(r)
	s.troubles(ctx, r)
	s.unplaced(r)
	if len(p.Entries) > 0 {
		out.Section("Entries in Consul")
		services.Entries(out, p.Entries, s.verbose)
	}
	s.deployment(p.Deployment)
	s.evaluations(p.Evaluations)
	out.Section("Allocations")
	follow.AllocTable(s.env, p.Allocations, s.verbose)
	return nil
}

// summary counts the allocations of each group. What has ended and still holds its storage is counted apart from what
// runs, when there is any.
func summary(p *picture) (header []string, rows [][]string) {
	releasing, any := map[string]int{}, false
	for _, a := range p.Allocations {
		if a.Phase() == api.AllocPhaseReleasing && a.ClientStatus == api.AllocClientStatusRunning {
			releasing[a.TaskGroup]++
			any = true
		}
	}
	header = []string{"Task Group", "Queued", "Starting", "Running", "Failed", "Complete", "Lost", "Unknown"}
	if any {
		header = append(header, "Releasing")
	}
	for _, g := range sortedKeys(p.Summary.Summary) {
		t, n := p.Summary.Summary[g], releasing[g]
		row := []string{g, number(t.Queued), number(t.Starting), number(max(0, t.Running-n)), number(t.Failed),
			number(t.Complete), number(t.Lost), number(t.Unknown)}
		if any {
			row = append(row, number(n))
		}
		rows = append(rows, row)
	}
	return header, rows
}

func (s *status) head(j *api.Job, allocs []*api.AllocationListStub) {
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
	l.Add("Status", jobStatus(kit.Value(j.Status), kit.Value(j.Stop), allocs))
	l.AddIf("Status Description", kit.Value(j.StatusDescription))
	if j.Periodic != nil {
		l.Add("Periodic", "true")
		if !kit.Value(j.Stop) {
			l.Add("Next Launch", launches.NextText(j))
		}
	}
	if launches.Parent(j) && j.Periodic == nil {
		l.Add("Parameterized", "true")
	}
	l.AddIf("Launched By", kit.Value(j.ParentID))
	s.env.Out.Pairs(l)
}

// health counts the allocations of each group by their health, and says how far an update is.
func (s *status) health(r *rollout.Rollout) {
	if r.Batch() {
		return
	}
	out := s.env.Out
	var rows [][]string
	for _, g := range r.Groups {
		if g.Wanted+len(g.Fresh)+len(g.Old) > 0 {
			counts := []int{g.Wanted, g.Healthy, g.Open, g.Bad, len(g.Old), len(g.Leaving)}
			row := []string{g.Name}
			for _, n := range counts {
				row = append(row, number(n))
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return
	}
	out.Section("Health")
	out.Table([]string{"Task Group", "Desired", "Healthy", "Undecided", "Unhealthy", "Old Version", "Stopping"}, rows)
	for _, g := range r.Groups {
		if text := r.Progress(g); text != "" {
			out.Printf("Group %q: %s\n", kit.Clean(g.Name), out.Yellow(kit.Clean(text)))
		}
	}
}

// orphans names the allocations about which nobody decides: what runs of them is kept until a person does.
func (s *status) orphans(list []*api.AllocationListStub) {
	first := true
	for _, a := range list {
		if !orphaned(a) {
			continue
		}
		if first {
			s.env.Out.Section("Orphans")
			first = false
		}
		s.env.Out.Notice(a.Standing.Orphan)
	}
}

func orphaned(a *api.AllocationListStub) bool { return a.Standing != nil && a.Standing.Orphan != "" }

// shownTroubles bounds of how many allocations in trouble everything is shown.
const shownTroubles = 3

// troubles tells of the allocations that are not well how their tasks ended, what they wrote last and what comes next,
// and what those wait for that wait.
func (s *status) troubles(ctx context.Context, r *rollout.Rollout) {
	out := s.env.Out
	if len(r.Troubles) > 0 {
		out.Section("Troubles")
	}
	f := follow.New(s.env, s.verbose, false)
	for i, t := range r.Troubles {
		if i == shownTroubles {
			out.Printf("and %d more\n", len(r.Troubles)-i)
			break
		}
		out.Printf("Allocation %q: %s\n", kit.ID(t.Alloc.ID, s.verbose), kit.Clean(t.Sentence()))
		f.Stderr(ctx, out, t)
	}
	var waits []string
	now := time.Now()
	for _, g := range r.Groups {
		for _, a := range slices.Concat(g.Fresh, g.Leaving) {
			text := g.Waiting(a, now)
			if a.Phase() == api.AllocPhaseReleasing && len(waits) < shownTroubles {
				if holds := f.Holds(ctx, a); holds != "" {
					text += ": " + holds
				}
			}
			if text != "" && !orphaned(a) {
				waits = append(waits, fmt.Sprintf("Allocation %q %s", kit.ID(a.ID, s.verbose), text))
			}
		}
	}
	if len(waits) == 0 {
		return
	}
	out.Section("Waiting")
	for _, w := range waits {
		out.Printf("%s\n", kit.Clean(w))
	}
}

// unplaced tells what has no place.
func (s *status) unplaced(r *rollout.Rollout) {
	for _, e := range r.Unplaced {
		s.env.Out.Section("Placement Failure")
		follow.Explain(s.env.Out, "", e.FailedTGAllocs, e.QueuedAllocations, s.verbose)
	}
}

// deployment shows the newest deployment, if there is any.
func (s *status) deployment(d *api.Deployment) {
	if d == nil {
		return
	}
	out := s.env.Out
	out.Section("Latest Deployment")
	l := kit.Pairs{
		{"ID", kit.ID(d.ID, s.verbose)},
		{"Status", d.Status},
		{"Description", d.StatusDescription},
	}
	l.AddIf("To Go On", follow.WayOn(d))
	out.Pairs(l)
	out.Section("Deployed")
	follow.DeploymentGroups(out, d)
}

// evaluations lists the evaluations when asked.
func (s *status) evaluations(list []*api.Evaluation) {
	out := s.env.Out
	if !s.evals && !s.verbose {
		return
	}
	out.Section("Evaluations")
	kit.List(out, list, "evaluations", []string{"ID", "Priority", "Triggered By", "Status", "Placement Failures"},
		func(e *api.Evaluation) []string {
			return []string{kit.ID(e.ID, s.verbose), number(e.Priority), e.TriggeredBy, e.Status,
				kit.Yes(len(e.FailedTGAllocs) > 0)}
		})
}
