package functions

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// maxFile bounds a file that a document pulls in.
const maxFile = 4 << 20

// pathFunc makes a constructor of functions of a path. Relative paths start at the document's directory.
func pathFunc(f func(dir, p string) (string, error)) func(dir string) function.Function {
	return func(dir string) function.Function {
		return textErrFunc(func(p string) (string, error) { return f(dir, p) })
	}
}

func resolve(dir, p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(dir, p)
}

func absPath(dir, p string) (string, error) { return filepath.Abs(resolve(dir, p)) }
func baseName(_, p string) (string, error)  { return filepath.Base(p), nil }
func dirName(_, p string) (string, error)   { return filepath.Dir(p), nil }

func pathExpand(_, p string) (string, error) {
	if p != "~" && !strings.HasPrefix(p, "~/") {
		return p, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("expand %q: %w", p, err)
	}
	return filepath.Join(home, strings.TrimPrefix(p, "~")), nil
}

// ReadFile reads a file of the author's machine.
func ReadFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return data, nil
}

func readText(dir, p string) (string, error) {
	data, err := ReadFile(resolve(dir, p), maxFile)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(data) {
		return "", fmt.Errorf("%s is not UTF-8 text; use filebase64", p)
	}
	return string(data), nil
}

func readBase64(dir, p string) (string, error) {
	data, err := ReadFile(resolve(dir, p), maxFile)
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(data), nil
}

func fileExistsFunc(dir string) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			info, err := os.Stat(resolve(dir, args[0].AsString()))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return cty.False, nil
			case err != nil:
				return cty.NilVal, fmt.Errorf("look for the file: %w", err)
			case !info.Mode().IsRegular():
				return cty.NilVal, fmt.Errorf("%s is not a regular file", args[0].AsString())
			}
			return cty.True, nil
		},
	})
}

// maxFileSet bounds the files that fileset returns.
const maxFileSet = 10000

func fileSetFunc(dir string) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}, {Name: "pattern", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Set(cty.String)),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			root, pattern := resolve(dir, args[0].AsString()), args[1].AsString()
			if _, err := path.Match(pattern, ""); err != nil {
				return cty.NilVal, function.NewArgErrorf(1, "the pattern is not valid")
			}
			var found []cty.Value
			err := fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				if d.Type().IsRegular() && globMatch(strings.Split(pattern, "/"), strings.Split(p, "/")) {
					found = append(found, cty.StringVal(p))
				}
				if len(found) > maxFileSet {
					return fmt.Errorf("more than %d files match", maxFileSet)
				}
				return nil
			})
			if err != nil {
				return cty.NilVal, fmt.Errorf("list the files: %w", err)
			}
			if len(found) == 0 {
				return cty.SetValEmpty(cty.String), nil
			}
			return cty.SetVal(found), nil
		},
	})
}

// globMatch matches a path element by element; ** stands for any number of them.
func globMatch(pattern, name []string) bool {
	if len(pattern) == 0 {
		return len(name) == 0
	}
	if pattern[0] == "**" {
		for i := 0; i <= len(name); i++ {
			if globMatch(pattern[1:], name[i:]) {
				return true
			}
		}
		return false
	}
	if len(name) == 0 {
		return false
	}
	ok, err := path.Match(pattern[0], name[0])
	return ok && err == nil && globMatch(pattern[1:], name[1:])
}
