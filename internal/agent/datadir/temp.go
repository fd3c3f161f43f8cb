package datadir

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"berth/internal/base/flock"
	"berth/internal/base/logkey"
)

// tempPrefix begins the names of directories that go with their agent.
const tempPrefix = "berth-"

// MakeTemp makes a directory for an agent that takes it away when it ends.
func MakeTemp() (string, error) { return os.MkdirTemp("", tempPrefix) }

// RemoveTemp removes it. Whatever is still mounted below it keeps it, and is named.
func RemoveTemp(dir string, log *slog.Logger) {
	if err := Remove(dir); err != nil {
		log.Warn("the temporary data_dir could not be removed", logkey.Path, dir, logkey.Error, err)
	}
}

// WarnOfAbandoned says which directories beside one that MakeTemp has made are abandoned, and how what runs of them is
// ended.
func WarnOfAbandoned(dir string, uid int, log *slog.Logger) {
	for _, d := range Abandoned(dir, uid) {
		log.Warn("a development agent that was killed has left tasks and files: \"berth agent -dev -data-dir "+d+
			"\" takes them over, and Ctrl-C ends them", logkey.Path, d)
	}
}

// Abandoned lists the directories beside one that MakeTemp has made whose agents of user uid were killed: what ran
// there runs on, and nobody watches it. No lock is taken, so that no agent which takes one of them over meanwhile is
// refused.
func Abandoned(dir string, uid int) (out []string) {
	all, err := filepath.Glob(filepath.Join(filepath.Dir(dir), tempPrefix+"*"))
	if err != nil {
		return nil // the pattern is well-formed, unless the directory's name is a pattern itself
	}
	for _, d := range all {
		st, err := os.Lstat(d)
		if err != nil || !st.IsDir() || d == dir {
			continue
		}
		if own, ok := st.Sys().(*syscall.Stat_t); !ok || int(own.Uid) != uid || !used(d) {
			continue
		}
		if ended, err := flock.Ended(filepath.Join(d, lockName)); err == nil && ended {
			out = append(out, d)
		}
	}
	return out
}
