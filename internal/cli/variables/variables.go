// Package variables owns the commands about variables and their locks.
package variables

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/cli/kit"
)

// Noun is the noun with its verbs.
func Noun(e *kit.Env) *kit.Command {
	return kit.Noun("var", "Keep values for jobs to read, and take locks", newInit(e), newGet(e), newPut(e), newList(e),
		newPurge(e), newLock(e))
}

// Forms in which a variable is printed.
const (
	asTable    = "table"
	asJSON     = "json"
	asHCL      = "hcl"
	asTemplate = "go-template"
	asNothing  = "none"
)

// printing is how a variable is printed.
type printing struct {
	formats kit.Formats
	out     string
}

func (p *printing) addTo(cmd *kit.Command, usual string) *kit.Command {
	cmd.Flags().StringVar(&p.out, "out", usual, "print it as table, hcl, json, go-template (with -t) or none: a `form`")
	return p.formats.AddTo(cmd)
}

func (p *printing) show(e *kit.Env, v *api.Variable) error {
	switch {
	case p.formats.Wanted():
		return p.formats.Print(e.Out, v)
	case p.out == asTable:
		showTable(e, v)
	case p.out == asJSON:
		return kit.JSON(e.Out, v)
	case p.out == asHCL:
		e.Out.Text(toHCL(v))
	case p.out == asTemplate:
		return kit.Usage("-out go-template needs the template: -t '{{ .Items.name }}'")
	case p.out != asNothing:
		return kit.Usage("-out has to be table, hcl, json, go-template or none, is %q", p.out)
	}
	return nil
}

func showTable(e *kit.Env, v *api.Variable) {
	l := kit.Pairs{{"Namespace", v.Namespace}, {"Path", v.Path}}
	l.Add("Create Time", kit.AtNanos(v.CreateTime))
	if v.ModifyIndex != v.CreateIndex {
		l.Add("Modify Time", kit.AtNanos(v.ModifyTime))
	}
	l.Add("Check Index", fmt.Sprint(v.ModifyIndex))
	if v.Lock != nil {
		l.Add("Lock", fmt.Sprintf("%s (TTL %s, delay %s)", cmp.Or(v.Lock.ID, "held"), v.Lock.TTL, v.Lock.LockDelay))
	}
	e.Out.Pairs(l)
	e.Out.Section("Items")
	var items kit.Pairs
	for _, k := range slices.Sorted(maps.Keys(v.Items)) {
		items.Add(k, v.Items[k])
	}
	e.Out.Pairs(items)
}

// notFound says that nothing is at a path, by which clients of this API know it.
func notFound(err error, path string) error {
	if api.IsNotFound(err) {
		return kit.Fail(fault.NotFound, `"berth var list" lists those that you may list`, "Variable not found: %q",
			path)
	}
	return kit.Doing(err, "read", "variable", path)
}

func newGet(e *kit.Env) *kit.Command {
	var p printing
	item := ""
	cmd := &kit.Command{
		Use:   "get [flags] <path>",
		Short: "Show a variable with what it holds",
		Example: `  berth var get app/db
  berth var get -item password app/db
  berth var get -out json app/db`,
		Run: func(ctx context.Context, args []string) error {
			v, _, err := e.Client().Variables().Get(ctx, args[0], nil)
			if err != nil {
				return notFound(err, args[0])
			}
			if item == "" {
				return p.show(e, v)
			}
			value, there := v.Items[item]
			if !there {
				return kit.Fail(fault.NotFound, "it has "+strings.Join(slices.Sorted(maps.Keys(v.Items)), ", "),
					"variable %q has no item %q", args[0], item)
			}
			e.Out.Text(value)
			return nil
		},
	}
	cmd.Flags().StringVar(&item, "item", "", "print the value of this `item` alone, as it is")
	return p.addTo(cmd, asTable)
}

