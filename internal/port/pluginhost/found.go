package pluginhost

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/base/procs"
	"berth/internal/port/hostfs"
)

// processes are those that run as the plugin, whatever is recorded of them: each has the standard output that launch
// gave it, and is of the group of processes that launch made. What a plugin starts for its tasks writes elsewhere. The
// program of a script that did not replace itself by it is among them.
func (c Config) processes() (pids []int, err error) {
	found, err := procs.Opened(unix.Stdout, procs.Real(c.stdoutPath()))
	for _, pid := range found {
		if launched(pid) {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// launched reports whether a process is of the first group of its session.
func launched(pid int) bool {
	group, err := unix.Getpgid(pid)
	first, err2 := unix.Getsid(pid)
	return err == nil && err2 == nil && group == first
}

// found is the record of a plugin that runs without one: the agent died before it wrote it, or it was lost. nil: there
// is no such process, or none that said where it listens.
func (h *Host) found() *record {
	pids, err := h.cfg.processes()
	if err != nil || len(pids) == 0 {
		return nil
	}
	pid := pids[0]
	for _, p := range pids {
		if first, err := unix.Getsid(p); err == nil && first == p {
			pid = p
		}
	}
	line, whole, err := h.line()
	if err != nil || !whole {
		return nil
	}
	address, err := parseLine(line, func(text string) error { return errors.New(text) })
	if err != nil {
		return nil
	}
	start, err := procs.StartTime(pid)
	boot, bootErr := hostfs.BootID()
	if err != nil || bootErr != nil {
		return nil
	}
	h.cfg.Log.Info("a plugin runs of which there is no record; it is connected with", h.key(), h.Name(), logkey.PID,
		pid)
	return &record{Address: address, PID: pid, Start: start, Boot: boot}
}

// endLimit is how long a process that was killed may take to be gone.
const endLimit = 10 * time.Second

// endAll ends every process that runs as the plugin: two would each hold half of what there is.
func (h *Host) endAll() error {
	pids, err := h.cfg.processes()
	for _, pid := range pids {
		h.cfg.Log.Info("a process of a plugin is ended", h.key(), h.Name(), logkey.PID, pid)
		still := func() bool {
			now, err := h.cfg.processes()
			return err == nil && slices.Contains(now, pid)
		}
		err = errors.Join(err, procs.Kill(pid, still, endLimit))
	}
	return fault.Note(err, "end", h.Subject())
}

// stamp tells a program from another at the same path, and from itself with other arguments; empty: it is not there.
func (c Config) stamp() string {
	st, err := os.Stat(c.Path)
	if err != nil {
		return ""
	}
	s, _ := st.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d %d %d %q", s.Ino, st.Size(), st.ModTime().UnixNano(), c.Args)
}

// clear removes what earlier processes left where plugins have their sockets. As long as something listens there, only
// sockets at which nothing does are removed: plugins start programs that look after tasks, whose sockets and files lie
// there too, and which outlive them.
func (h *Host) clear(dir string) error {
	var dead []string
	lives := false
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.Type()&os.ModeSocket == 0:
			return nil
		}
		conn, err := net.DialTimeout("unix", path, time.Second)
		switch {
		case err == nil:
			lives = true
			return conn.Close()
		case errors.Is(err, syscall.ECONNREFUSED):
			dead = append(dead, path)
		case !errors.Is(err, os.ErrNotExist):
			lives = true // one that does not answer may be busy
		}
		return nil
	})
	if err == nil && !lives {
		err = os.RemoveAll(dir)
	}
	for _, path := range dead {
		if failed := os.Remove(path); failed != nil && !errors.Is(failed, os.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return fault.Wrap(err, fault.Internal, "clear", fmt.Sprintf("directory %q", dir))
}
