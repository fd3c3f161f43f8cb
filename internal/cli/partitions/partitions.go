// Package partitions owns the commands about what divides a cluster: namespaces and node pools. Only packages of the
// command line import it.
package partitions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/jobs"
	"berth/internal/cli/kit"
	"berth/jobspec"
)

// isFile tells an argument that names a file from one that names the object: it is -, or has a folder or the ending of
// such a file.
func isFile(arg string) bool {
	return arg == "-" || strings.Contains(arg, "/") || strings.HasSuffix(arg, ".hcl") || strings.HasSuffix(arg, ".json")
}

// parsed reads an object from a file, or from the standard input when it is named -.
func parsed[T any](e *kit.Env, name, what string, parse func(string, []byte) (*T, error)) (*T, error) {
	text, shown, err := e.ReadFile(name, what, jobspec.MaxSource+1)
	if err != nil {
		return nil, err
	}
	out, err := parse(shown, text)
	if err != nil {
		return nil, jobs.Problems(e, shown, err)
	}
	return out, nil
}

// entries reads the texts key=value of a flag.
func entries(into map[string]string, texts []string) (map[string]string, error) {
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, kit.Usage("-meta takes key=value, not %q", text)
		}
		if into == nil {
			into = map[string]string{}
		}
		into[key] = value
	}
	return into, nil
}

// meta shows the entries of an object.
func meta(p *kit.Printer, m map[string]string) {
	if len(m) == 0 {
		return
	}
	p.Section("Meta")
	var l kit.Pairs
	for _, k := range slices.Sorted(maps.Keys(m)) {
		l.Add(k, m[k])
	}
	p.Pairs(l)
}

// deleted says that something is gone.
func deleted(e *kit.Env, err error, kind, name string) error {
	if err == nil {
		e.Out.Printf("%s %q is deleted\n", strings.ToUpper(kind[:1])+kind[1:], kit.Clean(name))
	}
	var status *api.StatusError
	missing := errors.As(err, &status) && strings.HasSuffix(status.Body, kind+" not found")
	if err = kit.Doing(err, "delete", kind, name); missing {
		return fault.WithHint(err, fmt.Sprintf("\"berth %s list\" lists them", kind))
	}
	return err
}

// written says that something is as it was asked for, or shows it.
func written[T any](
	ctx context.Context, e *kit.Env, f *kit.Formats, err error, kind, name string,
	read func(ctx context.Context, name string) (*T, error),
) error {
	if err != nil {
		return kit.Doing(err, "write", kind, name)
	}
	if !f.Wanted() {
		e.Out.Printf("%s %q is written\n", strings.ToUpper(kind[:1])+kind[1:], kit.Clean(name))
		return nil
	}
	now, err := read(ctx, name)
	return f.Show(e.Out, now, kit.Doing(err, "read", kind, name), nil)
}

// newFile writes a file that is not there.
func newFile(e *kit.Env, name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return kit.Fail(fault.Conflict, "give the name of another file", "the file %s is there already", name)
	}
	if err != nil {
		return fmt.Errorf("the file cannot be written: %w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("the file cannot be written: %w", err)
	}
	e.Out.Printf("Wrote %s; edit it, then: berth node pool apply %s\n", name, name)
	return nil
}
