package arch

import (
	"go/ast"
	"go/format"
	"go/token"
	"slices"
	"strings"

	"berth/tools/arch/prose"
)

// onProse makes a check of the tree from one of its texts.
func onProse(check func(*prose.Repo) []Finding) func(*Tree) []Finding {
	return func(t *Tree) []Finding { return check(t.prose()) }
}

// prose is the tree as text, without what programs wrote.
func (t *Tree) prose() *prose.Repo {
	r := &prose.Repo{FS: t.FS, Texts: t.Texts}
	for _, p := range t.Sorted() {
		for _, f := range p.Files {
			if !f.Generated {
				r.Files = append(r.Files, t.said(f))
			}
		}
	}
	return r
}

// said collects the names, comments and messages of a file.
func (t *Tree) said(f *File) *prose.File {
	out := &prose.File{
		Path:   f.Path,
		Dir:    f.Pkg.Dir,
		Test:   f.Test,
		Names:  t.declared(f),
		Locals: t.locals(f),
	}
	for _, group := range f.AST.Comments {
		var lines []prose.Text
		for _, c := range group.List {
			for i, text := range strings.Split(c.Text, "\n") {
				lines = append(lines, prose.Text{Line: t.line(c.Pos()) + i, Text: text})
			}
		}
		out.Comments = append(out.Comments, lines)
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				out.Strings = append(out.Strings, prose.Text{Line: t.line(n.Pos()), Text: n.Value[1 : len(n.Value)-1]})
			}
		}
		return true
	})
	return out
}

// declared lists what a file declares for others than one function: types, functions, methods, fields, constants and
// variables.
func (t *Tree) declared(f *File) []prose.Name {
	var out []prose.Name
	add := func(kind prose.Kind, ids ...*ast.Ident) {
		for _, id := range ids {
			out = append(out, prose.Name{
				Line:     t.line(id.Pos()),
				Text:     id.Name,
				Exported: id.IsExported(),
				Kind:     kind,
			})
		}
	}
	for _, d := range f.AST.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(prose.Func, d.Name)
			} else {
				add(prose.Other, d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					add(prose.Other, s.Names...)
				case *ast.TypeSpec:
					add(prose.Type, s.Name)
					ast.Inspect(s.Type, func(n ast.Node) bool {
						if field, ok := n.(*ast.Field); ok {
							add(prose.Other, field.Names...)
						}
						_, isFunc := n.(*ast.FuncType)
						return !isFunc
					})
				}
			}
		}
	}
	return out
}

// locals lists what a file declares for one function: parameters, results and variables.
func (t *Tree) locals(f *File) []prose.Name {
	var out []prose.Name
	add := func(es ...ast.Expr) {
		for _, e := range es {
			if id, ok := e.(*ast.Ident); ok {
				out = append(out, prose.Name{Line: t.line(id.Pos()), Text: id.Name})
			}
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(n.Lhs...)
			}
		case *ast.RangeStmt:
			add(n.Key, n.Value)
		case *ast.DeclStmt:
			ast.Inspect(n, func(n ast.Node) bool {
				if s, ok := n.(*ast.ValueSpec); ok {
					for _, id := range s.Names {
						add(id)
					}
				}
				return true
			})
		case *ast.FuncType:
			for _, list := range []*ast.FieldList{n.Params, n.Results} {
				if list == nil {
					continue
				}
				for _, field := range list.List {
					for _, id := range field.Names {
						add(id)
					}
				}
			}
		}
		return true
	})
	return out
}

// checkFormat holds every Go file to gofmt.
func checkFormat(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		for _, f := range p.Files {
			want, err := format.Source(f.Src)
			if err != nil || !slices.Equal(want, f.Src) {
				out = append(out, Finding{Path: f.Path, Text: "is not formatted"})
			}
		}
	}
	return out
}
