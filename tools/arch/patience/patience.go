// Package patience owns the search for bounds on elapsed time that a machine under load breaks. Time in a bubble of
// testing/synctest is not the machine's; a benchmark measures and demands nothing.
package patience

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"time"

	"berth/tools/arch/syntax"
)

// Least is the shortest time that a test may demand of a machine that it shares with others.
const Least = 30 * time.Second

// Place is one bound that is too short.
type Place struct {
	At   ast.Node
	Text string
}

// Find looks at the tests of one package; all are the files that its names come from, tests among them.
func Find(fset *token.FileSet, all, tests []*ast.File) []Place {
	b := &timing{fset: fset, consts: map[string]ast.Expr{}, params: map[string]map[int]bool{}}
	for _, f := range all {
		b.constants(f.Decls)
	}
	for _, f := range tests {
		b.declare(f)
	}
	b.findBubbles()
	return b.findings()
}

// timing is what the tests of one package say about time.
type timing struct {
	fset   *token.FileSet
	consts map[string]ast.Expr     // of the package, by name
	funcs  []*timed                // of its tests
	params map[string]map[int]bool // the parameters of functions that serve as bounds
	out    []Place
}

// timed is a function of a test.
type timed struct {
	file    *ast.File
	decl    *ast.FuncDecl
	locals  map[string]ast.Expr
	params  map[string]int
	bubbles []ast.Node // function literals that run in a bubble
	bubbled bool       // it runs in a bubble as a whole: all who call it do
}

func (b *timing) constants(decls []ast.Decl) {
	for _, d := range decls {
		if g, ok := d.(*ast.GenDecl); ok && (g.Tok == token.CONST || g.Tok == token.VAR) {
			for _, s := range g.Specs {
				values(s.(*ast.ValueSpec), b.consts)
			}
		}
	}
}

func values(s *ast.ValueSpec, into map[string]ast.Expr) {
	for i, name := range s.Names {
		if i < len(s.Values) {
			into[name.Name] = s.Values[i]
		}
	}
}

// declare takes the functions of a file and what their names stand for.
func (b *timing) declare(f *ast.File) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || strings.HasPrefix(fn.Name.Name, "Benchmark") {
			continue
		}
		x := &timed{file: f, decl: fn, locals: map[string]ast.Expr{}, params: map[string]int{}}
		at := 0
		for _, field := range fn.Type.Params.List {
			for _, name := range field.Names {
				x.params[name.Name] = at
				at++
			}
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if id, ok := left.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) && n.Tok == token.DEFINE {
						x.locals[id.Name] = n.Rhs[i]
					}
				}
			case *ast.ValueSpec:
				values(n, x.locals)
			}
			return true
		})
		b.funcs = append(b.funcs, x)
	}
}

// findings walks the functions until no parameter turns out to be a bound any more.
func (b *timing) findings() []Place {
	for known := -1; known != len(b.params); {
		known = len(b.params)
		b.out = nil
		for _, x := range b.funcs {
			ast.Inspect(x.decl.Body, func(n ast.Node) bool {
				if n != nil && !x.inBubble(n) {
					b.judge(x, n)
				}
				return true
			})
		}
	}
	return b.out
}

func (b *timing) judge(x *timed, n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		b.comparison(x, n)
	case *ast.CallExpr:
		b.called(x, n)
	case *ast.CommClause:
		if d := b.lapse(x, n.Comm); d != nil && fails(n.Body) {
			b.bound(x, n, d, "a select fails")
		}
	case *ast.CompositeLit:
		if pkg, typ := syntax.Selector(n.Type); pkg != "http" || typ != "Client" {
			return
		}
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok && syntax.IsIdent(kv.Key, "Timeout") && !b.meant(x, n) {
				b.bound(x, n, kv.Value, "an HTTP client gives up")
			}
		}
	}
}

func (b *timing) comparison(x *timed, n *ast.BinaryExpr) {
	switch n.Op {
	case token.LSS, token.GTR, token.LEQ, token.GEQ, token.EQL, token.NEQ:
	default:
		return
	}
	for _, sides := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
		if b.elapsed(x, sides[0], 0) {
			b.bound(x, n, sides[1], "elapsed time is compared")
		}
	}
}

func (b *timing) called(x *timed, c *ast.CallExpr) {
	pkg, fn := syntax.Selector(c.Fun)
	name := syntax.Called(c)
	switch {
	case pkg == "context" && strings.HasPrefix(fn, "WithTimeout") && len(c.Args) > 1 && !b.meant(x, c):
		b.bound(x, c, c.Args[1], "a context ends")
	case pkg == "context" && strings.HasPrefix(fn, "WithDeadline") && len(c.Args) > 1 && !b.meant(x, c):
		b.bound(x, c, b.deadline(x, c.Args[1], 0), "a context ends")
	case pkg == "time" && fn == "AfterFunc" && len(c.Args) == 2 && fails([]ast.Stmt{&ast.ExprStmt{X: c.Args[1]}}):
		b.bound(x, c, c.Args[0], "a timer fails the test")
	case (name == "Before" || name == "After") && len(c.Args) == 1 && pkg != "time":
		recv := c.Fun.(*ast.SelectorExpr).X
		if b.now(x, recv) {
			b.bound(x, c, b.deadline(x, c.Args[0], 0), "the clock is compared")
		} else if b.now(x, c.Args[0]) {
			b.bound(x, c, b.deadline(x, recv, 0), "the clock is compared")
		}
	case strings.HasPrefix(name, "Set") && strings.HasSuffix(name, "Deadline") && len(c.Args) == 1 && !b.meant(x, c):
		b.bound(x, c, b.deadline(x, c.Args[0], 0), "a connection ends")
	}
	for i := range b.params[name] {
		if i < len(c.Args) && !b.meant(x, c) {
			b.bound(x, c, c.Args[i], name+" takes a bound")
		}
	}
}

// bound judges one bound: a constant, or a parameter whose callers are judged in turn.
func (b *timing) bound(x *timed, at ast.Node, d ast.Expr, what string) {
	if d == nil {
		return
	}
	if id, ok := d.(*ast.Ident); ok {
		if i, isParam := x.params[id.Name]; isParam {
			if b.params[x.decl.Name.Name] == nil {
				b.params[x.decl.Name.Name] = map[int]bool{}
			}
			b.params[x.decl.Name.Name][i] = true
			return
		}
	}
	if v, ok := b.eval(x, d, 0); ok && v >= 0 && v < Least {
		b.out = append(b.out, Place{At: at, Text: fmt.Sprintf("%s after %s", what, v)})
	}
}

// fails tells whether statements make a test fail.
func fails(body []ast.Stmt) bool {
	return slices.ContainsFunc(body, func(s ast.Stmt) bool {
		for c := range syntax.Calls(s) {
			switch syntax.Called(c) {
			case "Fatal", "Fatalf", "Error", "Errorf", "Fail", "FailNow", "panic":
				return true
			}
		}
		return false
	})
}

var runsOut = regexp.MustCompile(`(?i)\bruns? out\b`)

// meant looks for a comment, beside a call or above it, which says that the time is there to run out: what waits for
// that cannot come too late.
func (b *timing) meant(x *timed, n ast.Node) bool {
	at := b.line(n.Pos())
	return slices.ContainsFunc(x.file.Comments, func(group *ast.CommentGroup) bool {
		end := b.line(group.End())
		return end >= at-1 && end <= at && runsOut.MatchString(group.Text())
	})
}

func (b *timing) line(p token.Pos) int { return b.fset.Position(p).Line }
