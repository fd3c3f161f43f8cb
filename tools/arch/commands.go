package arch

import (
	"go/ast"
	"path"
	"strconv"
	"strings"

	"berth/tools/arch/syntax"
)

const (
	fsmDir     = "internal/server/fsm"
	testkitDir = "internal/testkit/" // fixtures of tests stand in for the owners
)

// command is a replicated command: a type of the FSM package, or of one beneath it, with a method Apply.
type command struct {
	name   string
	file   *File
	decl   ast.Node
	owners []string
}

// checkCommands asks every replicated command for the one package that proposes it, named where it is registered:
// Register[ClaimEnd]("claim-end", 1, "server/claims"), in the sub-packages fsm.Register.
func checkCommands(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		if p.Dir == fsmDir || strings.HasPrefix(p.Dir, fsmDir+"/") {
			out = append(out, t.checkCommandsOf(p)...)
		}
	}
	return out
}

func (t *Tree) checkCommandsOf(p *Package) []Finding {
	var out []Finding
	for _, c := range t.commands(p) {
		switch {
		case len(c.owners) == 0:
			out = append(out, t.at(c.file, c.decl, "command %s names no owner", c.name))
			continue
		case len(c.owners) > 1:
			out = append(out,
				t.at(c.file, c.decl, "command %s has several owners: %s", c.name, strings.Join(c.owners, ", ")))
			continue
		}
		owner := c.owners[0]
		if t.Packages[owner] == nil {
			out = append(out, t.at(c.file, c.decl, "command %s belongs to %s, which does not exist", c.name, owner))
			continue
		}
		proposed := false
		for _, other := range t.Sorted() {
			for _, f := range other.Code() {
				use := t.proposes(f, p, c.name)
				if use == nil || strings.HasPrefix(f.Pkg.Dir, fsmDir) || strings.HasPrefix(f.Pkg.Dir, testkitDir) {
					continue
				}
				if f.Pkg.Dir == owner {
					proposed = true
					continue
				}
				out = append(out, t.at(f, use, "%s proposes command %s, which belongs to %s", f.Pkg.Dir, c.name, owner))
			}
		}
		if !proposed {
			out = append(out, t.at(c.file, c.decl, "command %s is never proposed by its owner %s", c.name, owner))
		}
	}
	return out
}

func (t *Tree) commands(p *Package) []*command {
	var out []*command
	byName := map[string]*command{}
	eachMethod(p, func(f *File, d *ast.FuncDecl, typ string) {
		if d.Name.Name == "Apply" && ast.IsExported(typ) {
			c := &command{name: typ, file: f, decl: d}
			out, byName[typ] = append(out, c), c
		}
	})
	for _, f := range p.Code() {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if typ, owner := registration(n); byName[typ] != nil && owner != "" {
				byName[typ].owners = append(byName[typ].owners, owner)
			}
			return true
		})
	}
	return out
}

func eachMethod(p *Package, fn func(*File, *ast.FuncDecl, string)) {
	for _, f := range p.Code() {
		for _, d := range f.AST.Decls {
			if m, ok := d.(*ast.FuncDecl); ok && m.Recv != nil && m.Body != nil {
				fn(f, m, receiver(m.Recv.List[0].Type))
			}
		}
	}
}

// registration reads a call Register[Type](…, "server/claims"): its last argument is the owner, beneath internal.
func registration(n ast.Node) (typ, owner string) {
	c, ok := n.(*ast.CallExpr)
	if !ok || len(c.Args) == 0 {
		return "", ""
	}
	fn, ok := c.Fun.(*ast.IndexExpr)
	if !ok {
		return "", ""
	}
	if _, sel := syntax.Selector(fn.X); !syntax.IsIdent(fn.X, "Register") && sel != "Register" {
		return "", ""
	}
	lit, ok := c.Args[len(c.Args)-1].(*ast.BasicLit)
	if !ok {
		return "", ""
	}
	owner, err := strconv.Unquote(lit.Value)
	if err != nil {
		return "", ""
	}
	return receiver(fn.Index), path.Join("internal", owner)
}

// proposes finds a literal of a package's command in a file.
func (t *Tree) proposes(f *File, of *Package, name string) ast.Node {
	pkg := f.alias(t.Module + "/" + of.Dir)
	if pkg == "" {
		return nil
	}
	var found ast.Node
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok && found == nil {
			if x, sel := syntax.Selector(lit.Type); x == pkg && sel == name {
				found = lit
			}
		}
		return found == nil
	})
	return found
}
