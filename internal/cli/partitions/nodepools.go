package partitions

import (
	"context"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
	"berth/jobspec"
)

// poolKind is what a search calls node pools.
const poolKind = "node_pools"

// NodePools is the noun beneath "node" with its verbs.
func NodePools(e *kit.Env) *kit.Command {
	return kit.Noun("pool", "Divide the nodes", newPoolList(e), newPoolInfo(e), newPoolInit(e), newPoolApply(e),
		newPoolDelete(e), newPoolJobs(e), newPoolNodes(e))
}

func newPoolList(e *kit.Env) *kit.Command {
	var formats kit.Formats
	var page kit.Page
	cmd := &kit.Command{
		Use:     "list [flags]",
		Short:   "List the node pools",
		Example: "  berth node pool list",
		Run: func(ctx context.Context, _ []string) error {
			list, more, err := e.Client().Cluster().NodePools(ctx, page.Query())
			return formats.Show(e.Out, list, page.Doing(err, "node pools"), func() {
				kit.List(e.Out, list, "node pools", []string{"Name", "Description"}, func(p *api.NodePool) []string {
					return []string{p.Name, p.Description}
				})
				page.More(e, more)
			})
		},
	}
	page.AddTo(cmd)
	return formats.AddTo(cmd)
}

func readPool(ctx context.Context, e *kit.Env, name string) (*api.NodePool, error) {
	p, _, err := e.Client().Cluster().NodePool(ctx, name, nil)
	if api.IsNotFound(err) {
		return nil, kit.Fail(fault.NotFound, `"berth node pool list" lists them`, "there is no node pool %q", name)
	}
	return p, kit.Doing(err, "read", "node pool", name)
}

// ShowNodePool shows a node pool, for "status".
func ShowNodePool(ctx context.Context, e *kit.Env, name string) error {
	p, err := readPool(ctx, e, name)
	if err == nil {
		showPool(e.Out, p)
	}
	return err
}

func showPool(out *kit.Printer, p *api.NodePool) {
	out.Pairs(kit.Pairs{{"Name", p.Name}, {"Description", p.Description}})
	meta(out, p.Meta)
}

func newPoolInfo(e *kit.Env) *kit.Command {
	var formats kit.Formats
	return formats.AddTo(&kit.Command{
		Use:     "info [flags] <pool>",
		Short:   "Show a node pool",
		Example: "  berth node pool info default",
		IDs:     poolKind,
		Run: func(ctx context.Context, args []string) error {
			p, err := readPool(ctx, e, args[0])
			return formats.Show(e.Out, p, err, func() { showPool(e.Out, p) })
		},
	})
}

const poolSample = `node_pool "gpu" {
  description = "nodes with accelerators"

  # meta {
  #   owner = "research"
  # }
}
`

func newPoolInit(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:     "init [file]",
		Short:   "Write a node pool file to start from",
		Long:    "Writes a file, pool.hcl unless another name is given. A file that is there is left alone.",
		Example: "  berth node pool init",
		Local:   true,
		Run: func(_ context.Context, args []string) error {
			name := "pool.hcl"
			if len(args) > 0 {
				name = args[0]
			}
			return newFile(e, name, poolSample)
		},
	}
}

func newPoolApply(e *kit.Env) *kit.Command {
	var description string
	var entry kit.Strings
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "apply [flags] <pool>",
		Short: "Write a node pool, a new one or in place of the one of this name",
		Long: `The argument is a name or a file. With a name, what the flags say is written: of a pool that is there
already they replace what they name, and the rest stays. With a file (its name ends in .hcl or .json, or has a folder; -
is the standard input) the pool is what the file says, in HCL or in JSON as the API shows it.

A node is in the pool that node_pool names in the client block of its agent's configuration; one that is not there is
made when the node registers.`,
		Example: `  berth node pool apply -description "nodes with accelerators" gpu
  berth node pool apply pool.hcl`,
		IDs: poolKind,
		Run: func(ctx context.Context, args []string) error {
			p, err := wantedPool(ctx, e, args[0], description, entry)
			if err != nil {
				return err
			}
			err = e.Client().Cluster().PutNodePool(ctx, p)
			return written(ctx, e, &formats, err, "node pool", p.Name,
				func(ctx context.Context, name string) (*api.NodePool, error) { return readPool(ctx, e, name) })
		},
	}
	cmd.Flags().StringVar(&description, "description", "", "a `text` that says what it is for")
	cmd.Flags().Var(&entry, "meta", "a `key=value` for it; several times for several")
	return formats.AddTo(cmd)
}

