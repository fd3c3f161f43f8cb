package hook

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// Place maps where something is to lie, as the task sees it, to a directory of the node and a path beneath it.
func Place(t *Task, dest string) (root, rel string, err error) {
	if dest, err = t.Interpolate(dest); err != nil {
		return "", "", err
	}
	dest = path.Clean(dest)
	if r, err := filepath.Rel(t.TaskDir, dest); err == nil && !outside(r) {
		return t.TaskDir, r, nil
	}
	if r, err := filepath.Rel(t.AllocDir, dest); err == nil && !outside(r) {
		return t.AllocDir, r, nil
	}
	inner := strings.TrimPrefix(dest, "/")
	first, rest, _ := strings.Cut(inner, "/")
	own := first == job.LocalDir || first == job.SecretsDir || first == job.TmpDir
	isolated := t.DriverInfo.Capabilities.FSIsolation != driver.IsolationNone
	switch {
	case first == job.SharedDir && rest != "":
		return t.AllocDir, rest, nil
	case own && rest != "" && (isolated || !path.IsAbs(dest)):
		return t.TaskDir, inner, nil
	case path.IsAbs(dest) || outside(dest):
		return "", "",
			fault.WithHint(
				fault.New(fault.Invalid, "", "",
					fmt.Sprintf("destination %q lies outside the task's directories", dest)),
				"begin it with local/, secrets/ or alloc/")
	}
	return t.TaskDir, inner, nil
}

func outside(rel string) bool {
	return rel == "." || rel == ".." || strings.HasPrefix(rel, "../") || path.IsAbs(rel)
}

// Failure is the error of a hook that is told by an event of its own.
type Failure struct {
	Event string // its type
	Err   error
	Final bool // another start of the task would meet the same
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }
