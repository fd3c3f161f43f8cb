package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/acl"
	"berth/internal/cli/allocs"
	"berth/internal/cli/cluster"
	"berth/internal/cli/deployments"
	"berth/internal/cli/events"
	"berth/internal/cli/jobs"
	"berth/internal/cli/kit"
	"berth/internal/cli/partitions"
	"berth/internal/cli/plugintest"
	"berth/internal/cli/scaling"
	"berth/internal/cli/servers"
	"berth/internal/cli/services"
	"berth/internal/cli/setup"
	"berth/internal/cli/variables"
	"berth/internal/cli/volumes"
)

// part makes the commands of the given names.
type part struct {
	names []string
	make  func() []*kit.Command
}

// parts are the nouns, and the verbs that need none.
func parts(e *kit.Env, o Options) []part {
	one := func(name string, noun func() *kit.Command) part {
		return part{[]string{name}, func() []*kit.Command { return []*kit.Command{noun()} }}
	}
	of := func(name string, noun func(*kit.Env) *kit.Command) part {
		return one(name, func() *kit.Command { return noun(e) })
	}
	list := []part{
		of("job", jobs.Noun), of("alloc", allocs.Noun), of("eval", allocs.EvalNoun), of("volume", volumes.Noun),
		one("plugin", func() *kit.Command { return pluginNoun(e, o) }),
		of("acl", acl.Noun), of("service", services.Noun), of("var", variables.Noun),
		of("deployment", deployments.Noun), of("scaling", scaling.Noun), of("event", events.Noun),
		of("status", newStatus), of("completion", newCompletion),
		one("setup", func() *kit.Command { return setup.Noun(e, o.SetUpConsul) }),
		{[]string{"run", "plan", "stop", "validate", "inspect", "fmt"}, func() []*kit.Command {
			return jobs.Shortcuts(e)
		}},
		{[]string{"logs", "fs", "exec"}, func() []*kit.Command { return allocs.Shortcuts(e) }},
		one("node", func() *kit.Command { return cluster.NodeNoun(e, o.Identities) }),
		of("server", servers.Noun), of("system", cluster.SystemNoun), of("namespace", partitions.Namespaces),
		one("operator", func() *kit.Command { return cluster.OperatorNoun(e, o.DataDirs) }),
		{[]string{"agent-info", "monitor", "version"}, func() []*kit.Command { return cluster.Verbs(e) }},
	}
	if o.Agent != nil {
		list = append(list, one("agent", func() *kit.Command {
			return &kit.Command{Use: "agent", Short: "Run an agent: a server, a node, or both"}
		}))
	}
	return list
}

// commands are those of the part that has one of the given name, or all when none has. To make all of them takes a
// tenth of the time that a short command has.
func commands(e *kit.Env, o Options, name string) []*kit.Command {
	all := parts(e, o)
	if i := slices.IndexFunc(all, func(p part) bool { return slices.Contains(p.names, name) }); i >= 0 {
		return all[i].make()
	}
	var list []*kit.Command
	for _, p := range all {
		list = append(list, p.make()...)
	}
	return list
}

func pluginNoun(e *kit.Env, o Options) *kit.Command {
	plugin := volumes.PluginNoun(e)
	for _, name := range slices.Sorted(maps.Keys(o.Plugins)) {
		plugin.Add(&kit.Command{Use: name, Short: "Run the bundled plugin " + name})
	}
	if tests := plugintest.Noun(e, o.PluginTests); tests != nil {
		plugin.Add(tests)
	}
	return plugin
}

// kinds are what "status" can show, by the name that a search gives them.
var kinds = []struct {
	name string
	show func(ctx context.Context, e *kit.Env, id string) error
}{
	{"jobs", jobs.Status}, {"allocs", allocs.Status}, {"nodes", cluster.ShowNode}, {"evals", allocs.EvalStatus},
	{"deployment", deployments.Status}, {"volumes", volumes.Show}, {"plugins", volumes.ShowPlugin},
	{"scaling_policy", scaling.ShowPolicy},
	{"namespaces", partitions.ShowNamespace}, {"node_pools", partitions.ShowNodePool},
}

// few are the kinds of which every cluster has some with short names: what begins like one of them means another kind.
const few = "namespaces node_pools"

func newStatus(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:   "status [flags] [id]",
		Short: "Show anything by the beginning of its id",
		Long: "Without an argument, lists the jobs. With one, finds the job, allocation, node, evaluation, " +
			"deployment, volume, plugin, scaling policy, namespace or node pool whose id begins so, and shows it.",
		Example: `  berth status
  berth status 4ff1d9c5`,
		IDs: "jobs",
		Run: func(ctx context.Context, args []string) error {
			if len(args) == 0 {
				return jobs.Status(ctx, e, "")
			}
			return statusOf(ctx, e, args[0])
		},
	}
}

func statusOf(ctx context.Context, e *kit.Env, id string) error {
	found, err := e.Client().Cluster().Search(ctx, id, "all", nil)
	if err != nil {
		return kit.Doing(err, "search for", "", id)
	}
	var names []string
	var show func(ctx context.Context, e *kit.Env, id string) error
	for _, k := range kinds {
		if slices.Contains(found.Matches[k.name], id) {
			return k.show(ctx, e, id)
		}
		if len(found.Matches[k.name]) > 0 && (len(names) == 0 || !strings.Contains(few, k.name)) {
			names = append(names, k.name)
			show = k.show
		}
	}
	switch len(names) {
	case 0:
		return kit.Fail(fault.NotFound, "", "nothing has an id that begins with %q", id)
	case 1:
		whole := found.Matches[names[0]]
		if !strings.Contains(few, names[0]) {
			return show(ctx, e, id)
		}
		if len(whole) == 1 { // they are shown by their whole names
			return show(ctx, e, whole[0])
		}
	}
	return ambiguous(e, id, found, names)
}

func ambiguous(e *kit.Env, id string, found *api.SearchResponse, names []string) error {
	var rows [][]string
	for _, name := range names {
		for _, match := range found.Matches[name] {
			rows = append(rows, []string{strings.TrimSuffix(name, "s"), match})
		}
	}
	e.Err.Table([]string{"Kind", "ID"}, rows)
	return kit.Fail(fault.Invalid, "write more of the id", "%q could mean each of these", id)
}
