// Package variable owns what users keep at paths for their jobs to read: what a path may be, how much one holds, when a
// write meets another one, who holds a lock on it, and what a task may read without a policy. It stores nothing, and
// sees no value: those are sealed beside the record.
package variable

import (
	"fmt"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/pattern"
)

// Schema is the number of the cluster from which on it has variables.
const Schema = 12

// Bounds of one variable.
const (
	MaxPath  = 128
	MaxBytes = 64 << 10 // of all keys and values together
)

// Variable is what is known of what lies at a path, but for its items: those are sealed under SealedName.
type Variable struct {
	Namespace   ids.Namespace
	Path        string
	Lock        *Lock     `cbor:",omitempty"`
	FreeAt      time.Time // set after a lock was lost: nobody acquires another before
	CreateTime  int64     // nanoseconds since the epoch
	ModifyTime  int64
	CreateIndex uint64
	ModifyIndex uint64
}

// Key is a variable's place in pages.
func (v *Variable) Key() string { return string(v.Namespace) + "." + v.Path }

// Name is what people call a variable.
func Name(path string) string { return fmt.Sprintf("variable %q", path) }

// SealedName is the name under which the items of a path are sealed: bytes of one path don't open at another.
func SealedName(ns ids.Namespace, path string) string {
	return "variable/" + string(ns) + "/" + path
}

var paths = pattern.Of(`^[A-Za-z0-9_~/-]+$`)

// reserved is the root under which the servers give paths a meaning.
const reserved = "nomad"

// Roots of what tasks read, and of texts of jobs.
const (
	jobsRoot      = reserved + "/jobs"
	templatesRoot = reserved + "/job-templates"
)

// ValidPath checks where a variable is to lie.
func ValidPath(path string) error {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "accept", Name(path), fmt.Sprintf(format, args...))
	}
	below := func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") }
	switch {
	case path == "":
		return refuse("it has no path; name one, such as app/db")
	case len(path) > MaxPath:
		return refuse("its path has %d characters, at most %d are allowed", len(path), MaxPath)
	case !paths().MatchString(path):
		return refuse("its path may have letters, digits, -, _, ~ and /; write it without the other characters")
	case strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//"):
		return refuse("its path has a slash too many; write it without those at its ends, and one between two names")
	case below(reserved) && !below(jobsRoot) && !below(templatesRoot):
		return refuse("paths below %s/ are reserved, but for %s/JOB/GROUP/TASK, which tasks read, and %s/NAME; choose "+
			"another beginning", reserved, jobsRoot, templatesRoot)
	}
	return nil
}

// ValidItems checks what a variable is to hold. No value is in the error.
func ValidItems(path string, items map[string]string) error {
	bytes := 0
	for k, v := range items { // any order: it is a sum
		if k == "" {
			return fault.New(fault.Invalid, "accept", Name(path), "it has an item without a key; name it")
		}
		bytes += len(k) + len(v)
	}
	if bytes > MaxBytes {
		return fault.WithHint(fault.New(fault.Invalid, "accept", Name(path), fmt.Sprintf("its items have %d bytes "+
			"together, keys and values, at most %d are allowed", bytes, MaxBytes)),
			"divide them between several variables, or keep large ones on a volume")
	}
	return nil
}
