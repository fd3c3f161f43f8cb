// Package arch owns the architecture tests: what ARCHITECTURE.md calls laws is checked here on the syntax of the whole
// tree. Nothing imports it; it runs as `go test ./tools/arch`.
package arch

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"

	"berth/tools/arch/prose"
)

// Tree is the repository as the rules see it.
type Tree struct {
	Module   string
	FS       fs.FS
	Fset     *token.FileSet
	Packages map[string]*Package // by directory, slash-separated, relative to the root
	Texts    []string            // every file of the tree, code and others
	typed    *typer
}

// Package is the Go code of one directory.
type Package struct {
	Dir   string
	Name  string
	Files []*File
}

// File is one Go file.
type File struct {
	Path      string
	Src       []byte
	AST       *ast.File
	Pkg       *Package
	Test      bool
	Generated bool
}

// Load reads and parses a tree. Folders with a go.mod of their own, testdata and hidden folders but .ci are left out.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{FS: fsys, Fset: token.NewFileSet(), Packages: map[string]*Package{}}
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	t.Module = strings.TrimSpace(strings.TrimPrefix(first, "module "))
	err = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file of an editor or a build, gone again
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			return t.enter(p, d)
		}
		if !d.Type().IsRegular() || p == ".git" { // which is a file in a second working tree
			return nil
		}
		t.Texts = append(t.Texts, p)
		if strings.HasSuffix(p, ".go") && !foreign(p) {
			return t.parse(p)
		}
		return nil
	})
	t.typed = newTyper(t)
	return t, err
}

func (t *Tree) enter(p string, d fs.DirEntry) error {
	name := d.Name()
	switch {
	case p == ".", name == ".ci":
		return nil
	case strings.HasPrefix(name, "."), p == "bin":
		return fs.SkipDir
	}
	return nil
}

// foreign tells files that the go command does not build as part of this module. Folders with a module of their own
// are named here, because their Go code obeys other needs.
func foreign(p string) bool {
	return strings.Contains(p, "testdata/") || strings.HasPrefix(p, "compat/") ||
		strings.HasPrefix(p, "examples/driver/") || strings.HasPrefix(p, "examples/device/")
}

func (t *Tree) parse(p string) error {
	src, err := fs.ReadFile(t.FS, p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(t.Fset, p, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", p, err)
	}
	dir := path.Dir(p)
	pkg := t.Packages[dir]
	if pkg == nil {
		pkg = &Package{Dir: dir}
		t.Packages[dir] = pkg
	}
	f := &File{
		Path:      p,
		Src:       src,
		AST:       file,
		Pkg:       pkg,
		Test:      strings.HasSuffix(p, "_test.go"),
		Generated: ast.IsGenerated(file),
	}
	if !f.Test {
		pkg.Name = file.Name.Name
	}
	pkg.Files = append(pkg.Files, f)
	return nil
}

// Sorted lists the packages by directory.
func (t *Tree) Sorted() []*Package {
	out := make([]*Package, 0, len(t.Packages))
	for _, p := range t.Packages {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *Package) int { return strings.Compare(a.Dir, b.Dir) })
	return out
}

// Code lists the files that are built into programs.
func (p *Package) Code() []*File {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Test })
}

// Suite tells packages that only tests call: fixtures, and suites that a contract brings for those who implement it.
func (p *Package) Suite() bool {
	uses := func(f *File) bool { return f.alias("testing") != "" }
	return matches("internal/testkit/**", p.Dir) ||
		strings.HasSuffix(p.Name, "test") && slices.ContainsFunc(p.Files, uses)
}

// Imports lists the import paths of a file with their places.
func (f *File) Imports() []*ast.ImportSpec { return f.AST.Imports }

func importPath(spec *ast.ImportSpec) string { return strings.Trim(spec.Path.Value, "`\"") }

// Local turns the import path of a package of this module into its directory.
func (t *Tree) Local(importPath string) (dir string, ok bool) {
	if importPath == t.Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, t.Module+"/")
}

// alias finds the name under which a file uses an import; empty when it does not import it.
func (f *File) alias(want string) string {
	for _, spec := range f.AST.Imports {
		if importPath(spec) != want {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return guessName(want)
	}
	return ""
}

// guessName is the package name that an import path most likely has.
func guessName(importPath string) string {
	parts := strings.Split(importPath, "/")
	last := parts[len(parts)-1]
	if len(parts) > 1 && len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" {
		last = parts[len(parts)-2]
	}
	last, _, _ = strings.Cut(last, ".")
	return strings.TrimPrefix(last, "go-")
}

// matches tells whether a directory or import path falls under a pattern of prose.Under, or "std": the standard
// library.
func matches(pattern, name string) bool {
	if pattern == "std" {
		first, _, _ := strings.Cut(name, "/")
		return !strings.Contains(first, ".") && !ours(name)
	}
	return prose.Under(pattern, name)
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}