func newList(e *kit.Env) *kit.Command {
	var formats kit.Formats
	var page kit.Page
	prefix := ""
	cmd := &kit.Command{
		Use:   "list [flags] [prefix]",
		Short: "List the variables that you may list, by the beginning of their paths",
		Example: `  berth var list
  berth var list app/
  berth var list -namespace '*'`,
		Run: func(ctx context.Context, args []string) error {
			q := page.Query()
			q.Prefix = prefix
			if len(args) > 0 {
				q.Prefix = args[0]
			}
			list, more, err := e.Client().Variables().List(ctx, q)
			return formats.Show(e.Out, list, page.Doing(err, "variables"), func() {
				showList(e, list)
				page.More(e, more)
			})
		},
	}
	page.AddTo(cmd)
	cmd.Flags().StringVar(&prefix, "prefix", "", "those whose paths begin with this `text`")
	return formats.AddTo(cmd)
}

func showList(e *kit.Env, list []*api.VariableMetadata) {
	kit.List(e.Out, list, "variables", []string{"Namespace", "Path", "Last Updated", "Locked"},
		func(v *api.VariableMetadata) []string {
			return []string{v.Namespace, v.Path, kit.AtNanos(v.ModifyTime), kit.Yes(v.Lock != nil)}
		})
}

func newPurge(e *kit.Env) *kit.Command {
	check := checking{flag: -1}
	cmd := &kit.Command{
		Use:   "purge [flags] <path>",
		Short: "Delete a variable with what it holds",
		Long: `Deletes the variable at a path. With -check-index, only if nobody has written it since it had that index.
One that is locked is not deleted.`,
		Example: `  berth var purge app/db
  berth var purge -check-index 187 app/db`,
		Run: func(ctx context.Context, args []string) error {
			// Whoever may delete it may not be one who may read it: then nobody can say that there is none.
			if _, _, err := e.Client().Variables().Get(ctx, args[0], nil); api.IsNotFound(err) && check.flag <= 0 {
				return notFound(err, args[0])
			}
			if err := e.Client().Variables().Delete(ctx, args[0], check.index(), nil); err != nil {
				return check.refused(err, "delete", args[0])
			}
			e.Out.Printf("Variable %q deleted\n", args[0])
			return nil
		},
	}
	cmd.Flags().Int64Var(&check.flag, "check-index", -1, "only if it has this `index`; 0: if there is none")
	return cmd
}

// checking is the index that a variable has to have.
type checking struct{ flag int64 }

func (c *checking) index() *uint64 {
	if c.flag < 0 {
		return nil
	}
	n := uint64(c.flag)
	return &n
}

// refused explains what a write has met.
func (c *checking) refused(err error, doing, path string) error {
	var met *api.VariableConflict
	if !errors.As(err, &met) {
		return kit.Doing(err, doing, "variable", path)
	}
	if met.Found.Lock != nil {
		return kit.Fail(fault.Conflict, "wait until whoever holds its lock releases it",
			"variable %q is locked: nothing was changed", path)
	}
	if met.Found.ModifyIndex == 0 {
		return kit.Fail(fault.Conflict, "look at what there is: berth var list",
			"Check-and-Set conflict: nothing was changed: there is no variable %q; the index that was given is %d",
			path, c.flag)
	}
	typed := ids.Typed(ids.Namespace(met.Found.Namespace), path)
	given := "no index was given"
	if c.flag >= 0 {
		given = fmt.Sprintf("the index that was given is %d", c.flag)
	}
	return kit.Fail(fault.Conflict,
		fmt.Sprintf("look at it: berth var get %s; then write with -check-index %d, or over whatever is there with "+
			"-force", typed, met.Found.ModifyIndex),
		"Check-and-Set conflict: nothing was changed: variable %q is at index %d since %s; %s", path,
		met.Found.ModifyIndex, kit.AtNanos(met.Found.ModifyTime), given)
}

// toHCL writes a variable as "var put" reads it.
func toHCL(v *api.Variable) string {
	var b strings.Builder
	quoted := func(s string) string {
		text, _ := json.Marshal(s) // a string can always be written
		return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(text))
	}
	fmt.Fprintf(&b, "namespace = %s\npath      = %s\n\n", quoted(v.Namespace), quoted(v.Path))
	if v.ModifyIndex > 0 {
		fmt.Fprintf(&b, "# to be written only over this version of it\nmodify_index = %d\n\n", v.ModifyIndex)
	}
	b.WriteString("items = {\n")
	for _, k := range slices.Sorted(maps.Keys(v.Items)) {
		fmt.Fprintf(&b, "  %s = %s\n", quoted(k), quoted(v.Items[k]))
	}
	b.WriteString("}\n")
	return b.String()
}
