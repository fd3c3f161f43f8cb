package hclfile

import (
	"slices"
	"strings"

	"berth/jobspec/functions"
	"berth/jobspec/near"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Scope is what names mean at some place of a document. A nil context means that values must be literal.
type Scope struct {
	Ctx     *hcl.EvalContext
	Known   map[string]bool // roots that are resolved here; every other reference is left for the node
	Sizes   map[string]int  // sizes of var.x and local.x, to stop documents that blow up
	Literal bool            // no reference at all is allowed
	// QuotedOnly allows references only inside of texts, where they stay as they are.
	QuotedOnly bool
}

// With adds one name for a nested scope.
func (s *Scope) With(name string, v cty.Value) *Scope {
	child := s.Ctx.NewChild()
	child.Variables = map[string]cty.Value{name: v}
	known := make(map[string]bool, len(s.Known)+1)
	for k := range s.Known {
		known[k] = true
	}
	known[name] = true
	return &Scope{
		Ctx:        child,
		Known:      known,
		Sizes:      s.Sizes,
		Literal:    s.Literal,
		QuotedOnly: s.QuotedOnly,
	}
}

// Value evaluates an expression. It reports and returns false when that is impossible.
func (s *Scope) Value(r *Report, doc *Source, e hclsyntax.Expression) (cty.Value, bool) {
	rw := &rewriter{report: r, doc: doc, scope: s}
	before := len(r.problems) + r.more
	e = rw.expr(e, s.Known, false)
	if len(r.problems)+r.more > before {
		return cty.NilVal, false
	}
	if rw.cost > 16*functions.MaxValue {
		r.Add(e.Range(), "the value would become larger than %d bytes", 16*functions.MaxValue)
		return cty.NilVal, false
	}
	v, diags := e.Value(s.Ctx)
	r.Diags(diags)
	if diags.HasErrors() {
		return cty.NilVal, false
	}
	v, _ = v.UnmarkDeep()
	if !v.IsWhollyKnown() {
		r.Add(e.Range(), "the value cannot be known here")
		return cty.NilVal, false
	}
	return v, true
}

// rewriter puts text in the place of references that only a node can resolve.
type rewriter struct {
	report *Report
	doc    *Source
	scope  *Scope
	cost   int
}

func (w *rewriter) exprs(in []hclsyntax.Expression, known map[string]bool, inText bool) []hclsyntax.Expression {
	out := make([]hclsyntax.Expression, len(in))
	for i, e := range in {
		out[i] = w.expr(e, known, inText)
	}
	return out
}

// expr copies an expression; inText says that it stands inside a template.
func (w *rewriter) expr(e hclsyntax.Expression, known map[string]bool, inText bool) hclsyntax.Expression {
	switch x := e.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return w.reference(x, known, inText)
	case *hclsyntax.TemplateExpr:
		c := *x
		c.Parts = w.exprs(x.Parts, known, true)
		return &c
	case *hclsyntax.TemplateWrapExpr:
		c := *x
		c.Wrapped = w.expr(x.Wrapped, known, true)
		return &c
	case *hclsyntax.TemplateJoinExpr:
		c := *x
		c.Tuple = w.expr(x.Tuple, known, true)
		return &c
	case *hclsyntax.ParenthesesExpr:
		c := *x
		c.Expression = w.expr(x.Expression, known, inText)
		return &c
	case *hclsyntax.TupleConsExpr:
		c := *x
		c.Exprs = w.exprs(x.Exprs, known, false)
		return &c
	case *hclsyntax.ObjectConsExpr:
		c := *x
		c.Items = make([]hclsyntax.ObjectConsItem, len(x.Items))
		for i, item := range x.Items {
			c.Items[i] = hclsyntax.ObjectConsItem{
				KeyExpr:   w.key(item.KeyExpr, known),
				ValueExpr: w.expr(item.ValueExpr, known, false),
			}
		}
		return &c
	case *hclsyntax.FunctionCallExpr:
		return w.call(x, known)
	default:
		if inText && w.onNode(e, known) {
			return w.verbatim(e.Range())
		}
		return w.operation(e, known)
	}
}

// onNode reports whether an operation needs something that only a node knows, and nothing of this file. In a text it is
// left as it is written, as other parsers of job files do: a shell may know what it means.
func (w *rewriter) onNode(e hclsyntax.Expression, known map[string]bool) bool {
	if w.scope.Literal || w.scope.QuotedOnly {
		return false
	}
	refs := e.Variables()
	return len(refs) > 0 && !slices.ContainsFunc(refs, func(t hcl.Traversal) bool { return known[t.RootName()] })
}

// verbatim is the text of an expression, for the node.
func (w *rewriter) verbatim(rng hcl.Range) hclsyntax.Expression {
	return &hclsyntax.LiteralValueExpr{Val: cty.StringVal("${" + w.text(rng) + "}"), SrcRange: rng}
}

