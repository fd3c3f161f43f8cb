package arch

import (
	"errors"
	"go/ast"
	"go/types"
	"strings"
)

// typer knows the types of expressions as far as this module's own code tells them. Packages from outside stand empty:
// loading them would take a hundred times as long, and what a rule cannot know by type it takes by name.
type typer struct {
	tree  *Tree
	done  map[string]*types.Package
	infos map[string]*types.Info
}

func newTyper(t *Tree) *typer {
	return &typer{tree: t, done: map[string]*types.Package{}, infos: map[string]*types.Info{}}
}

// Import gives a package of this module, or an empty one for those outside.
func (ty *typer) Import(importPath string) (*types.Package, error) {
	if dir, ok := ty.tree.Local(importPath); ok && ty.tree.Packages[dir] != nil {
		pkg, _ := ty.check(dir)
		if pkg == nil {
			return nil, errors.New("import cycle")
		}
		return pkg, nil
	}
	if pkg := ty.done[importPath]; pkg != nil {
		return pkg, nil
	}
	pkg := types.NewPackage(importPath, guessName(importPath))
	pkg.MarkComplete()
	ty.done[importPath] = pkg
	return pkg, nil
}

func (ty *typer) check(dir string) (*types.Package, *types.Info) {
	importPath := ty.tree.Module + "/" + dir
	if pkg, seen := ty.done[importPath]; seen {
		return pkg, ty.infos[importPath]
	}
	ty.done[importPath] = nil // under way: seen again it is a cycle
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	var files []*ast.File
	for _, f := range ty.tree.Packages[dir].Code() {
		files = append(files, f.AST)
	}
	// Errors are expected where types come from outside; the compiler is who complains about real ones.
	cfg := types.Config{Importer: ty, Error: func(error) {}, DisableUnusedImportCheck: true, FakeImportC: true}
	pkg, _ := cfg.Check(importPath, ty.tree.Fset, files, info)
	ty.done[importPath], ty.infos[importPath] = pkg, info
	return pkg, info
}

// typeOf returns the type of an expression in non-test code, nil when it is not known.
func (t *Tree) typeOf(f *File, e ast.Expr) types.Type {
	_, info := t.typed.check(f.Pkg.Dir)
	if info == nil {
		return nil
	}
	typ := info.TypeOf(e)
	if typ == nil || typ == types.Typ[types.Invalid] || strings.Contains(typ.String(), "invalid type") {
		return nil
	}
	return typ
}

// isMap reports whether an expression is known to be a map.
func (t *Tree) isMap(f *File, e ast.Expr) bool {
	_, info := t.typed.check(f.Pkg.Dir)
	if info == nil {
		return false
	}
	typ := info.TypeOf(e)
	if typ == nil {
		return false
	}
	if p, ok := typ.(*types.TypeParam); ok {
		_, m := p.Underlying().(*types.Interface)
		return m && strings.Contains(p.Constraint().String(), "map[")
	}
	_, m := typ.Underlying().(*types.Map)
	return m
}

// isError reports whether an expression is an error: by its type, or by its name when the type is not known.
func (t *Tree) isError(f *File, e ast.Expr) bool {
	if typ := t.typeOf(f, e); typ != nil {
		errType := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
		if b, ok := typ.Underlying().(*types.Basic); ok && b.Kind() == types.UntypedNil {
			return false
		}
		return types.Implements(typ, errType)
	}
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	}
	return name == "err" || name == "Err" || strings.HasSuffix(name, "Err") ||
		len(name) > 3 && strings.HasPrefix(name, "err") && name[3] >= 'A' && name[3] <= 'Z'
}
