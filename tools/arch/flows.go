package arch

import (
	"go/ast"
	"strings"
)

// flowImports is all that a flow may know.
var flowImports = []string{
	"cmp", "errors", "fmt", "maps", "net/netip", "slices", "sort", "strconv", "strings", "time",
	"internal/base/fault", "internal/base/ids", "internal/model/**",
}

// checkFlows holds files that end in _flow.go to pure code, and asks each for its test.
func checkFlows(t *Tree) []Finding {
	var out []Finding
	t.eachCode(func(f *File) {
		if !isFlow(f) {
			return
		}
		for _, spec := range f.Imports() {
			target, local := t.Local(importPath(spec))
			if !local {
				target = importPath(spec)
			}
			if !matchesAny(flowImports, target) {
				out = append(out, t.at(f, spec, "a flow imports %s", target))
			}
		}
		want := strings.TrimSuffix(f.Path, ".go") + "_test.go"
		if !hasFile(f.Pkg, want) {
			out = append(out, Finding{Path: f.Path, Text: "has no " + want})
		}
		out = append(out, t.impure(f)...)
	})
	return out
}

func hasFile(p *Package, path string) bool {
	for _, f := range p.Files {
		if f.Path == path {
			return true
		}
	}
	return false
}

// impure finds channels and package variables that a flow writes to.
func (t *Tree) impure(f *File) []Finding {
	var out []Finding
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
			out = append(out, t.at(f, n, "a flow uses a channel"))
			return false
		}
		return true
	})
	return out
}
