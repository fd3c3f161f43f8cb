package jobs

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth/internal/cli/kit"
	"berth/jobspec"
)

// formatter is "fmt".
type formatter struct {
	env              *kit.Env
	check, recursive bool
	list, write      bool
}

func newFmt(e *kit.Env) *kit.Command {
	f := &formatter{env: e}
	cmd := &kit.Command{
		Use:   "fmt [flags] [path...]",
		Short: "Give job files the usual form",
		Long: `Rewrites files with the usual spacing and indentation, and prints the names of those that changed. In
directories, by default the present one, it takes files that end in .hcl. A file named - is read from the standard input
and printed.`,
		Example: "  berth fmt\n  berth fmt -check -recursive jobs/",
		Local:   true,
		Run: func(ctx context.Context, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			return f.do(args)
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&f.check, "check", false, "change nothing; exit with 1 when a file has another form")
	fs.BoolVar(&f.list, "list", true, "print the names of files that change")
	fs.BoolVar(&f.write, "write", true, "write the files")
	fs.BoolVar(&f.recursive, "recursive", false, "go into directories of directories")
	return cmd
}

func (f *formatter) do(args []string) error {
	changed := false
	for _, name := range args {
		if name == "-" {
			if err := f.stdin(); err != nil {
				return err
			}
			continue
		}
		files, err := f.files(name)
		if err != nil {
			return err
		}
		for _, file := range files {
			differs, err := f.file(file)
			if err != nil {
				return err
			}
			changed = changed || differs
		}
	}
	if f.check && changed {
		return &kit.Exit{Code: kit.ExitError}
	}
	return nil
}

func (f *formatter) stdin() error {
	text, shown, err := f.env.ReadFile("-", "file", jobspec.MaxSource+1)
	if err != nil {
		return err
	}
	out, err := jobspec.Format(shown, text)
	if err != nil {
		return Problems(f.env, shown, err)
	}
	_, err = f.env.Out.Write(out)
	return err
}

// files lists what a name stands for.
func (f *formatter) files(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("there is nothing to format: %w", err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var out []string
	err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != name && !f.recursive:
			return fs.SkipDir
		case d.Type().IsRegular() && strings.HasSuffix(path, ".hcl"):
			out = append(out, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the directory cannot be read: %w", err)
	}
	return out, nil
}

func (f *formatter) file(name string) (changed bool, err error) {
	text, shown, err := f.env.ReadFile(name, "file", jobspec.MaxSource+1)
	if err != nil {
		return false, err
	}
	out, err := jobspec.Format(shown, text)
	if err != nil {
		return false, Problems(f.env, shown, err)
	}
	if bytes.Equal(out, text) {
		return false, nil
	}
	if f.list {
		f.env.Out.Text(shown + "\n")
	}
	if f.check || !f.write {
		return true, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return true, fmt.Errorf("the file cannot be written: %w", err)
	}
	if err := os.WriteFile(name, out, info.Mode().Perm()); err != nil {
		return true, fmt.Errorf("the file cannot be written: %w", err)
	}
	return true, nil
}
