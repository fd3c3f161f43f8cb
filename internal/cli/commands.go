package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/allocs"
	"berth/internal/cli/cluster"
	"berth/internal/cli/jobs"
	"berth/internal/cli/kit"
	"berth/internal/cli/volumes"

	"github.com/spf13/cobra"
)

// commands are the nouns, and the verbs that need none.
func commands(e *kit.Env, o Options) []*cobra.Command {
	plugin := volumes.PluginNoun(e)
	for _, name := range slices.Sorted(keys(o.Plugins)) {
		plugin.AddCommand(&cobra.Command{Use: name, Short: "Run the bundled plugin " + name, DisableFlagParsing: true})
	}
	list := []*cobra.Command{jobs.Noun(e), allocs.Noun(e), allocs.EvalNoun(e), volumes.Noun(e), plugin, newStatus(e)}
	list = append(list, jobs.Shortcuts(e)...)
	list = append(list, allocs.Shortcuts(e)...)
	list = append(list, cluster.Commands(e)...)
	if o.Agent != nil {
		list = append(list, &cobra.Command{Use: "agent", Short: "Run an agent: a server, a node, or both", DisableFlagParsing: true})
	}
	return list
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// kinds are what "status" can show, by the name that a search gives them.
var kinds = []struct {
	name string
	show func(ctx context.Context, e *kit.Env, id string) error
}{
	{"jobs", jobs.Status}, {"allocs", allocs.Status}, {"nodes", cluster.ShowNode}, {"evals", allocs.EvalStatus},
	{"volumes", volumes.Show}, {"plugins", volumes.ShowPlugin},
}

func newStatus(e *kit.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "status [flags] [id]",
		Short: "Show anything by the beginning of its id",
		Long:  "Without an argument, lists the jobs. With one, finds the job, allocation, node, evaluation, volume or plugin whose id begins so, and shows it.",
		Example: `  berth status
  berth status 4ff1d9c5`,
		Args:              kit.Args("[id]"),
		ValidArgsFunction: e.Complete("jobs"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return jobs.Status(cmd.Context(), e, "")
			}
			return statusOf(cmd.Context(), e, args[0])
		},
	}
}

func statusOf(ctx context.Context, e *kit.Env, id string) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	found, err := c.Cluster().Search(ctx, id, "all", nil)
	if err != nil {
		return kit.Doing(err, "search for", "", id)
	}
	names := []string{}
	for _, k := range kinds {
		if slices.Contains(found.Matches[k.name], id) {
			return k.show(ctx, e, id)
		}
		if len(found.Matches[k.name]) > 0 {
			names = append(names, k.name)
		}
	}
	switch len(names) {
	case 0:
		return fault.New(fault.NotFound, "", "", fmt.Sprintf("nothing has an id that begins with %q", id))
	case 1:
		for _, k := range kinds {
			if k.name == names[0] {
				return k.show(ctx, e, id)
			}
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
	return fault.WithHint(fault.New(fault.Invalid, "", "", fmt.Sprintf("%q could mean each of these", id)), "write more of the id")
}
