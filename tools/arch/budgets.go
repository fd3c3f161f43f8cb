package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

const ratchetFile = "tools/arch/ratchet.txt"

// The ceilings, in lines, fields and methods.
var limits = map[string]int{"file": 500, "func": 60, "package": 2000, "struct": 16, "interface": 5}

// shapes are packages whose types mirror a wire format, a configuration or a job: they have as many fields as those.
var shapes = []string{"api/**", "jobspec/**", "internal/model/**", "internal/wire/**"}

// measure is the size of one thing.
type measure struct {
	kind, name string // "func", "internal/x/y.go:Type.Method"
	size       int
	at         Finding
}

func (m measure) key() string { return m.kind + " " + m.name }

// allowance is a line of the ratchet: how large one thing may be for now.
type allowance struct {
	size, line int
}

func checkBudgets(t *Tree) []Finding {
	text, err := fs.ReadFile(t.FS, ratchetFile)
	if err != nil {
		return []Finding{{Path: ratchetFile, Text: err.Error()}}
	}
	allowed, out := parseRatchet(string(text))
	for _, m := range t.measures() {
		limit := limits[m.kind]
		a, listed := allowed[m.key()]
		delete(allowed, m.key())
		switch {
		case listed && m.size <= limit:
			out = append(out,
				Finding{Path: ratchetFile, Line: a.line, Text: m.key() + " is within the limit: delete this line"})
		case listed && m.size < a.size:
			out = append(out,
				Finding{
					Path: ratchetFile,
					Line: a.line,
					Text: fmt.Sprintf("%s shrank to %d: write that here", m.key(), m.size),
				})
		case listed && m.size > a.size:
			m.at.Text = fmt.Sprintf("%s grew from %d to %d; the limit is %d", m.key(), a.size, m.size, limit)
			out = append(out, m.at)
		case !listed && m.size > limit:
			m.at.Text = fmt.Sprintf("%s has %d; the limit is %d", m.key(), m.size, limit)
			out = append(out, m.at)
		}
	}
	// any order: findings are sorted where they are shown
	for key, a := range allowed {
		out = append(out, Finding{Path: ratchetFile, Line: a.line, Text: key + " does not exist: delete this line"})
	}
	return out
}

// parseRatchet reads lines like `func internal/x/y.go:Name 75 : reason`.
func parseRatchet(text string) (map[string]allowance, []Finding) {
	allowed := map[string]allowance{}
	var wrong []Finding
	for i, raw := range strings.Split(text, "\n") {
		line := strings.TrimSpace(raw)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "waive ") {
			continue
		}
		body, reason, ok := strings.Cut(line, " : ")
		words := strings.Fields(body)
		size := 0
		if len(words) == 3 {
			size, _ = strconv.Atoi(words[2]) // zero is refused below
		}
		if !ok || strings.TrimSpace(reason) == "" || size == 0 {
			wrong = append(wrong, Finding{Path: ratchetFile, Line: i + 1, Text: "want `kind name size : reason`"})
			continue
		}
		allowed[words[0]+" "+words[1]] = allowance{size: size, line: i + 1}
	}
	return allowed, wrong
}

// measures takes the size of everything that has a limit.
func (t *Tree) measures() []measure {
	var out []measure
	for _, p := range t.Sorted() {
		logic := 0
		changers := stateChangers(p)
		for _, f := range p.Code() {
			if f.Generated {
				continue
			}
			out = append(out, measure{"file", f.Path, strings.Count(string(f.Src), "\n"), Finding{Path: f.Path}})
			out = append(out, t.declarations(f, changers)...)
			if hasLogic(f) {
				logic += t.codeLines(f)
			}
		}
		if p.Name != "" {
			out = append(out, measure{"package", p.Dir, logic, Finding{Path: p.Dir}})
		}
	}
	return out
}

