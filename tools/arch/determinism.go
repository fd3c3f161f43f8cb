package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"berth/tools/arch/syntax"
)

// deterministic are the folders where everything must be repeatable; files that end in _flow.go are it everywhere.
var deterministic = []string{"internal/server/fsm/**", "internal/server/state/**", "internal/scheduler/**"}

// clocks are the functions of package time that read or wait for the clock.
var clocks = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}

func checkDeterminism(t *Tree) []Finding {
	var out []Finding
	t.eachCode(func(f *File) {
		if !matchesAny(deterministic, f.Pkg.Dir) && !isFlow(f) {
			return
		}
		for _, spec := range f.Imports() {
			if strings.HasSuffix(importPath(spec), "/rand") || strings.HasPrefix(importPath(spec), "math/rand") {
				out = append(out, t.at(f, spec, "imports %s", importPath(spec)))
			}
		}
		out = append(out, t.unrepeatable(f)...)
	})
	return out
}

func isFlow(f *File) bool { return strings.HasSuffix(f.Path, "_flow.go") }

// unrepeatable finds clocks, new ids and map ranges whose order can show.
func (t *Tree) unrepeatable(f *File) []Finding {
	var out []Finding
	clock, idsPkg := f.alias("time"), f.alias(t.Module+"/internal/base/ids")
	var block []ast.Stmt
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, name := syntax.Selector(n)
			if x != "" && x == clock && slices.Contains(clocks, name) {
				out = append(out, t.at(f, n, "time.%s", name))
			}
			if x != "" && x == idsPkg && name == "New" {
				out = append(out, t.at(f, n, "ids.New makes a random id"))
			}
		case *ast.BlockStmt:
			block = n.List
			out = append(out, t.ranges(f, block)...)
		case *ast.CaseClause:
			out = append(out, t.ranges(f, n.Body)...)
		}
		return true
	})
	return out
}

// ranges finds map ranges directly in a list of statements, with what follows them in view.
func (t *Tree) ranges(f *File, list []ast.Stmt) []Finding {
	var out []Finding
	for i, s := range list {
		if l, ok := s.(*ast.LabeledStmt); ok {
			s = l.Stmt
		}
		r, ok := s.(*ast.RangeStmt)
		if !ok || !t.unordered(f, r.X) {
			continue
		}
		if !orderFree(r.Body.List, list[i+1:]) && !waived(t, f, r) {
			out = append(out,
				t.at(f, r, "range over a map in its random order; sort the keys, or say in a comment why the order "+
					"does not show"))
		}
	}
	return out
}

// unordered tells maps, and the iterators of package maps.
func (t *Tree) unordered(f *File, e ast.Expr) bool {
	if pkg, fn := syntax.Call(e); pkg == "maps" && (fn == "Keys" || fn == "Values" || fn == "All") {
		return true
	}
	return t.isMap(f, e)
}

// waived looks for a comment that speaks of the order, on the line of the range or the ones beside it.
func waived(t *Tree, f *File, n ast.Node) bool {
	at := t.line(n.Pos())
	for _, group := range f.AST.Comments {
		if end := t.line(group.End()); end >= at-1 && end <= at+1 && aboutOrder.MatchString(group.Text()) {
			return true
		}
	}
	return false
}

var aboutOrder = regexp.MustCompile(`(?is)\border\b.{4,}|.{9,}\border\b`)

// orderFree recognises bodies whose effect does not depend on the order of their runs: they fill maps, delete, count,
// answer with a constant, or collect into a slice that is sorted right after.
func orderFree(body, after []ast.Stmt) bool {
	return !slices.ContainsFunc(body, func(s ast.Stmt) bool { return !orderFreeStmt(s, after) })
}

func orderFreeStmt(s ast.Stmt, after []ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.IncDecStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.CONTINUE
	case *ast.BlockStmt:
		return orderFree(s.List, after)
	case *ast.IfStmt:
		return (s.Init == nil || defines(s.Init)) && orderFree(s.Body.List, after) &&
			(s.Else == nil || orderFreeStmt(s.Else, after))
	case *ast.RangeStmt:
		return orderFree(s.Body.List, after)
	case *ast.ExprStmt:
		c, ok := s.X.(*ast.CallExpr)
		return ok && syntax.IsIdent(c.Fun, "delete")
	case *ast.ReturnStmt:
		return !slices.ContainsFunc(s.Results, func(e ast.Expr) bool { return !constant(e) })
	case *ast.AssignStmt:
		return orderFreeAssign(s, after)
	}
	return false
}

func orderFreeAssign(s *ast.AssignStmt, after []ast.Stmt) bool {
	switch s.Tok {
	case token.DEFINE, token.ADD_ASSIGN, token.OR_ASSIGN, token.AND_ASSIGN, token.XOR_ASSIGN:
		return true
	case token.ASSIGN:
	default:
		return false
	}
	for i, left := range s.Lhs {
		if _, ok := left.(*ast.IndexExpr); ok || syntax.IsIdent(left, "_") {
			continue
		}
		if i < len(s.Rhs) && (constant(s.Rhs[i]) || extremum(left, s.Rhs[i]) || collected(left, s.Rhs[i], after)) {
			continue
		}
		return false
	}
	return true
}

// extremum tells x = max(x, …) and x = min(x, …).
func extremum(left, right ast.Expr) bool {
	c, ok := right.(*ast.CallExpr)
	return ok && (syntax.IsIdent(c.Fun, "max") || syntax.IsIdent(c.Fun, "min"))
}

// collected tells s = append(s, …) when a statement after the loop sorts s.
func collected(left, right ast.Expr, after []ast.Stmt) bool {
	c, ok := right.(*ast.CallExpr)
	if !ok || !syntax.IsIdent(c.Fun, "append") {
		return false
	}
	name := exprText(left)
	for _, s := range after {
		sorted := false
		ast.Inspect(s, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok && len(c.Args) > 0 {
				pkg, fn := syntax.Call(c)
				sorts := (pkg == "slices" || pkg == "sort") && !strings.HasPrefix(fn, "Search") ||
					strings.HasPrefix(strings.ToLower(exprText(c.Fun)), "sort")
				sorted = sorted || sorts && exprText(c.Args[0]) == name
			}
			return true
		})
		if sorted {
			return true
		}
	}
	return false
}

func defines(s ast.Stmt) bool {
	a, ok := s.(*ast.AssignStmt)
	return ok && a.Tok == token.DEFINE
}

func constant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return e.Name == "true" || e.Name == "false" || e.Name == "nil"
	}
	return false
}

// exprText is the text of a simple expression: a name, or names joined by dots.
func exprText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return exprText(e.X) + "." + e.Sel.Name
	}
	return ""
}
