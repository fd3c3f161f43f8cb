package arch

import (
	"go/ast"

	"berth/tools/arch/patience"
)

// suites are the packages of tests beside files that end in _test.go.
var suites = []string{"internal/testkit/**", "internal/conformance/**"}

// checkBusyMachine finds bounds on elapsed time that a machine under load breaks.
func checkBusyMachine(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		var all, tests []*ast.File
		for _, f := range p.Files {
			all = append(all, f.AST)
			if f.Test || matchesAny(suites, p.Dir) {
				tests = append(tests, f.AST)
			}
		}
		for _, place := range patience.Find(t.Fset, all, tests) {
			at := t.Fset.Position(place.At.Pos())
			out = append(out, Finding{Path: at.Filename, Line: at.Line, Text: place.Text})
		}
	}
	return out
}
