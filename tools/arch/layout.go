package arch

import "berth/tools/arch/layout"

// pending are rules that the tree is not held to yet; their fixtures are.
var pending []string

// onLayout applies a rule of package layout to every file that a person wrote.
func onLayout(find func(layout.Source) []layout.Place) func(*Tree) []Finding {
	return func(t *Tree) []Finding {
		var out []Finding
		for _, p := range t.Sorted() {
			for _, f := range p.Files {
				if f.Generated {
					continue
				}
				for _, place := range find(layout.Source{Fset: t.Fset, File: f.AST, Text: f.Src}) {
					out = append(out, Finding{Path: f.Path, Line: place.Line, Text: place.Text})
				}
			}
		}
		return out
	}
}
