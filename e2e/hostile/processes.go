package hostile

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// groups: control groups and what bounds a process.
func groups() []Attempt {
	const tree = "/sys/fs/cgroup"
	return []Attempt{
		{"control groups: write any file", readOnly, func() string { return anyWritable(tree) }},
		{"control groups: make a group in any", readOnly, func() string { return anyMade(tree) }},
		{"control groups: see the group's path on the node", []string{"/"}, groupPaths},
		{"limits: core files again", []string{"EPERM"}, raise(unix.RLIMIT_CORE)},
		{"limits: more descriptors than the hard limit", []string{"EPERM"}, raise(unix.RLIMIT_NOFILE)},
		{"limits: be killed last when memory is short", []string{"EACCES"}, func() string {
			return answer(os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0))
		}},
		{"limits: a higher priority", []string{"EACCES", "EPERM"}, func() string {
			return answer(unix.Setpriority(unix.PRIO_PROCESS, 0, -20))
		}},
		{"limits: a real-time scheduler", []string{"EPERM"}, func() string {
			return answer(unix.SchedSetAttr(0, &unix.SchedAttr{
				Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1,
			}, 0))
		}},
		{"limits: the disk before others", []string{"EPERM"}, func() string {
			const realTime = 1 << 13
			_, _, e := unix.RawSyscall(unix.SYS_IOPRIO_SET, 1, 0, realTime)
			return name(e)
		}},
	}
}

// anyMade makes a group in every group, and names the first that it may make. What holds the hierarchies of control
// groups together is the task's own.
func anyMade(tree string) string {
	last := "no group"
	err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		var in unix.Statfs_t
		if err != nil || !entry.IsDir() || unix.Statfs(path, &in) != nil || in.Type == unix.TMPFS_MAGIC {
			return nil
		}
		made := filepath.Join(path, "hostile")
		if last = answer(unix.Mkdir(made, 0o755)); last == Allowed {
			last += ": " + made
			return filepath.SkipAll
		}
		return nil
	})
	if err != nil {
		return answer(err)
	}
	return last
}

// groupPaths are the paths of the task's control groups, each once.
func groupPaths() string {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return answer(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 && f[2] != "/" {
			return f[2]
		}
	}
	return "/"
}

// raise asks for more than the hard limit of a resource.
func raise(resource int) func() string {
	return func() string {
		var l unix.Rlimit
		if err := unix.Getrlimit(resource, &l); err != nil {
			return answer(err)
		}
		l.Max++
		l.Cur = l.Max
		return answer(unix.Setrlimit(resource, &l))
	}
}

// processes of the node, and what this one may become.
func processes(s Site) []Attempt {
	return []Attempt{
		{"process: kill one of another alloc", []string{"ESRCH"}, func() string {
			return answer(unix.Kill(s.PID, unix.SIGKILL))
		}},
		{"process: hold one of another alloc", []string{"ESRCH", "EINVAL"}, func() string {
			_, err := unix.PidfdOpen(s.PID, 0)
			return answer(err)
		}},
		{"process: see those of others", []string{"its own alone"}, others},
		{"process: end the first one of the task", []string{"EPERM", "it lives"}, func() string {
			if err := unix.Kill(1, unix.SIGKILL); err != nil {
				return answer(err)
			}
			if _, err := os.Stat("/proc/1"); err != nil {
				return answer(err)
			}
			return "it lives"
		}},
		{"process: a set-user-id program of root", []string{"the same user"}, act("setuid")},
		{"process: all capabilities", []string{"EPERM"}, func() string {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			full := [2]unix.CapUserData{}
			for i := range full {
				full[i] = unix.CapUserData{Effective: ^uint32(0), Permitted: ^uint32(0), Inheritable: ^uint32(0)}
			}
			return answer(unix.Capset(&header, &full[0]))
		}},
		{"process: a capability for its children", []string{"EPERM"}, func() string {
			return answer(unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN, 0, 0))
		}},
		{"process: privileges by programs again", []string{"EINVAL"}, func() string {
			return answer(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0))
		}},
		{"process: no filter of system calls", []string{"EINVAL"}, func() string {
			return answer(unix.Prctl(unix.PR_SET_SECCOMP, 0, 0, 0, 0))
		}},
	}
}

