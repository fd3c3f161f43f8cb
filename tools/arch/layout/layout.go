// Package layout owns what gofmt leaves open: how wide a line may be, and how much may stand on one.
package layout

import (
	"go/ast"
	"go/token"
	"strings"
	"unicode/utf8"
)

const (
	columns  = 120 // of a line
	tabWidth = 4
	inline   = 4 // fields of a struct literal that may share a line
	tuple    = 2 // values that one assignment may give
)

// Place is where a line does not breathe.
type Place struct {
	Line int
	Text string
}

// Source is a file with what it says.
type Source struct {
	Fset *token.FileSet
	File *ast.File
	Text []byte
}

func (s Source) line(p token.Pos) int { return s.Fset.Position(p).Line }

// Columns finds lines beyond 120 columns. A line may be longer when a word or literal on it could not be narrower on a
// line of its own, and inside of the raw strings of tests, which hold what is read or said by something else. Those of
// the program are text that people read, here and on their screens.
func Columns(s Source) []Place {
	free := map[int]bool{}
	lines := strings.Split(string(s.Text), "\n")
	test := strings.HasSuffix(s.Fset.Position(s.File.Pos()).Filename, "_test.go")
	ast.Inspect(s.File, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		first, last := s.line(lit.Pos()), s.line(lit.End())
		if first == last {
			free[first] = free[first] || indent(lines[first-1])+utf8.RuneCountInString(lit.Value) >= columns
			return true
		}
		for at := first; at <= last; at++ {
			free[at] = test || long(lines[at-1], columns)
		}
		return true
	})
	var out []Place
	for i, line := range lines {
		if width(line) > columns && !free[i+1] && !longWord(line) {
			out = append(out, Place{Line: i + 1, Text: "a line is wider than 120 columns"})
		}
	}
	return out
}

// longWord tells comments that hold a word, say an address, that fits on no line.
func longWord(line string) bool {
	text, isComment := strings.CutPrefix(strings.TrimSpace(line), "//")
	if !isComment {
		return false
	}
	return long(text, columns-indent(line)-3) || strings.HasPrefix(text, "go:")
}

// long tells a text with a word of more columns than there are.
func long(text string, columns int) bool {
	for word := range strings.FieldsSeq(text) {
		if utf8.RuneCountInString(word) > columns {
			return true
		}
	}
	return false
}

func indent(line string) int { return width(line[:len(line)-len(strings.TrimLeft(line, "\t "))]) }

func width(line string) int {
	at := 0
	for _, r := range line {
		if r == '\t' {
			at += tabWidth - at%tabWidth
		} else {
			at++
		}
	}
	return at
}

// Fields finds struct literals of more than four named fields that put several on a line. A row of a table may, as long
// as it fits on one line.
func Fields(s Source) []Place {
	lines := strings.Split(string(s.Text), "\n")
	rows := map[ast.Expr]bool{}
	var out []Place
	ast.Inspect(s.File, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		markRows(lit, rows)
		if len(lit.Elts) <= inline || !named(lit) || oneByOne(s, lit) {
			return true
		}
		at := s.line(lit.Pos())
		if !rows[lit] || at != s.line(lit.End()) || width(lines[at-1]) > columns {
			out = append(out, Place{Line: at, Text: "a literal of more than four fields has several on a line"})
		}
		return true
	})
	return out
}

// markRows marks the elements of a slice, an array or a map.
func markRows(lit *ast.CompositeLit, rows map[ast.Expr]bool) {
	switch lit.Type.(type) {
	case *ast.ArrayType, *ast.MapType:
	default:
		return
	}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			e = kv.Value
		}
		if u, ok := e.(*ast.UnaryExpr); ok {
			e = u.X
		}
		rows[e] = true
	}
}

// named tells literals of structs that name their fields.
func named(lit *ast.CompositeLit) bool {
	switch lit.Type.(type) {
	case *ast.ArrayType, *ast.MapType:
		return false
	}
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		if _, ok := kv.Key.(*ast.Ident); !ok {
			return false
		}
	}
	return true
}

func oneByOne(s Source, lit *ast.CompositeLit) bool {
	before := s.line(lit.Lbrace)
	for _, e := range lit.Elts {
		if s.line(e.Pos()) == before {
			return false
		}
		before = s.line(e.End())
	}
	return true
}

// Tuples finds assignments that give more than two values at once. A call with several results is one value.
func Tuples(s Source) []Place {
	var out []Place
	ast.Inspect(s.File, func(n ast.Node) bool {
		given := 0
		switch n := n.(type) {
		case *ast.AssignStmt:
			given = len(n.Rhs)
		case *ast.ValueSpec:
			given = len(n.Values)
		}
		if given > tuple {
			out = append(out, Place{Line: s.line(n.Pos()), Text: "an assignment gives more than two values"})
		}
		return true
	})
	return out
}
