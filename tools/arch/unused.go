package arch

import (
	"go/ast"
	"go/token"
	"io/fs"
	"slices"
	"strings"
)

// keptFile lists what nobody uses yet: `name : the announced feature that will, and why it stands already`.
const keptFile = "tools/arch/kept.txt"

// checkUnused finds exported types, constants, variables and fields of internal packages that no program mentions, and
// fields that are filled in and never read. It goes by names: one that stands anywhere else counts as used. Functions
// are searched by deadcode, in `make lint`.
func checkUnused(t *Tree) []Finding {
	used := t.usedNames()
	text, err := fs.ReadFile(t.FS, keptFile)
	if err != nil {
		return []Finding{{Path: keptFile, Text: err.Error()}}
	}
	kept, out := parseKept(string(text))
	for _, p := range t.Sorted() {
		if !matches("internal/**", p.Dir) || matchesAny(suites, p.Dir) {
			continue
		}
		for _, f := range p.Code() {
			if f.Generated {
				continue
			}
			for _, d := range exported(f.AST) {
				key := p.Dir + "." + d.owner + d.name.Name
				if slices.ContainsFunc(d.names, func(id *ast.Ident) bool { return used[id.Name] }) {
					continue
				}
				if _, listed := kept[key]; !listed {
					out = append(out, t.at(f, d.name, "nobody reads %s%s", d.owner, d.name.Name))
				}
				delete(kept, key)
			}
		}
	}
	// any order: findings are sorted where they are shown
	for key, line := range kept {
		if !strings.Contains(key, "()") { // of functions, which `make lint` judges
			out = append(out, Finding{Path: keptFile, Line: line, Text: key + " is used, or gone: delete this line"})
		}
	}
	return out
}

func parseKept(text string) (kept map[string]int, wrong []Finding) {
	kept = map[string]int{}
	for i, raw := range strings.Split(text, "\n") {
		line := strings.TrimSpace(raw)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, why, ok := strings.Cut(line, " : ")
		if !ok || strings.TrimSpace(why) == "" {
			wrong = append(wrong, Finding{Path: keptFile, Line: i + 1, Text: "want `name : feature and reason`"})
			continue
		}
		kept[key] = i + 1
	}
	return kept, wrong
}

// declared is an exported name at the place of its declaration; owner is the type of a field, with a dot.
type declared struct {
	owner string
	name  *ast.Ident
	names []*ast.Ident // those that it stands and falls with: a list of constants is a vocabulary, used as a whole
}

// exported lists what a file declares beside functions. Fields that say how they are encoded are read by those who
// decode them.
func exported(f *ast.File) []declared {
	var out []declared
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					out = append(out, declared{name: name, names: vocabulary(g, name)})
				}
			case *ast.TypeSpec:
				out = append(out, declared{name: s.Name, names: []*ast.Ident{s.Name}})
				if st, ok := s.Type.(*ast.StructType); ok && s.Name.IsExported() {
					out = append(out, ownFields(s.Name.Name, st)...)
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(d declared) bool { return !d.name.IsExported() })
}

// vocabulary lists the constants that are declared together with one.
func vocabulary(g *ast.GenDecl, name *ast.Ident) []*ast.Ident {
	if g.Tok != token.CONST {
		return []*ast.Ident{name}
	}
	var out []*ast.Ident
	for _, s := range g.Specs {
		out = append(out, s.(*ast.ValueSpec).Names...)
	}
	return out
}

// ownFields lists the fields of a type that is no shape of something encoded: where no tag gives them another name, an
// option of one alone (`cbor:",omitzero"`) says nothing of who reads them.
func ownFields(typ string, st *ast.StructType) []declared {
	var out []declared
	for _, field := range st.Fields.List {
		for _, name := range field.Names {
			if field.Tag == nil || strings.Contains(field.Tag.Value, `cbor:",`) {
				out = append(out, declared{owner: typ + ".", name: name, names: []*ast.Ident{name}})
			}
		}
	}
	return out
}

// usedNames are the names that programs and the suites of tests read: all but those that are declared or filled in.
func (t *Tree) usedNames() map[string]bool {
	used := map[string]bool{}
	t.eachCode(func(f *File) {
		written := map[*ast.Ident]bool{}
		for _, d := range exported(f.AST) {
			written[d.name] = true
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						if id, ok := kv.Key.(*ast.Ident); ok {
							written[id] = true
						}
					}
				}
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					if s, ok := left.(*ast.SelectorExpr); ok && n.Tok == token.ASSIGN {
						written[s.Sel] = true
					}
				}
			case *ast.Ident:
				if !written[n] {
					used[n.Name] = true
				}
			}
			return true
		})
	})
	return used
}
