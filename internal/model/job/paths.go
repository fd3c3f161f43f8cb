package job

import (
	"path"
	"slices"
	"strings"
)

// Directories that a task sees beneath its root, and with which paths in a job begin. SharedDir is one for all tasks of
// an alloc.
const (
	SharedDir  = "alloc"
	LocalDir   = "local"
	SecretsDir = "secrets"
	TmpDir     = "tmp"
)

// Unmountable reports where nothing can be mounted in a task: its root, and what the kernel shows there.
func Unmountable(destination string) bool {
	p := path.Join("/", destination)
	return p == "/" || below(p, "/proc") || below(p, "/sys")
}

func below(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// Astray reports a destination that is no file in the directories of a task, wherever the task runs. A path that is put
// together on the node is judged there.
func (t *Template) Astray() bool {
	p := path.Clean(t.DestPath)
	first, rest, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	named := slices.Contains([]string{SharedDir, LocalDir, SecretsDir, TmpDir}, first)
	switch {
	case strings.Contains(p, "${"):
		return false
	case named:
		return rest == ""
	}
	return path.IsAbs(p) || p == "." || below(p, "..")
}
