package jobspec

import (
	"strings"

	"berth/jobspec/hclfile"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// locals evaluates the locals blocks in the order of what they refer to.
func (in *inputs) locals(s *hclfile.Scope) {
	attrs := map[string]*hclsyntax.Attribute{}
	var order []string
	for _, b := range in.doc.Body.Blocks {
		if b.Type != "locals" {
			continue
		}
		for _, inner := range b.Body.Blocks {
			in.report.Add(inner.DefRange(), "locals holds name = value pairs, no blocks")
		}
		for _, a := range hclfile.SortedAttrs(b.Body) {
			if old, dup := attrs[a.Name]; dup {
				in.report.Add(a.NameRange, "the local %q is defined twice, first on line %d", a.Name,
					old.NameRange.Start.Line)
				continue
			}
			attrs[a.Name] = a
			order = append(order, a.Name)
		}
	}
	if len(order) > 0 && len(order)+len(in.order) > maxNames {
		in.report.Add(attrs[order[0]].NameRange, "the document has more than %d variables and locals", maxNames)
		return
	}
	l := &localResolver{
		in:     in,
		scope:  s,
		attrs:  attrs,
		values: map[string]cty.Value{},
		state:  map[string]int{},
	}
	for _, name := range order {
		if !l.resolve(name, nil) {
			return
		}
	}
	s.Ctx.Variables["local"] = cty.ObjectVal(l.values)
}

type localResolver struct {
	in     *inputs
	scope  *hclfile.Scope
	attrs  map[string]*hclsyntax.Attribute
	values map[string]cty.Value
	state  map[string]int // 1 while being resolved, 2 when done
}

// maxNames bounds the variables and locals of a document.
const maxNames = 2000

// maxLocalChain bounds how many locals may refer to one another in a row.
const maxLocalChain = 500

func (l *localResolver) resolve(name string, chain []string) bool {
	a := l.attrs[name]
	switch {
	case l.state[name] == 2:
		return true
	case l.state[name] == 1:
		l.in.report.Add(a.NameRange, "local.%s refers to itself: %s", name, strings.Join(append(chain, name), " → "))
		return false
	case len(chain) > maxLocalChain:
		l.in.report.Add(a.NameRange, "more than %d locals refer to one another in a row", maxLocalChain)
		return false
	}
	l.state[name] = 1
	chain = append(chain, name)
	for _, t := range a.Expr.Variables() {
		if t.RootName() != "local" || len(t) < 2 {
			continue
		}
		step, ok := t[1].(hcl.TraverseAttr)
		if !ok || l.attrs[step.Name] == nil {
			continue // the evaluation names it
		}
		if !l.resolve(step.Name, chain) {
			return false
		}
	}
	l.scope.Ctx.Variables["local"] = cty.ObjectVal(l.values)
	v, ok := l.scope.Value(l.in.report, l.in.doc, a.Expr)
	if !ok {
		return false
	}
	l.in.measure("local."+name, v, a.NameRange, l.scope.Sizes)
	l.values[name] = v
	l.state[name] = 2
	return !l.in.report.Failed()
}