// others reports processes of a process table that has more than a task's own.
func others() string {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return answer(err)
	}
	for _, e := range entries {
		comm, err := os.ReadFile(filepath.Join(e, "comm"))
		name := strings.TrimSpace(string(comm))
		if err == nil && name != "berth-init" && name != "program" && name != "sh" {
			return fmt.Sprintf("%s: %s", e, name)
		}
	}
	return "its own alone"
}

// network: what a task, which has the node's network, may do with it, and who listens there.
func network(s Site) []Attempt {
	out := []Attempt{
		{"network: packets past the protocols", []string{"EPERM"}, socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{"network: packets with headers of its own", []string{"EPERM"}, socket(unix.AF_INET, unix.SOCK_RAW, icmp)},
		{"network: change an interface", []string{"EPERM"}, interfaceFlags},
		{"network: mark its packets for the node's routes", []string{"EPERM"}, func() string {
			return onSocket(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 1) })
		}},
		{"network: the agent's port beside the agent", []string{"EADDRINUSE"}, func() string {
			return onSocket(func(fd int) error {
				if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
					return err
				}
				return unix.Bind(fd, &unix.SockaddrInet4{Port: s.Port, Addr: [4]byte{127, 0, 0, 1}})
			})
		}},
		{"network: run a job by the agent's port", []string{"403"}, ask(s.Port, "PUT", "/v1/jobs", `{"Job":{}}`)},
		{"network: read of the agent's port", []string{"403"}, ask(s.Port, "GET", "/v1/jobs", "")},
		{"network: the agent's socket", []string{"ENOENT"}, dial(s.Socket)},
		{"network: sockets of shims", []string{"ENOENT"}, look(s.Data + "/shim")},
		{"network: sockets of storage plugins", []string{"ENOENT"}, look(s.Data + "/csi")},
		{"network: sockets of Berth without a file", []string{"none"}, abstract(s.Data)},
		{"network: a socket without a file of somebody else", []string{"EPERM"}, dial(s.Peer)},
	}
	return out
}

// The number of the protocol that ping speaks.
const icmp = 1

func socket(family, kind, protocol int) func() string {
	return func() string {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		if err == nil {
			_ = unix.Close(fd) // it has sent nothing
		}
		return answer(err)
	}
}

func onSocket(try func(fd int) error) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return answer(err)
	}
	defer func() { _ = unix.Close(fd) }() // it has sent nothing
	return answer(try(fd))
}

// interfaceFlags sets the flags of the loopback interface to what they are.
func interfaceFlags() string {
	return onSocket(func(fd int) error {
		request, err := unix.NewIfreq("lo")
		if err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, request); err != nil {
			return err
		}
		return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
	})
}

func dial(path string) func() string {
	return func() string {
		c, err := net.DialTimeout("unix", path, time.Minute)
		if err == nil {
			_ = c.Close() // it has sent nothing
		}
		return answer(err)
	}
}

// ask makes a request of the agent's port, and returns the answer's status.
func ask(port int, method, path, body string) func() string {
	return func() string {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Minute)
		if err != nil {
			return answer(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			return answer(err)
		}
		header := fmt.Sprintf("Host: localhost\r\nContent-Length: %d\r\nConnection: close", len(body))
		_, err = fmt.Fprintf(c, "%s %s HTTP/1.1\r\n%s\r\n\r\n%s", method, path, header, body)
		if err != nil {
			return answer(err)
		}
		var version, status string
		if _, err := fmt.Fscan(c, &version, &status); err != nil {
			return answer(err)
		}
		return status
	}
}

// abstract names a socket without a file that has to do with Berth: whoever has the node's network may connect to it.
func abstract(data string) func() string {
	return func() string {
		list, err := os.ReadFile("/proc/net/unix")
		if err != nil {
			return answer(err)
		}
		for line := range strings.Lines(string(list)) {
			f := strings.Fields(line)
			if path := f[len(f)-1]; strings.HasPrefix(path, "@") &&
				(strings.Contains(path, "berth") || strings.Contains(path, data)) {
				return path
			}
		}
		return "none"
	}
}