// wantedPool is the pool that is asked for.
func wantedPool(
	ctx context.Context, e *kit.Env, arg, description string, entry kit.Strings,
) (*api.NodePool, error) {
	if isFile(arg) {
		if description != "" || len(entry) > 0 {
			return nil, kit.Usage("a file says all of a node pool: leave the other flags out, or give its name")
		}
		p, err := parsed(e, arg, "node pool file", jobspec.ParseNodePool)
		if err == nil && p.Name == "" {
			return nil, kit.Fail(fault.Invalid, "write its Name", "the file names no node pool")
		}
		return p, err
	}
	p, _, err := e.Client().Cluster().NodePool(ctx, arg, nil)
	switch {
	case api.IsNotFound(err):
		p = &api.NodePool{Name: arg}
	case err != nil:
		return nil, kit.Doing(err, "read", "node pool", arg)
	}
	if description != "" {
		p.Description = description
	}
	p.Meta, err = entries(p.Meta, entry)
	return p, err
}

func newPoolDelete(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:   "delete <pool>",
		Short: "Delete a node pool that nothing names",
		Long: `Refused while a node, a job that is not over, or a namespace as its default names it; the refusal says
which. The pools all and default stay.`,
		Example: "  berth node pool delete gpu",
		IDs:     poolKind,
		Run: func(ctx context.Context, args []string) error {
			return deleted(e, e.Client().Cluster().DeleteNodePool(ctx, args[0]), "node pool", args[0])
		},
	}
}

// members lists what is in a pool.
func members[T any](
	e *kit.Env, cmd *kit.Command, what string, header []string, row func(T) []string,
	read func(context.Context, string, *api.QueryOptions) ([]T, *api.QueryMeta, error),
) *kit.Command {
	var formats kit.Formats
	var page kit.Page
	cmd.IDs = poolKind
	cmd.Run = func(ctx context.Context, args []string) error {
		if _, err := readPool(ctx, e, args[0]); err != nil {
			return err
		}
		list, more, err := read(ctx, args[0], page.Query())
		return formats.Show(e.Out, list, page.Doing(err, what), func() {
			kit.List(e.Out, list, what, header, row)
			page.More(e, more)
		})
	}
	page.AddTo(cmd)
	return formats.AddTo(cmd)
}

func newPoolJobs(e *kit.Env) *kit.Command {
	return members(e, &kit.Command{
		Use:   "jobs [flags] <pool>",
		Short: "List the jobs that ask for a node pool",
		Long:  "Lists those of one namespace; with -namespace '*' those of all.",
		Example: `  berth node pool jobs gpu
  berth -namespace '*' node pool jobs gpu`,
	}, "jobs", []string{"ID", "Namespace", "Type", "Status"}, func(j *api.JobListStub) []string {
		return []string{j.ID, j.Namespace, j.Type, j.Status}
	}, func(ctx context.Context, pool string, o *api.QueryOptions) ([]*api.JobListStub, *api.QueryMeta, error) {
		return e.Client().Cluster().NodePoolJobs(ctx, pool, o)
	})
}

func newPoolNodes(e *kit.Env) *kit.Command {
	return members(e, &kit.Command{
		Use:     "nodes [flags] <pool>",
		Short:   "List the nodes of a node pool",
		Example: "  berth node pool nodes gpu",
	}, "nodes", []string{"ID", "Name", "DC", "Class", "Eligibility", "Status"}, func(n *api.NodeListStub) []string {
		return []string{kit.ID(n.ID, false), n.Name, n.Datacenter, n.NodeClass, n.SchedulingEligibility, n.Status}
	}, func(ctx context.Context, pool string, o *api.QueryOptions) ([]*api.NodeListStub, *api.QueryMeta, error) {
		return e.Client().Cluster().NodePoolNodes(ctx, pool, o)
	})
}
