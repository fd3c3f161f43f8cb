package partitions

import (
	"context"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
	"berth/jobspec"
)

// namespaceKind is what a search calls namespaces.
const namespaceKind = "namespaces"

// Namespaces is the noun with its verbs.
func Namespaces(e *kit.Env) *kit.Command {
	return kit.Noun("namespace", "Divide what users have: jobs and volumes", newNamespaceList(e), newNamespaceStatus(e),
		newNamespaceInspect(e), newNamespaceApply(e), newNamespaceDelete(e))
}

func newNamespaceList(e *kit.Env) *kit.Command {
	var formats kit.Formats
	var page kit.Page
	cmd := &kit.Command{
		Use:     "list [flags]",
		Short:   "List the namespaces in which you may do anything",
		Example: "  berth namespace list",
		Run: func(ctx context.Context, _ []string) error {
			list, more, err := e.Client().Cluster().Namespaces(ctx, page.Query())
			return formats.Show(e.Out, list, page.Doing(err, "namespaces"), func() {
				kit.List(e.Out, list, "namespaces", []string{"Name", "Description"}, func(n *api.Namespace) []string {
					return []string{n.Name, n.Description}
				})
				page.More(e, more)
			})
		},
	}
	page.AddTo(cmd)
	return formats.AddTo(cmd)
}

func readNamespace(ctx context.Context, e *kit.Env, name string) (*api.Namespace, error) {
	n, _, err := e.Client().Cluster().Namespace(ctx, name, nil)
	if api.IsNotFound(err) {
		return nil, kit.Fail(fault.NotFound, `"berth namespace list" lists them`, "there is no namespace %q", name)
	}
	return n, kit.Doing(err, "read", "namespace", name)
}

// ShowNamespace shows a namespace, for "status".
func ShowNamespace(ctx context.Context, e *kit.Env, name string) error {
	n, err := readNamespace(ctx, e, name)
	if err == nil {
		showNamespace(e.Out, n)
	}
	return err
}

func showNamespace(p *kit.Printer, n *api.Namespace) {
	l := kit.Pairs{{"Name", n.Name}, {"Description", n.Description}}
	listed := func(key string, names []string) { l.AddIf(key, strings.Join(names, ", ")) }
	if c := n.Capabilities; c != nil {
		listed("Enabled Drivers", c.EnabledTaskDrivers)
		listed("Disabled Drivers", c.DisabledTaskDrivers)
		listed("Enabled Network Modes", c.EnabledNetworkModes)
		listed("Disabled Network Modes", c.DisabledNetworkModes)
	}
	if c := n.NodePoolConfiguration; c != nil {
		l.AddIf("Default Node Pool", c.Default)
		switch {
		case c.Allowed != nil && len(c.Allowed) == 0 && len(c.Denied) == 0:
			l.Add("Allowed Node Pools", "the default one alone")
		default:
			listed("Allowed Node Pools", c.Allowed)
		}
		listed("Denied Node Pools", c.Denied)
	}
	p.Pairs(l)
	meta(p, n.Meta)
}

func newNamespaceStatus(e *kit.Env) *kit.Command {
	var formats kit.Formats
	return formats.AddTo(&kit.Command{
		Use:     "status [flags] <namespace>",
		Short:   "Show a namespace, and what its jobs may use",
		Example: "  berth namespace status default",
		IDs:     namespaceKind,
		Run: func(ctx context.Context, args []string) error {
			n, err := readNamespace(ctx, e, args[0])
			return formats.Show(e.Out, n, err, func() { showNamespace(e.Out, n) })
		},
	})
}

func newNamespaceInspect(e *kit.Env) *kit.Command {
	var formats kit.Formats
	return formats.AddTo(&kit.Command{
		Use:   "inspect [flags] <namespace>",
		Short: "Print a namespace as JSON, as \"berth namespace apply\" takes it",
		Example: `  berth namespace inspect shop > shop.json
  berth namespace inspect -t '{{ .Description }}' shop`,
		IDs: namespaceKind,
		Run: func(ctx context.Context, args []string) error {
			n, err := readNamespace(ctx, e, args[0])
			switch {
			case err != nil:
				return err
			case formats.Wanted():
				return formats.Print(e.Out, n)
			}
			return kit.JSON(e.Out, n)
		},
	})
}

// namespaceFlags are what is said of a namespace without a file.
type namespaceFlags struct {
	given                                                      func(flag string) bool
	description, pool                                          string
	meta, allowed, denied                                      kit.Strings
	drivers, withoutDrivers, networkModes, withoutNetworkModes kit.Strings
}

func (f *namespaceFlags) addTo(cmd *kit.Command) {
	fs := cmd.Flags()
	f.given = fs.Given
	fs.StringVar(&f.description, "description", "", "a `text` that says what it is for")
	fs.Var(&f.meta, "meta", "a `key=value` for it; several times for several")
	fs.StringVar(&f.pool, "default-node-pool", "", "the `pool` of jobs that name none")
	fs.Var(&f.allowed, "allow-node-pool", "a `pool` in which its jobs may run; * stands for any letters")
	fs.Var(&f.denied, "deny-node-pool", "a `pool` in which its jobs may not run; * stands for any letters")
	fs.Var(&f.drivers, "enable-driver", "a `driver` that its tasks may use; the others they may not")
	fs.Var(&f.withoutDrivers, "disable-driver", "a `driver` that its tasks may not use")
	fs.Var(&f.networkModes, "enable-network-mode", "a network `mode` that its groups may use; the others they may not")
	fs.Var(&f.withoutNetworkModes, "disable-network-mode", "a network `mode` that its groups may not use")
}