func (t *Tree) declarations(f *File, changers map[string]bool) []measure {
	var out []measure
	for _, d := range f.AST.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil {
				out = append(out,
					measure{"func", f.Path + ":" + funcName(d), t.span(d) - t.tableLines(d.Body), t.at(f, d, "")})
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				ts, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				switch typ := ts.Type.(type) {
				case *ast.StructType:
					if changers[ts.Name.Name] && !isShape(f, ts.Name.Name, typ) {
						out = append(out,
							measure{"struct", f.Path + ":" + ts.Name.Name, fields(typ.Fields), t.at(f, ts, "")})
					}
				case *ast.InterfaceType:
					out = append(out, measure{"interface", f.Path + ":" + ts.Name.Name, methods(typ), t.at(f, ts, "")})
				}
			}
		}
	}
	return out
}

// isShape tells types that mirror something outside: by their package, as a configuration, or because every field says
// how it is encoded.
func isShape(f *File, name string, typ *ast.StructType) bool {
	untagged := slices.ContainsFunc(typ.Fields.List, func(field *ast.Field) bool { return field.Tag == nil })
	return matchesAny(shapes, f.Pkg.Dir) || strings.HasSuffix(name, "Config") || !untagged
}

func (t *Tree) span(n ast.Node) int { return t.line(n.End()) - t.line(n.Pos()) + 1 }

// tableLines counts the lines inside literals that hold data alone: a literal with a function in it is code.
func (t *Tree) tableLines(body ast.Node) int {
	total := 0
	ast.Inspect(body, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if containsFunc(lit) {
			return true
		}
		total += t.span(lit) - 1
		return false
	})
	return total
}

func containsFunc(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		_, isFunc := n.(*ast.FuncLit)
		found = found || isFunc
		return !found
	})
	return found
}

// hasLogic is false for files that hold only types, constants and tables.
func hasLogic(f *File) bool {
	for _, d := range f.AST.Decls {
		if _, ok := d.(*ast.FuncDecl); ok {
			return true
		}
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR && containsFunc(g) {
			return true
		}
	}
	return false
}

// codeLines counts lines that are neither blank nor only comment.
func (t *Tree) codeLines(f *File) int {
	commented := map[int]bool{}
	for _, group := range f.AST.Comments {
		for l := t.line(group.Pos()); l <= t.line(group.End()); l++ {
			commented[l] = true
		}
	}
	n := 0
	for i, line := range strings.Split(string(f.Src), "\n") {
		line = strings.TrimSpace(line)
		if line != "" &&
			!(commented[i+1] &&
				(strings.HasPrefix(line, "//") || strings.HasPrefix(line, "/*") || strings.HasPrefix(line, "*"))) {
			n++
		}
	}
	return n
}

// stateChangers names the types of a package with a method that assigns to what its receiver points to.
func stateChangers(p *Package) map[string]bool {
	out := map[string]bool{}
	for _, f := range p.Code() {
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Body == nil || len(fn.Recv.List[0].Names) == 0 {
				continue
			}
			star, ok := fn.Recv.List[0].Type.(*ast.StarExpr)
			if ok && assignsTo(fn.Body, fn.Recv.List[0].Names[0].Name) {
				out[receiver(star.X)] = true
			}
		}
	}
	return out
}

func assignsTo(body *ast.BlockStmt, name string) bool {
	found := false
	root := func(e ast.Expr) bool {
		for {
			switch x := e.(type) {
			case *ast.SelectorExpr:
				e = x.X
			case *ast.IndexExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.Ident:
				return x.Name == name
			default:
				return false
			}
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				_, plain := left.(*ast.Ident)
				found = found || !plain && root(left)
			}
		case *ast.IncDecStmt:
			found = found || root(n.X)
		}
		return !found
	})
	return found
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	return receiver(d.Recv.List[0].Type) + "." + d.Name.Name
}

func fields(list *ast.FieldList) int {
	n := 0
	for _, f := range list.List {
		n += max(1, len(f.Names))
	}
	return n
}

// methods counts what an interface itself asks for; roles that it embeds have their own budget.
func methods(it *ast.InterfaceType) int {
	n := 0
	for _, m := range it.Methods.List {
		n += len(m.Names)
	}
	return n
}
