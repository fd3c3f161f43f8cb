package patience

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/tools/arch/syntax"
)

// units are the constants of package time that a bound is written in.
var units = map[string]time.Duration{
	"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
	"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

// eval gives the duration that an expression stands for, as far as names and numbers tell it.
func (b *timing) eval(x *timed, e ast.Expr, depth int) (time.Duration, bool) {
	if depth > 8 {
		return 0, false
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		v, err := strconv.ParseFloat(strings.ReplaceAll(e.Value, "_", ""), 64)
		return time.Duration(v), err == nil
	case *ast.ParenExpr:
		return b.eval(x, e.X, depth+1)
	case *ast.SelectorExpr:
		pkg, name := syntax.Selector(e)
		unit, ok := units[name]
		return unit, ok && pkg == "time"
	case *ast.Ident:
		if v := x.locals[e.Name]; v != nil {
			return b.eval(x, v, depth+1)
		}
		if v := b.consts[e.Name]; v != nil {
			return b.eval(x, v, depth+1)
		}
	case *ast.CallExpr:
		if pkg, fn := syntax.Selector(e.Fun); pkg == "time" && fn == "Duration" && len(e.Args) == 1 {
			return b.eval(x, e.Args[0], depth+1)
		}
	case *ast.BinaryExpr:
		left, okL := b.eval(x, e.X, depth+1)
		right, okR := b.eval(x, e.Y, depth+1)
		return combine(e.Op, left, right), okL && okR && (e.Op != token.QUO || right != 0)
	}
	return 0, false
}

func combine(op token.Token, left, right time.Duration) time.Duration {
	switch {
	case op == token.MUL:
		return left * right
	case op == token.ADD:
		return left + right
	case op == token.SUB:
		return left - right
	case op == token.QUO && right != 0:
		return left / right
	}
	return -1
}

// elapsed tells expressions that measure how long something took.
func (b *timing) elapsed(x *timed, e ast.Expr, depth int) bool {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return b.elapsed(x, e.X, depth+1)
	case *ast.Ident:
		v := x.locals[e.Name]
		return v != nil && depth < 8 && b.elapsed(x, v, depth+1)
	case *ast.CallExpr:
		if pkg, fn := syntax.Call(e); pkg == "time" && fn == "Since" {
			return true
		}
		if s, ok := e.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sub" && len(e.Args) == 1 {
			return b.now(x, s.X)
		}
		return slices.ContainsFunc(b.funcs, func(f *timed) bool {
			return f.decl.Name.Name == syntax.Called(e) && depth < 8 && b.measures(f, depth+1)
		})
	}
	return false
}

// measures tells functions that return how long something took.
func (b *timing) measures(f *timed, depth int) bool {
	found := false
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
			found = found || b.elapsed(f, r.Results[0], depth)
		}
		_, isLit := n.(*ast.FuncLit)
		return !isLit
	})
	return found
}

// now tells time.Now(), and a name that stands for it.
func (b *timing) now(x *timed, e ast.Expr) bool {
	if id, ok := e.(*ast.Ident); ok {
		e = x.locals[id.Name]
	}
	pkg, fn := syntax.Call(e)
	return pkg == "time" && fn == "Now"
}

// deadline gives the duration of time.Now().Add(d), nil for what is none.
func (b *timing) deadline(x *timed, e ast.Expr, depth int) ast.Expr {
	if id, ok := e.(*ast.Ident); ok && depth < 8 {
		return b.deadline(x, x.locals[id.Name], depth+1)
	}
	c, ok := e.(*ast.CallExpr)
	if !ok || len(c.Args) != 1 {
		return nil
	}
	if s, ok := c.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Add" && b.now(x, s.X) {
		return c.Args[0]
	}
	return nil
}

// lapse gives the duration after which a case of a select is taken: of time.After(d), or of a timer.
func (b *timing) lapse(x *timed, comm ast.Stmt) ast.Expr {
	s, ok := comm.(*ast.ExprStmt)
	if !ok {
		return nil
	}
	u, ok := s.X.(*ast.UnaryExpr)
	if !ok || u.Op != token.ARROW {
		return nil
	}
	e := u.X
	if timer, field := syntax.Selector(e); field == "C" && x.locals[timer] != nil {
		e = x.locals[timer]
	} else if id, ok := e.(*ast.Ident); ok {
		e = x.locals[id.Name]
	}
	if pkg, fn := syntax.Call(e); pkg == "time" && (fn == "After" || fn == "NewTimer") {
		return e.(*ast.CallExpr).Args[0]
	}
	return nil
}
