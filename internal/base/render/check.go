package render

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"berth/internal/base/fault"
)

// foreign are functions that templates of other systems use, with what they read.
var foreign = map[string]string{
	"caLeaf":      "certificates of Consul",
	"caRoots":     "certificates of Consul",
	"connect":     "proxies of Consul",
	"datacenters": "datacenters of Consul",
	"node":        "nodes of Consul",
	"nodes":       "nodes of Consul",
	"pkiCert":     "Vault",
	"secret":      "Vault",
	"secrets":     "Vault",
}

// Bounds of a template's text. The parser calls itself for each control structure in another, and has no bound of its
// own: a stack that overflows ends the process, whatever asked for it.
const (
	// maxText is in bytes. Templates are configuration: what is larger belongs into an image or a volume.
	maxText = 1 << 20
	// maxControls counts control structures and their else, however deep they lie in each other: some megabytes of
	// stack.
	maxControls = 10_000
)

// bounded refuses a text that could overwhelm the parser.
func bounded(t Template) error {
	if len(t.Text) > maxText {
		return fault.WithHint(fault.New(fault.Invalid, "parse", t.Name,
			fmt.Sprintf("its text has %d bytes, the bound is %d", len(t.Text), maxText)),
			"bring large files along in an image or a volume")
	}
	begin := regexp.MustCompile(regexp.QuoteMeta(t.left()) +
		`-?[ \t\r\n]*(if|else|range|with|block|define)`)
	if n := len(begin.FindAllStringIndex(t.Text, maxControls+1)); n > maxControls {
		return fault.WithHint(fault.New(fault.Invalid, "parse", t.Name,
			fmt.Sprintf("it has more than %d of if, else, range, with, block and define", maxControls)),
			"write what repeats once, with range or define")
	}
	return nil
}

// maxMissing is how many functions that there are not are named.
const maxMissing = 10

// Check refuses a template that no rendering can make right: its form is wrong, it is beyond a bound, or it uses
// functions that there are not, of which it names the first few at once. It runs nothing of it.
func Check(t Template) error {
	if err := bounded(t); err != nil {
		return err
	}
	tree := parse.New(t.Name)
	tree.Mode = parse.SkipFuncCheck
	set := map[string]*parse.Tree{}
	if _, err := tree.Parse(t.Text, t.Left, t.Right, set); err != nil {
		return fault.Wrap(err, fault.Invalid, "parse", t.Name)
	}
	known := append(Names(), "break", "continue")
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(set)) {
		for id := range identifiers(set[name].Root) {
			if len(errs) == maxMissing {
				return errors.Join(errs...)
			}
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
func identifiers(n parse.Node) iter.Seq[*parse.IdentifierNode] {
	return func(yield func(*parse.IdentifierNode) bool) { walk(n, yield) }
}

// walk yields the identifiers below a node until that is enough, and reports whether it is not.
func walk(n parse.Node, yield func(*parse.IdentifierNode) bool) bool {
	branch := func(b *parse.BranchNode) bool {
		return walk(b.Pipe, yield) && walk(b.List, yield) && walk(b.ElseList, yield)
	}
	switch n := n.(type) {
	case *parse.ListNode:
		return n == nil || each(n.Nodes, yield)
	case *parse.PipeNode:
		return n == nil || each(n.Cmds, yield)
	case *parse.CommandNode:
		return each(n.Args, yield)
	case *parse.ActionNode:
		return walk(n.Pipe, yield)
	case *parse.TemplateNode:
		return walk(n.Pipe, yield)
	case *parse.ChainNode:
		return walk(n.Node, yield)
	case *parse.IfNode:
		return branch(&n.BranchNode)
	case *parse.RangeNode:
		return branch(&n.BranchNode)
	case *parse.WithNode:
		return branch(&n.BranchNode)
	case *parse.IdentifierNode:
		return yield(n)
	}
	return true
}

func each[N parse.Node](nodes []N, yield func(*parse.IdentifierNode) bool) bool {
	for _, n := range nodes {
		if !walk(n, yield) {
			return false
		}
	}
	return true
}

// Reads tells whether a template reads anything of the servers or of Consul.
func Reads(t Template) bool {
	r := &reading{}
	return calls(t, append(r.table(), r.consul()...))
}

// ReadsConsul tells whether a template reads anything of Consul.
func ReadsConsul(t Template) bool { return calls(t, (&reading{}).consul()) }

// calls tells whether a template that can be rendered calls one of some functions.
func calls(t Template, of []function) bool {
	mentions := func(f function) bool { return strings.Contains(t.Text, f.name) }
	if !slices.ContainsFunc(of, mentions) || bounded(t) != nil {
		return false
	}
	tree := parse.New(t.Name)
	tree.Mode = parse.SkipFuncCheck
	set := map[string]*parse.Tree{}
	if _, err := tree.Parse(t.Text, t.Left, t.Right, set); err != nil {
		return false // it is never rendered
	}
	for _, one := range set {
		for id := range identifiers(one.Root) {
			if slices.ContainsFunc(of, func(f function) bool { return f.name == id.Ident }) {
				return true
			}
		}
	}
	return false
}