// any tells that one of them was given.
func (f *namespaceFlags) any() bool {
	lists := slices.Concat(f.meta, f.allowed, f.denied, f.drivers, f.withoutDrivers, f.networkModes,
		f.withoutNetworkModes)
	return f.given("description") || f.given("default-node-pool") || len(lists) > 0
}

// change replaces what the flags name.
func (f *namespaceFlags) change(n *api.Namespace) (err error) {
	if f.given("description") {
		n.Description = f.description
	}
	if n.Meta, err = entries(n.Meta, f.meta); err != nil {
		return err
	}
	if len(slices.Concat(f.drivers, f.withoutDrivers, f.networkModes, f.withoutNetworkModes)) > 0 &&
		n.Capabilities == nil {
		n.Capabilities = &api.NamespaceCapabilities{}
	}
	if f.given("default-node-pool") || len(f.allowed)+len(f.denied) > 0 {
		if n.NodePoolConfiguration == nil {
			n.NodePoolConfiguration = &api.NamespaceNodePoolConfiguration{}
		}
		c := n.NodePoolConfiguration
		if f.given("default-node-pool") {
			c.Default = f.pool
		}
		if len(f.allowed)+len(f.denied) > 0 {
			c.Allowed, c.Denied = named(f.allowed), named(f.denied)
		}
	}
	if c := n.Capabilities; c != nil {
		replace(&c.EnabledTaskDrivers, f.drivers)
		replace(&c.DisabledTaskDrivers, f.withoutDrivers)
		replace(&c.EnabledNetworkModes, f.networkModes)
		replace(&c.DisabledNetworkModes, f.withoutNetworkModes)
	}
	return nil
}

func replace(list *[]string, by kit.Strings) {
	if len(by) > 0 {
		*list = named(by)
	}
}

// named is what a flag names; an empty value names nothing, which takes a rule away.
func named(by kit.Strings) []string {
	list := slices.DeleteFunc(slices.Clone([]string(by)), func(s string) bool { return s == "" })
	if len(list) == 0 {
		return nil
	}
	return list
}

func newNamespaceApply(e *kit.Env) *kit.Command {
	var f namespaceFlags
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "apply [flags] <namespace>",
		Short: "Write a namespace, a new one or in place of the one of this name",
		Long: `The argument is a name or a file. With a name, what the flags say is written: of a namespace that is
there already they replace what they name, and the rest stays; an empty value takes away what was said. With a file
(its name ends in .hcl or .json, or has a folder; - is the standard input) the namespace is what the file says, in HCL
or in JSON as "berth namespace inspect" prints it.

Jobs that run already stay as they are: what a namespace lets its jobs use is asked when one is submitted.`,
		Example: `  berth namespace apply -description "the shop" shop
  berth namespace apply -disable-driver raw_exec -default-node-pool shop shop
  berth namespace apply shop.hcl`,
		IDs: namespaceKind,
		Run: func(ctx context.Context, args []string) error {
			n, err := f.wanted(ctx, e, args[0])
			if err != nil {
				return err
			}
			err = e.Client().Cluster().PutNamespace(ctx, n)
			return written(ctx, e, &formats, err, "namespace", n.Name,
				func(ctx context.Context, name string) (*api.Namespace, error) { return readNamespace(ctx, e, name) })
		},
	}
	f.addTo(cmd)
	return formats.AddTo(cmd)
}

// wanted is the namespace that is asked for.
func (f *namespaceFlags) wanted(ctx context.Context, e *kit.Env, arg string) (*api.Namespace, error) {
	if isFile(arg) {
		if f.any() {
			return nil, kit.Usage("a file says all of a namespace: leave the other flags out, or give its name")
		}
		n, err := parsed(e, arg, "namespace file", jobspec.ParseNamespace)
		if err == nil && n.Name == "" {
			return nil, kit.Fail(fault.Invalid, `write name = "…" at its top`, "the file names no namespace")
		}
		return n, err
	}
	n, _, err := e.Client().Cluster().Namespace(ctx, arg, nil)
	switch {
	case api.IsNotFound(err):
		n = &api.Namespace{Name: arg}
	case err != nil:
		return nil, kit.Doing(err, "read", "namespace", arg)
	}
	return n, f.change(n)
}

func newNamespaceDelete(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:   "delete <namespace>",
		Short: "Delete a namespace in which nothing is left",
		Long: `Refused while something is in it: a job that is not over, an allocation that may run, a volume, a
snapshot or a claim; the refusal names it, and what to do. What it remembers of jobs that are over goes with it. The
namespaces default and berth stay.`,
		Example: "  berth namespace delete shop",
		IDs:     namespaceKind,
		Run: func(ctx context.Context, args []string) error {
			return deleted(e, e.Client().Cluster().DeleteNamespace(ctx, args[0]), "namespace", args[0])
		},
	}
}
