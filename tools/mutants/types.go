package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"

	"berth/internal/base/lifecycle"
)

// listed is what go list tells of a package.
type listed struct {
	ImportPath string
	Dir        string
	Export     string // the file that holds what it exports
	GoFiles    []string
}

// compile reports the mutants that do not compile: such a one breaks nothing, and what it was to show is shown no
// longer. The types are judged without the compiler, against what the compiler has made of the other packages: all
// entries take seconds.
func compile(ctx context.Context, root string, list []mutant) error {
	byDir := map[string][]mutant{}
	for _, m := range list {
		dir := path.Dir(m.file)
		byDir[dir] = append(byDir[dir], m)
	}
	dirs := slices.Sorted(maps.Keys(byDir))
	exports, packages, err := goList(ctx, root)
	if err != nil {
		return err
	}
	found := make([]error, len(dirs))
	jobs := make(chan int, len(dirs))
	for i := range dirs {
		jobs <- i
	}
	close(jobs)
	workers, gctx := lifecycle.NewGroup(ctx)
	for range runtime.GOMAXPROCS(0) {
		workers.Go("types", func() error {
			for i := range jobs {
				if err := gctx.Err(); err != nil {
					return err
				}
				pkg, ok := packages[filepath.Join(root, dirs[i])]
				if !ok {
					found[i] = fmt.Errorf("%s: holds no package", dirs[i])
					continue
				}
				found[i] = compilePackage(root, pkg, exports, byDir[dirs[i]])
			}
			return nil
		})
	}
	return errors.Join(workers.Wait(), errors.Join(found...))
}

// goList has the compiler make what it lacks, and tells where it is.
func goList(ctx context.Context, root string) (exports map[string]string, byDir map[string]listed, err error) {
	// Not the directories by name: some are of modules that this one replaces.
	cmd := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w\n%s", err, tail(stderr.String()))
	}
	exports, byDir = map[string]string{}, map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return exports, byDir, nil
		} else if err != nil {
			return nil, nil, err
		}
		exports[p.ImportPath] = p.Export
		byDir[p.Dir] = p
	}
}

// compilePackage judges the mutants of one package.
func compilePackage(root string, pkg listed, exports map[string]string, list []mutant) error {
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("package %s is not among what go list tells", path)
		}
		return os.Open(exports[path])
	})
	files := map[string]*ast.File{}
	for _, name := range pkg.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files[name] = f
	}
	var errs []error
	for _, m := range list {
		name := filepath.Base(m.file)
		text, err := m.apply(root)
		if err != nil || files[name] == nil {
			continue // stale, or of a test: TestTheListsAreFresh says the first, a run the second
		}
		edited, err := parser.ParseFile(fset, filepath.Join(pkg.Dir, name), text, parser.SkipObjectResolution)
		if err == nil {
			of := maps.Clone(files)
			of[name] = edited
			_, err = (&types.Config{Importer: imports, Sizes: types.SizesFor("gc", runtime.GOARCH)}).
				Check(pkg.ImportPath, fset, slices.Collect(maps.Values(of)), nil)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: entry %q does not compile: %w", m.at, m.name, err))
		}
	}
	return errors.Join(errs...)
}
