package validate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/render"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/partition"
	"berth/internal/model/workload"
	"berth/internal/server/partitions"
	"berth/internal/server/state"
)

// signals is the attribute of a node that lists, with commas between, the signals that its tasks can be sent.
const signals = "os.signals"

// runnable refuses what no try on any node that is known can make right: templates, environments, options of drivers,
// users, signals.
func runnable(f fleet, j *job.Job, g *job.TaskGroup, t *job.Task) error {
	subject := fmt.Sprintf("job %q: group %q: task %q", j.ID, g.Name, t.Name)
	var errs []error
	for i, tmpl := range t.Templates {
		err := render.Check(render.Template{
			Name:  fmt.Sprintf("template %d (%q)", i+1, tmpl.DestPath),
			Text:  tmpl.EmbeddedTmpl,
			Left:  tmpl.LeftDelim,
			Right: tmpl.RightDelim,
		})
		for _, one := range Each(err) {
			errs = append(errs, fault.Note(one, "register", subject))
		}
	}
	for _, one := range slices.Concat(Each(t.CheckEnv()), f.takes(t.Driver, t.Config), f.unpermitted(t)) {
		errs = append(errs, fault.Note(one, "register", subject))
	}
	// What the node parts of storage plugins may do is decided otherwise.
	if (t.CSIPluginConfig == nil || !t.CSIPluginConfig.NodeRole()) && f.denies(t.Driver, t.User) {
		what := fmt.Sprintf("user %q: no ready node with the driver %q lets a task run as it", t.User, t.Driver)
		errs = append(errs, fault.WithHint(fault.New(fault.Invalid, "register", subject, what),
			"name another user in the task, or leave it out; who runs the agents allows it by denied_users and "+
				"denied_host_uids in their plugin "+strconv.Quote(t.Driver)+" block"))
	}
	wanted := []string{t.KillSignal}
	for _, tmpl := range t.Templates {
		wanted = append(wanted, tmpl.ChangeSignal)
	}
	for _, id := range workload.Shown(g, t) {
		wanted = append(wanted, id.ChangeSignal)
	}
	if known := listed(f.s, t.Driver, signals); known != nil {
		for _, name := range wanted {
			if name != "" && !slices.Contains(known, strings.ToUpper(name)) {
				errs = append(errs, fault.WithHint(fault.New(fault.Invalid, "register", subject,
					fmt.Sprintf("there is no signal %q", name)), "there are "+strings.Join(known, ", ")))
			}
		}
	}
	return errors.Join(errs...)
}

// listed is what the ready nodes with a driver have in an attribute that is a list, taken together. Nil: there is no
// such node, or one that does not say.
func listed(s *state.Snap, driver, name string) []string {
	var all []string
	for n := range readyWith(s, driver) {
		list := attribute(n, driver, name)
		if list == "" {
			return nil
		}
		all = append(all, strings.Split(list, ",")...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// attribute is one that a node or a driver of it has.
func attribute(n *node.Node, driver, name string) string {
	return cmp.Or(n.Attributes[name], n.Drivers[driver].Attributes[name])
}

// readyWith are the ready nodes with a healthy driver.
func readyWith(s *state.Snap, driver string) func(yield func(*node.Node) bool) {
	return func(yield func(*node.Node) bool) {
		for n := range s.Nodes(nil, "") {
			if d := n.Drivers[driver]; n.Ready() && d != nil && d.Detected && d.Healthy && !yield(n) {
				return
			}
		}
	}
}

// present names the drivers that ready nodes have, for those who asked for another.
func present(s *state.Snap) string {
	have := map[string]bool{}
	for n := range s.Nodes(nil, "") {
		for name, d := range n.Drivers {
			if n.Ready() && d.Detected && d.Healthy {
				have[name] = true
			}
		}
	}
	if len(have) == 0 {
		return ""
	}
	return " (ready nodes have " + strings.Join(slices.Sorted(maps.Keys(have)), " and ") + ")"
}

// poolless warns of a pool that no node is in.
func poolless(s *state.Snap, j *job.Job) string {
	pool := node.PoolOf(j.NodePool)
	if pool == partition.AllPool || !partitions.HasPool(s, pool) { // then it is refused
		return ""
	}
	pools := map[string]bool{}
	for n := range s.Nodes(nil, "") {
		pools[node.PoolOf(n.NodePool)] = true
	}
	if len(pools) == 0 || pools[pool] {
		return ""
	}
	return fmt.Sprintf("no node is in the pool %q of the job; it waits until one is (nodes are in %s; write one of "+
		"these as node_pool, or give a node this one, in the client block of its agent's configuration)", pool,
		partitions.Names(slices.Sorted(maps.Keys(pools))))
}
