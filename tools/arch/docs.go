package arch

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

var owns = regexp.MustCompile(`(?i)\b(owns?|contract)\b`)

// checkPackageDocs asks every package for one doc comment that says what the package owns. Tests alone need none.
func checkPackageDocs(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		var docs []*File
		for _, f := range p.Code() {
			if f.AST.Doc != nil && strings.TrimSpace(f.AST.Doc.Text()) != "" {
				docs = append(docs, f)
			}
		}
		if len(p.Code()) == 0 {
			continue
		}
		if len(docs) != 1 {
			out = append(out, Finding{Path: p.Dir, Text: fmt.Sprintf("has %d package comments, want one", len(docs))})
			continue
		}
		doc := docs[0].AST.Doc.Text()
		if p.Name != "main" && !strings.HasPrefix(doc, "Package "+p.Name+" ") {
			out = append(out,
				t.at(docs[0], docs[0].AST.Name, "the package comment does not begin with %q", "Package "+p.Name))
		}
		if strings.HasPrefix(p.Dir, "internal/") && p.Name != "main" && !owns.MatchString(doc) {
			out = append(out, t.at(docs[0], docs[0].AST.Name, "the package comment does not say what the package owns"))
		}
	}
	return out
}

// known are methods that an interface everybody knows asks for; their meaning is in that interface.
var known = strings.Fields(`String GoString Error Unwrap Is As Format Write Read Close Len Less Swap Push Pop
	MarshalJSON UnmarshalJSON MarshalText UnmarshalText MarshalCBOR UnmarshalCBOR MarshalBinary UnmarshalBinary LogValue
	ServeHTTP RoundTrip Run GRPCStatus LocalAddr RemoteAddr SetDeadline SetReadDeadline SetWriteDeadline Set Type Name`)

// checkIdentifierDocs asks every exported type, function, method and group of values for a comment.
func checkIdentifierDocs(t *Tree) []Finding {
	var out []Finding
	t.eachCode(func(f *File) {
		if f.Generated || f.Pkg.Name == "main" {
			return
		}
		for _, d := range f.AST.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if undocumented(d) {
					out = append(out, t.at(f, d, "%s has no comment", funcName(d)))
				}
			case *ast.GenDecl:
				out = append(out, t.undocumentedSpecs(f, d)...)
			}
		}
	})
	return out
}

func undocumented(d *ast.FuncDecl) bool {
	if !d.Name.IsExported() || d.Doc != nil {
		return false
	}
	return d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) && !slices.Contains(known, d.Name.Name)
}

func (t *Tree) undocumentedSpecs(f *File, d *ast.GenDecl) []Finding {
	var out []Finding
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
				out = append(out, t.at(f, s, "type %s has no comment", s.Name.Name))
			}
		case *ast.ValueSpec:
			if s.Names[0].IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
				out = append(out, t.at(f, s, "%s has no comment", s.Names[0].Name))
			}
		}
	}
	return out
}