// operation copies expressions that compute: they must not depend on what only a node knows.
func (w *rewriter) operation(e hclsyntax.Expression, known map[string]bool) hclsyntax.Expression {
	switch x := e.(type) {
	case *hclsyntax.ConditionalExpr:
		c := *x
		w.noRuntime(x.Condition, known)
		c.TrueResult, c.FalseResult = w.expr(x.TrueResult, known, true), w.expr(x.FalseResult, known, true)
		return &c
	case *hclsyntax.BinaryOpExpr:
		w.noRuntime(x.LHS, known)
		w.noRuntime(x.RHS, known)
	case *hclsyntax.UnaryOpExpr:
		w.noRuntime(x.Val, known)
	case *hclsyntax.IndexExpr:
		c := *x
		w.noRuntime(x.Key, known)
		c.Collection = w.expr(x.Collection, known, false)
		return &c
	case *hclsyntax.RelativeTraversalExpr:
		c := *x
		c.Source = w.expr(x.Source, known, false)
		return &c
	case *hclsyntax.SplatExpr:
		c := *x
		c.Source = w.expr(x.Source, known, false)
		return &c
	case *hclsyntax.ForExpr:
		return w.forExpr(x, known)
	}
	return e
}

func (w *rewriter) forExpr(x *hclsyntax.ForExpr, known map[string]bool) hclsyntax.Expression {
	c := *x
	c.CollExpr = w.expr(x.CollExpr, known, false)
	inner := make(map[string]bool, len(known)+2)
	for k := range known {
		inner[k] = true
	}
	inner[x.KeyVar], inner[x.ValVar] = true, true
	if x.KeyExpr != nil {
		c.KeyExpr = w.expr(x.KeyExpr, inner, false)
	}
	c.ValExpr = w.expr(x.ValExpr, inner, false)
	if x.CondExpr != nil {
		w.noRuntime(x.CondExpr, inner)
	}
	return &c
}

func (w *rewriter) call(x *hclsyntax.FunctionCallExpr, known map[string]bool) hclsyntax.Expression {
	c := *x
	if x.Name == "convert" && len(x.Args) == 2 { // the second argument is a type, not a value
		c.Args = []hclsyntax.Expression{w.expr(x.Args[0], known, false), x.Args[1]}
		return &c
	}
	c.Args = w.exprs(x.Args, known, false)
	return &c
}

func (w *rewriter) key(e hclsyntax.Expression, known map[string]bool) hclsyntax.Expression {
	k, ok := e.(*hclsyntax.ObjectConsKeyExpr)
	if !ok {
		return w.expr(e, known, false)
	}
	if _, isRef := k.Wrapped.(*hclsyntax.ScopeTraversalExpr); isRef && !k.ForceNonLiteral {
		return e
	}
	c := *k
	c.Wrapped = w.expr(k.Wrapped, known, false)
	return &c
}

func (w *rewriter) noRuntime(e hclsyntax.Expression, known map[string]bool) {
	for _, t := range e.Variables() {
		if known[t.RootName()] {
			continue
		}
		text := w.text(t.SourceRange())
		if w.scope.Literal || w.scope.QuotedOnly {
			w.report.Add(t.SourceRange(), "%s is a reference; this file takes plain values only", text)
			continue
		}
		w.report.Add(t.SourceRange(),
			"%s is only known on the node, so nothing can be computed from it here; use var or local values, or a "+
				"constraint", text)
	}
}

func (w *rewriter) text(rng hcl.Range) string {
	src := w.doc.Bytes
	if rng.Filename != w.doc.Path {
		src = w.report.sources[rng.Filename]
	}
	if rng.CanSliceBytes(src) {
		return string(rng.SliceBytes(src))
	}
	return "the reference"
}

func (w *rewriter) reference(x *hclsyntax.ScopeTraversalExpr, known map[string]bool, inText bool) hclsyntax.Expression {
	root := x.Traversal.RootName()
	if known[root] {
		if len(x.Traversal) > 1 {
			if a, ok := x.Traversal[1].(hcl.TraverseAttr); ok {
				w.declared(x, root, a.Name)
				w.cost += w.scope.Sizes[root+"."+a.Name]
			}
		}
		return x
	}
	text := w.text(x.SrcRange)
	switch {
	case w.scope.Literal, w.scope.QuotedOnly && !inText:
		w.report.Add(x.SrcRange, "%s is a reference; this file takes plain values only, put texts in quotes", text)
	case root == "var" || root == "local":
		w.report.Add(x.SrcRange, "%s cannot be used here", text)
	case !inText && len(x.Traversal) == 1 && !runtimeName(root):
		w.report.Add(x.SrcRange, "%s is not a value; put it in quotes if it is a text: %q", text, text)
	}
	return w.verbatim(x.SrcRange)
}

// declared reports a variable or local that the file does not have.
func (w *rewriter) declared(x *hclsyntax.ScopeTraversalExpr, root, name string) {
	if _, ok := w.scope.Sizes[root+"."+name]; ok {
		return
	}
	var names []string
	for known := range w.scope.Sizes {
		if n, ok := strings.CutPrefix(known, root+"."); ok {
			names = append(names, n)
		}
	}
	switch root {
	case "var":
		w.report.Add(x.SrcRange, "the file declares no variable %q%s; declare it with variable %q { … }", name,
			near.DidYouMean(name, names), name)
	case "local":
		w.report.Add(x.SrcRange, "the file has no local %q%s; write it in a locals block", name,
			near.DidYouMean(name, names))
	}
}

// runtimeName reports whether a single word is likely meant as a reference: the environment's names are upper case.
func runtimeName(root string) bool {
	return strings.ToUpper(root) == root || strings.HasPrefix(root, "NOMAD_")
}
