package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template/parse"

	"berth/internal/base/fault"
)

// foreign are functions that templates of other systems use, with what they read.
var foreign = map[string]string{
	"caLeaf":           "Consul",
	"caRoots":          "Consul",
	"datacenters":      "Consul",
	"file":             "files of the node",
	"key":              "Consul",
	"keyExists":        "Consul",
	"keyOrDefault":     "Consul",
	"ls":               "Consul",
	"node":             "Consul",
	"nodes":            "Consul",
	"nomadService":     "services",
	"nomadServices":    "services",
	"nomadVar":         "variables",
	"nomadVarExists":   "variables",
	"nomadVarList":     "variables",
	"nomadVarListSafe": "variables",
	"pkiCert":          "Vault",
	"safeLs":           "Consul",
	"safeTree":         "Consul",
	"secret":           "Vault",
	"secrets":          "Vault",
	"service":          "Consul",
	"services":         "Consul",
	"tree":             "Consul",
}

// Check refuses a template that no rendering can make right: its form is wrong, or it uses functions that there are
// not, which it names all at once. It runs nothing of it.
func Check(t Template) error {
	tree := parse.New(t.Name)
	tree.Mode = parse.SkipFuncCheck
	set := map[string]*parse.Tree{}
	if _, err := tree.Parse(t.Text, t.Left, t.Right, set); err != nil {
		return fault.Wrap(err, fault.Invalid, "parse", t.Name)
	}
	known := append(Names(), "break", "continue")
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(set)) {
		for _, id := range identifiers(set[name].Root) {
			if slices.Contains(known, id.Ident) {
				continue
			}
			known = append(known, id.Ident) // once is enough
			place, _ := set[name].ErrorContext(id)
			errs = append(errs, missing(t.Name, strings.TrimPrefix(place, t.Name+":"), id.Ident))
		}
	}
	return errors.Join(errs...)
}

// missing says of a function that there is none.
func missing(template, place, function string) error {
	if reads, ok := foreign[function]; ok {
		return fault.WithHint(fault.New(fault.Invalid, "parse", template, fmt.Sprintf(
			"at %s the function %q is not built yet: templates read no %s", place, function, reads)),
			"hand the value over as env of the task, and write {{ env \"NAME\" }}")
	}
	return fault.WithHint(fault.New(fault.Invalid, "parse", template,
		fmt.Sprintf("at %s there is no function %q", place, function)), "there are "+strings.Join(Names(), ", "))
}

// identifiers are the functions that a node and what is below it call.
func identifiers(n parse.Node) (out []*parse.IdentifierNode) {
	branch := func(b *parse.BranchNode) {
		out = append(out, slices.Concat(identifiers(b.Pipe), identifiers(b.List), identifiers(b.ElseList))...)
	}
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, c := range n.Nodes {
				out = append(out, identifiers(c)...)
			}
		}
	case *parse.PipeNode:
		if n != nil {
			for _, c := range n.Cmds {
				out = append(out, identifiers(c)...)
			}
		}
	case *parse.CommandNode:
		for _, c := range n.Args {
			out = append(out, identifiers(c)...)
		}
	case *parse.ActionNode:
		out = identifiers(n.Pipe)
	case *parse.TemplateNode:
		out = identifiers(n.Pipe)
	case *parse.ChainNode:
		out = identifiers(n.Node)
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.IdentifierNode:
		out = append(out, n)
	}
	return out
}
