package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/cgroup"
	"berth/internal/shimproto"
)

// handed is a running shim that was started with descriptors beyond those it knows.
type handed struct {
	t      *testing.T
	pid    int
	socket string
	logs   string
}

// handShim starts the shim role with its listener as 3, and the root directory and a pipe as 4 and 5, unmarked.
func handShim(t *testing.T) *handed {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "shim")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the test's own
	h := &handed{t: t, socket: filepath.Join(dir, "socket"), logs: dir}
	l, err := net.Listen("unix", h.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	listener, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	root, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	alloc, slice := ids.New(), fmt.Sprintf("berth-test-%d.slice", os.Getpid())
	cmd := exec.Command(build(t), "shim", alloc, slice, h.socket)
	cmd.ExtraFiles = []*os.File{listener, root, w}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.pid = cmd.Process.Pid
	t.Cleanup(func() {
		h.ask(shimproto.TypeBye, nil)
		_ = cmd.Wait() // how it ends is another test's matter
		tree, err := cgroup.Discover()
		if err == nil {
			err = tree.RemoveAlloc(slice, alloc)
		}
		if err != nil {
			t.Error(err)
		}
	})
	return h
}

// ask has one conversation with the shim.
func (h *handed) ask(what shimproto.Type, m shimproto.Message) {
	h.t.Helper()
	c, err := net.Dial("unix", h.socket)
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	if err := shimproto.Write(c, shimproto.TypeHello,
		&shimproto.Hello{Min: shimproto.MinVersion, Max: shimproto.Version}); err != nil {
		h.t.Fatal(err)
	}
	if _, _, err := shimproto.Read(c); err != nil {
		h.t.Fatal(err)
	}
	if err := shimproto.Write(c, what, m); err != nil {
		h.t.Fatal(err)
	}
	kind, payload, err := shimproto.Read(c)
	if err != nil {
		h.t.Fatal(err)
	}
	if kind == shimproto.TypeFault {
		h.t.Fatalf("the shim refuses: %s", payload)
	}
}

// open lists a process's descriptors; unmarked are those of them that a program it starts would inherit.
func open(t *testing.T, pid int) (all, unmarked []string) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fdinfo", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		all = append(all, e.Name())
		for line := range strings.Lines(string(info)) {
			var flags int64
			if _, err := fmt.Sscanf(line, "flags: %o", &flags); err == nil && flags&unix.O_CLOEXEC == 0 {
				unmarked = append(unmarked, e.Name())
			}
		}
	}
	return all, unmarked
}

// TestNoRoleLeavesADescriptorToATask: a directory of the node that reaches a task is a way out of its root.
func TestNoRoleLeavesADescriptorToATask(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("cgroups and mounts need root")
	}
	h := handShim(t)
	standard := []string{"0", "1", "2"}
	for name, iso := range map[string]*shimproto.Isolate{
		"plain": nil,
		"isolated": {
			Root:            t.TempDir(),
			System:          []string{"/bin", "/lib", "/lib64", "/usr"},
			NoNewPrivileges: true,
			Capabilities:    []int{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := shimproto.Named{Name: name + ".1", Task: name, Attempt: 1}
			// It stops where it holds nothing of its own: a program that begins has its libraries open for a moment.
			h.ask(shimproto.TypeLaunch, &shimproto.Launch{Named: n,
				Argv: []string{"/bin/sh", "-c", "echo ready; kill -STOP $$"},
				Logs: shimproto.Logs{Dir: h.logs, MaxFiles: 1, MaxBytes: 1 << 20}, Isolate: iso})
			t.Cleanup(func() {
				h.ask(shimproto.TypeKill, &shimproto.Kill{Named: n})
				h.ask(shimproto.TypeForget, &n)
			})
			h.awaitOutput(name)
			tasks := 0
			for _, pid := range descendants(t, h.pid) {
				comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				if err != nil {
					t.Fatal(err)
				}
				all, unmarked := open(t, pid)
				task := !strings.HasPrefix(string(comm), "berth-")
				if task {
					tasks++
				}
				if task && slices.ContainsFunc(all, func(fd string) bool { return len(fd) > 1 || fd > "2" }) {
					t.Errorf("the task has descriptors %v", all)
				}
				if !task && !slices.Equal(unmarked, standard) {
					t.Errorf("%s would leave descriptors %v of %v to what it starts", strings.TrimSpace(string(comm)),
						unmarked, all)
				}
			}
			if tasks == 0 {
				t.Error("no task was looked at")
			}
		})
	}
	if _, unmarked := open(t, h.pid); !slices.Equal(unmarked, standard) {
		t.Errorf("the shim would leave descriptors %v to what it starts", unmarked)
	}
}

func (h *handed) awaitOutput(task string) {
	h.t.Helper()
	path := filepath.Join(h.logs, task+".stdout.0")
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(path); err == nil && len(b) > 0 {
			return
		}
		if time.Now().After(end) {
			h.t.Fatal("the task says nothing")
		}
	}
}

// descendants are the children of all threads of a process, and theirs.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, f := range files {
		list, err := os.ReadFile(f)
		if err != nil {
			continue // the thread ended
		}
		for _, word := range strings.Fields(string(list)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			out = append(append(out, child), descendants(t, child)...)
		}
	}
	return out
}
