package patience

import (
	"go/ast"
	"slices"

	"berth/tools/arch/syntax"
)

// findBubbles marks the literals that run in a bubble, and the functions that nobody calls from outside of one.
func (b *timing) findBubbles() {
	openers := map[string]bool{}
	for _, x := range b.funcs {
		for c := range syntax.Calls(x.decl.Body) {
			if pkg, fn := syntax.Selector(c.Fun); pkg == "synctest" && fn == "Test" {
				openers[x.decl.Name.Name] = true
			}
		}
	}
	for _, x := range b.funcs {
		for c := range syntax.Calls(x.decl.Body) {
			if pkg, fn := syntax.Selector(c.Fun); pkg == "synctest" && fn == "Test" || openers[syntax.Called(c)] {
				for _, arg := range c.Args {
					x.bubbles = append(x.bubbles, arg)
				}
			}
		}
	}
	names := map[string]int{}
	for _, x := range b.funcs {
		names[x.decl.Name.Name]++
	}
	used := map[string]bool{}
	b.references(names, func(_ *timed, name string, _ ast.Node) { used[name] = true })
	for _, x := range b.funcs {
		x.bubbled = used[x.decl.Name.Name]
	}
	for changed := true; changed; {
		changed = false
		b.references(names, func(from *timed, name string, at ast.Node) {
			if from.inBubble(at) {
				return
			}
			for _, x := range b.funcs {
				if x.decl.Name.Name == name && x.bubbled {
					x.bubbled, changed = false, true
				}
			}
		})
	}
}

// references calls fn for every place that names a function of the tests.
func (b *timing) references(names map[string]int, fn func(from *timed, name string, at ast.Node)) {
	for _, x := range b.funcs {
		ast.Inspect(x.decl.Body, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && names[id.Name] > 0 {
				fn(x, id.Name, id)
			}
			return true
		})
	}
}

func (x *timed) inBubble(n ast.Node) bool {
	return x.bubbled || slices.ContainsFunc(x.bubbles, func(lit ast.Node) bool {
		return lit.Pos() <= n.Pos() && n.End() <= lit.End()
	})
}
