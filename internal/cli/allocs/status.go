package allocs

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/cli/devices"
	"berth/internal/cli/kit"
	"berth/internal/cli/rollout"
)

// status is "alloc status".
type status struct {
	env                   *kit.Env
	short, stats, verbose bool
	formats               kit.Formats
}

func newStatus(e *kit.Env) *kit.Command {
	s := &status{env: e}
	cmd := &kit.Command{
		Use:   "status [flags] <alloc>",
		Short: "Show an allocation",
		Long:  "Shows how an allocation stands: its tasks and their last events, its ports, and where its volumes are.",
		Example: `  berth alloc status 4ff1d9c5
  berth alloc status -verbose -stats 4ff1d9c5`,
		IDs: "allocs",
		Run: func(ctx context.Context, args []string) error { return s.do(ctx, args[0]) },
	}
	cmd.Flags().BoolVar(&s.short, "short", false, "one line per task")
	cmd.Flags().BoolVar(&s.stats, "stats", false, "what the tasks use now, too")
	cmd.Flags().BoolVar(&s.verbose, "verbose", false, "whole ids and absolute times, and how the node was chosen")
	return s.formats.AddTo(cmd)
}

func (s *status) do(ctx context.Context, arg string) error {
	a, err := (&target{env: s.env}).find(ctx, arg, kit.Read)
	if err != nil {
		return err
	}
	if s.formats.Wanted() {
		return s.formats.Print(s.env.Out, a)
	}
	s.head(a)
	s.ports(a)
	s.checks(ctx, a)
	s.consul(ctx, a)
	s.storage(a)
	if s.short {
		s.taskLines(a)
		return nil
	}
	var usage *api.AllocResourceUsage
	if s.stats || s.verbose {
		usage = s.usage(ctx, a)
	}
	for _, name := range taskOrder(a) {
		s.task(a, name, usage)
	}
	if s.verbose {
		s.placement(a.Metrics)
	}
	return nil
}

