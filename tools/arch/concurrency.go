package arch

import (
	"go/ast"
	"strings"

	"berth/tools/arch/syntax"
)

// checkGoroutines finds goroutines that no lifecycle.Group joins: the statement itself, and what stands for it.
func checkGoroutines(t *Tree) []Finding {
	var out []Finding
	t.eachCode(func(f *File) {
		if f.Pkg.Dir == "internal/base/lifecycle" || f.Pkg.Suite() {
			return
		}
		for _, spec := range f.Imports() {
			if importPath(spec) == "golang.org/x/sync/errgroup" {
				out = append(out, t.at(f, spec, "errgroup starts goroutines beside lifecycle.Group"))
			}
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				out = append(out, t.at(f, n, "bare go statement"))
			case *ast.CallExpr:
				// sync.WaitGroup.Go takes one function; lifecycle.Group.Go takes a name before it.
				s, ok := n.Fun.(*ast.SelectorExpr)
				if ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
					out = append(out, t.at(f, n, "goroutine started by a Go method that takes no name"))
				}
			}
			return true
		})
	})
	return out
}

// checkContextFields finds structs that keep a context.
func checkContextFields(t *Tree) []Finding {
	var out []Finding
	t.eachCode(func(f *File) {
		pkg := f.alias("context")
		if pkg == "" {
			return
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			st, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range st.Fields.List {
				if x, name := syntax.Selector(field.Type); x == pkg && name == "Context" {
					out = append(out, t.at(f, field, "a struct keeps a context"))
				}
			}
			return true
		})
	})
	return out
}

// checkContextRoots finds contexts that are made from nothing. Suites that tests call count as tests.
func checkContextRoots(t *Tree) []Finding {
	var out []Finding
	t.eachCode(func(f *File) {
		pkg := f.alias("context")
		if pkg == "" || f.Pkg.Name == "main" || strings.HasPrefix(f.Pkg.Dir, "cmd/") || f.Pkg.Dir == "internal/agent" ||
			f.Pkg.Suite() {
			return
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				if x, name := syntax.Selector(e); x == pkg && (name == "Background" || name == "TODO") {
					out = append(out, t.at(f, n, "context.%s()", name))
					return false
				}
			}
			return true
		})
	})
	return out
}
