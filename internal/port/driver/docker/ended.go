package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
)

// groupOf is the control group of a process in which its memory is counted; empty: there is none.
func groupOf(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[2] == "/" {
			continue
		}
		switch {
		case parts[1] == "memory":
			return filepath.Join("/sys/fs/cgroup/memory", parts[2])
		case parts[0] == "0" && parts[1] == "":
			return filepath.Join("/sys/fs/cgroup", parts[2])
		}
	}
	return ""
}

// endForgotten ends the processes of a container that its daemon does not know, and returns when none lives. A daemon
// that lost its directory knows nothing of what it left running.
func (t *task) endForgotten(ctx context.Context) error {
	group := groupOf(t.handle.PID)
	if t.handle.PID <= 0 || t.st.Container == "" || !strings.Contains(group, t.st.Container) {
		return nil // the number is another's by now
	}
	t.d.cfg.Log.Warn("Docker does not know a container whose processes live: they are ended", logkey.Driver, Name,
		logkey.Alloc, t.handle.Alloc, "container", t.st.Container)
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || err == nil && len(text) == 0 {
			return nil
		}
		for line := range strings.Lines(string(text)) {
			if pid, bad := strconv.Atoi(strings.TrimSpace(line)); bad == nil && pid > 0 {
				err = errors.Join(err, ended(unix.Kill(pid, unix.SIGKILL)))
			}
		}
		if err != nil || !retry.Sleep(limited, pause) { // what ends of itself can only be seen
			return fault.WithHint(fault.Wrap(errors.Join(err, limited.Err()), fault.Timeout, "end",
				"the processes of a container that Docker does not know"), "they are in "+group)
		}
	}
}

func ended(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