// taskOrder is every task that there is something to say about.
func taskOrder(a *api.Allocation) []string {
	out := tasksOf(a)
	for name := range a.TaskStates {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// usage asks the node; that it cannot say is no reason to show nothing.
func (s *status) usage(ctx context.Context, a *api.Allocation) *api.AllocResourceUsage {
	if a.ClientStatus != api.AllocClientStatusRunning {
		return nil
	}
	out, err := s.env.Client().Allocations().Stats(ctx, a.ID, query(a))
	if err != nil {
		s.env.Err.Notice("The node does not say what the tasks use: " + kit.OneSentence(err.Error()))
		return nil
	}
	return out
}

// checks shows what the checks of the alloc's services found; that the node cannot say is no reason to show nothing.
func (s *status) checks(ctx context.Context, a *api.Allocation) {
	if !hasServices(a) || a.ClientStatus != api.AllocClientStatusRunning {
		return
	}
	checks, err := s.env.Client().Allocations().Checks(ctx, a.ID, query(a))
	if err != nil {
		s.env.Err.Notice("The node does not say what its checks found: " + kit.OneSentence(err.Error()))
		return
	}
	if len(checks) > 0 {
		s.env.Out.Section("Service Checks")
		showChecks(s.env.Out, checks, false)
	}
}

// consul shows how the alloc's services stand in Consul; that the node cannot say is no reason to show nothing.
func (s *status) consul(ctx context.Context, a *api.Allocation) {
	if !hasServices(a) || a.ClientStatus != api.AllocClientStatusRunning {
		return
	}
	list, err := s.env.Client().Allocations().ConsulServices(ctx, a.ID, query(a))
	if err != nil {
		s.env.Err.Notice("The node does not say how its services stand in Consul: " + kit.OneSentence(err.Error()))
		return
	}
	if len(list) == 0 {
		return
	}
	s.env.Out.Section("Services in Consul")
	header := []string{"Service", "Registered", "Since", "Address", "Tags", "Reason"}
	kit.List(s.env.Out, list, "services", header, func(c *api.ConsulServiceStatus) []string {
		since := "-"
		if c.Since > 0 {
			since = kit.When(time.Unix(c.Since, 0).UnixNano(), s.verbose)
		}
		at := net.JoinHostPort(c.Address, strconv.Itoa(c.Port))
		return []string{c.Service, map[bool]string{true: "yes", false: "no"}[c.Registered], since, at,
			strings.Join(c.Tags, ","), cmp.Or(c.Reason, "-")}
	})
}

func hasServices(a *api.Allocation) bool {
	if a.Job == nil {
		return false
	}
	for _, g := range a.Job.TaskGroups {
		if g.Name != a.TaskGroup {
			continue
		}
		has := func(t *api.Task) bool { return len(t.Services) > 0 }
		return len(g.Services) > 0 || slices.ContainsFunc(g.Tasks, has)
	}
	return false
}

func (s *status) head(a *api.Allocation) {
	var l kit.Pairs
	l.Add("ID", a.ID)
	l.Add("Eval ID", kit.ID(a.EvalID, s.verbose))
	l.Add("Name", a.Name)
	l.Add("Node ID", kit.ID(a.NodeID, s.verbose))
	l.Add("Node Name", a.NodeName)
	l.Add("Namespace", a.Namespace)
	l.Add("Job ID", a.JobID)
	if a.Job != nil {
		l.Add("Job Version", strconv.FormatUint(kit.Value(a.Job.Version), 10))
	}
	l.Add("Client Status", clientStatus(a))
	l.Add("Client Description", a.ClientDescription)
	l.Add("Desired Status", a.DesiredStatus)
	l.Add("Desired Description", a.DesiredDescription)
	l.Add("Created", kit.When(a.CreateTime, s.verbose))
	l.Add("Modified", kit.When(a.ModifyTime, s.verbose))
	l.AddIf("Address", address(a))
	l.AddIf("Health", health(a))
	l.AddIf("Waits", waits(a))
	l.AddIf("Trouble", trouble(a))
	l.AddIf("Previous Alloc ID", kit.ID(a.PreviousAllocation, s.verbose))
	l.AddIf("Replacement Alloc ID", kit.ID(a.NextAllocation, s.verbose))
	l.AddIf("Follow-up Eval ID", kit.ID(a.FollowupEvalID, s.verbose))
	if t := a.RescheduleTracker; t != nil && len(t.Events) > 0 {
		l.Add("Placed Anew",
			fmt.Sprintf("%d times, last at %s", len(t.Events), kit.AtNanos(t.Events[len(t.Events)-1].RescheduleTime)))
	}
	s.env.Out.Pairs(l)
}

// waits is what keeps it from being as it should be, unless its description says that; empty: nothing that is known.
func waits(a *api.Allocation) string {
	if s := a.Standing; s != nil && s.Waits != a.ClientDescription {
		return s.Waits
	}
	return ""
}

// clientStatus is what the node says, with what that leaves open.
func clientStatus(a *api.Allocation) string {
	if p := a.Phase(); p != a.ClientStatus {
		return a.ClientStatus + " (" + p + ")"
	}
	return a.ClientStatus
}

// stub is what the words about an allocation are made of.
func stub(a *api.Allocation) *api.AllocationListStub {
	out := &api.AllocationListStub{
		ID:               a.ID,
		DesiredStatus:    a.DesiredStatus,
		ClientStatus:     a.ClientStatus,
		TaskStates:       a.TaskStates,
		DeploymentStatus: a.DeploymentStatus,
		FollowupEvalID:   a.FollowupEvalID,
		Standing:         a.Standing,
	}
	if a.Job != nil {
		out.JobType = kit.Value(a.Job.Type)
	}
	return out
}

func health(a *api.Allocation) string {
	h := rollout.Health(stub(a))
	if h == rollout.Unhealthy && a.DeploymentStatus.Reason != "" {
		h += ": " + kit.OneSentence(a.DeploymentStatus.Reason)
	}
	return h
}

// address is that of the allocation's own network; empty: it has the node's.
func address(a *api.Allocation) string {
	n := a.NetworkStatus
	if n == nil {
		return ""
	}
	if n.AddressIPv6 != "" {
		return strings.TrimPrefix(n.Address+", "+n.AddressIPv6, ", ")
	}
	return n.Address
}

// trouble is how the task in trouble ended, and when it starts again.
func trouble(a *api.Allocation) string {
	if a.Standing == nil || a.Standing.Trouble == "" {
		return ""
	}
	text := a.Standing.Trouble
	if next := rollout.Restarts(a.Standing, time.Now()); next != "" {
		text += "; " + next
	}
	if task := a.TaskStates[a.Standing.Task]; task != nil && task.StartedAt != nil { // it may have said why
		text += "; see what it wrote with: berth alloc logs -stderr " + kit.ID(a.ID, false) + " " + a.Standing.Task
	}
	return text
}

func (s *status) ports(a *api.Allocation) {
	if a.AllocatedResources == nil {
		return
	}
	static := map[string]bool{}
	if g := groupOf(a); g != nil {
		for _, n := range g.Networks {
			for _, p := range n.ReservedPorts {
				static[p.Label] = true
			}
		}
	}
	kit.Part(s.env.Out, "Allocation Addresses:", a.AllocatedResources.Shared.Ports,
		[]string{"Label", "Dynamic", "Address"}, func(p api.PortMapping) []string {
			to := fmt.Sprintf("%s:%d", p.HostIP, p.Value)
			if p.To > 0 {
				to += fmt.Sprintf(" -> %d", p.To)
			}
			return []string{"*" + p.Label, kit.Yes(!static[p.Label]), to}
		})
}

// storage tells where and how each volume is mounted, and what its mount waits for.
func (s *status) storage(a *api.Allocation) {
	list := slices.Clone(a.Storage)
	if len(list) == 0 {
		if g := groupOf(a); g != nil {
			for alias, v := range g.Volumes {
				list = append(list,
					api.AllocVolume{
						Alias:    alias,
						Volume:   v.Source,
						ReadOnly: v.ReadOnly,
						State:    "nothing is known of it yet",
					})
			}
		}
	}
	slices.SortFunc(list, func(a, b api.AllocVolume) int { return cmp.Compare(a.Alias, b.Alias) })
	header := []string{"Alias", "Volume", "Plugin", "Read Only", "State", "Path"}
	kit.Part(s.env.Out, "Storage:", list, header, func(v api.AllocVolume) []string {
		plugin := v.Plugin
		if s.verbose && v.Provider != "" {
			plugin += " (" + v.Provider + ")"
		}
		state := v.State
		if v.Path != "" {
			state = strings.TrimSuffix(state, " at "+v.Path) // the path has its own column
		}
		return []string{v.Alias, v.Volume, plugin, kit.Yes(v.ReadOnly), state, v.Path}
	})
	for _, v := range list {
		if v.LastError != "" {
			s.env.Out.Printf("%s\n",
				s.env.Out.Red(fmt.Sprintf("Last error of %s: %s", kit.Clean(v.Alias), kit.OneSentence(v.LastError))))
		}
	}
}

func (s *status) taskLines(a *api.Allocation) {
	s.env.Out.Section("Tasks:")
	header := []string{"Name", "State", "Last Event", "Time", "Lifecycle"}
	kit.List(s.env.Out, taskOrder(a), "tasks", header, func(name string) []string {
		row := []string{name, "pending", "", "", lifecycleOf(a, name)}
		if t := a.TaskStates[name]; t != nil {
			row[1] = t.State
			if n := len(t.Events); n > 0 {
				row[2], row[3] = t.Events[n-1].Type, kit.AtNanos(t.Events[n-1].Time)
			}
		}
		return row
	})
}

func lifecycleOf(a *api.Allocation, task string) string {
	if g := groupOf(a); g != nil {
		for _, t := range g.Tasks {
			if t.Name == task && t.Lifecycle != nil {
				return t.Lifecycle.Hook
			}
		}
	}
	return "main"
}

func (s *status) task(a *api.Allocation, name string, usage *api.AllocResourceUsage) {
	out := s.env.Out
	state := "pending"
	t := a.TaskStates[name]
	if t != nil {
		state = t.State
		if t.Failed {
			state += " (failed)"
		}
	}
	out.Section(fmt.Sprintf("Task %q is %q", kit.Clean(name), state))
	s.resources(a, name, usage)
	if t == nil {
		return
	}
	out.Printf("\n%s\n", out.Bold("Task Events:"))
	var l kit.Pairs
	l.Add("Started At", kit.AtPointer(t.StartedAt))
	l.Add("Finished At", kit.AtPointer(t.FinishedAt))
	l.Add("Total Restarts", strconv.FormatUint(t.Restarts, 10))
	l.Add("Last Restart", kit.AtPointer(t.LastRestart))
	out.Pairs(l)
	if len(t.Events) == 0 {
		return
	}
	out.Printf("\n%s\n", out.Bold("Recent Events:"))
	var rows [][]string
	for _, e := range slices.Backward(t.Events) {
		text := e.DisplayMessage
		if text == "" {
			text = e.Message
		}
		rows = append(rows, []string{kit.AtNanos(e.Time), e.Type, text})
	}
	out.Table([]string{"Time", "Type", "Description"}, rows)
}

func (s *status) resources(a *api.Allocation, name string, usage *api.AllocResourceUsage) {
	if a.AllocatedResources == nil || a.AllocatedResources.Tasks[name] == nil {
		return
	}
	r := a.AllocatedResources.Tasks[name]
	cpu, memory := fmt.Sprintf("%d MHz", r.Cpu.CpuShares), kit.Size(r.Memory.MemoryMB<<20)
	if usage != nil && usage.Tasks[name] != nil && usage.Tasks[name].ResourceUsage != nil {
		u := usage.Tasks[name].ResourceUsage
		if u.CpuStats != nil {
			cpu = fmt.Sprintf("%.0f/%s", u.CpuStats.TotalTicks, cpu)
		}
		if u.MemoryStats != nil {
			memory = kit.Size(max(u.MemoryStats.Usage, u.MemoryStats.RSS)) + "/" + memory
		}
	}
	if n := len(r.Cpu.ReservedCores); n > 0 {
		cpu += fmt.Sprintf(" (%s for itself)", kit.Count(n, "core", "cores"))
	}
	if r.Memory.MemoryMaxMB > 0 && r.Memory.MemoryMaxMB != r.Memory.MemoryMB {
		memory += " (at most " + kit.Size(r.Memory.MemoryMaxMB<<20) + ")"
	}
	disk := kit.Size(a.AllocatedResources.Shared.DiskMB << 20)
	if usage != nil && usage.Disk != nil {
		disk = kit.Size(usage.Disk.Used) + "/" + disk + " (shared by the tasks)"
	}
	s.env.Out.Printf("%s\n", s.env.Out.Bold("Task Resources:"))
	s.env.Out.Table([]string{"CPU", "Memory", "Disk"}, [][]string{{cpu, memory, disk}})
	devices.OfTask(s.env.Out, r)
}

// placement shows the scores of the nodes that were considered.
func (s *status) placement(m *api.AllocationMetric) {
	if m == nil || len(m.ScoreMetaData) == 0 {
		return
	}
	var names []string
	for _, d := range m.ScoreMetaData {
		for name := range d.Scores {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	s.env.Out.Section("Placement Metrics")
	var rows [][]string
	for _, d := range m.ScoreMetaData {
		row := []string{d.NodeID}
		for _, name := range names {
			row = append(row, score(d.Scores[name]))
		}
		rows = append(rows, append(row, score(d.NormScore)))
	}
	s.env.Out.Table(append(append([]string{"Node"}, names...), "final score"), rows)
}

// The sum with 0 makes 0 of what is less than nothing by its sign alone.
func score(f float64) string { return strings.TrimSuffix(strconv.FormatFloat(f+0, 'g', 3, 64), ".0") }
