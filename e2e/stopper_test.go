package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watchedEnv has this program become another one whose system calls are watched; its arguments say which.
const watchedEnv = "BERTH_E2E_WATCHED"

// points are the system calls by which something is persisted or mounted.
var points = map[int32]string{
	unix.SYS_FSYNC:      "fsync",
	unix.SYS_FDATASYNC:  "fdatasync",
	unix.SYS_RENAMEAT:   "renameat",
	unix.SYS_RENAMEAT2:  "renameat2",
	unix.SYS_MOUNT:      "mount",
	unix.SYS_MOVE_MOUNT: "move_mount",
	unix.SYS_UMOUNT2:    "umount2",
}

// becomeWatched hands whoever started this program a descriptor by which the points of it and of all its children are
// reported before they are made, and becomes the program that it is asked for.
func becomeWatched() {
	runtime.LockOSThread() // the filter is the thread's, and the thread becomes the program
	fail := func(what string, err error) {
		fmt.Fprintln(os.Stderr, "become watched:", what, err)
		os.Exit(1)
	}
	const parent = 3
	notify := filter()
	prog := unix.SockFprog{Len: uint16(len(notify)), Filter: &notify[0]}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		fail("seccomp", errno)
	}
	if err := unix.Sendmsg(parent, []byte{0}, unix.UnixRights(int(fd)), nil, 0); err != nil {
		fail("hand over", err)
	}
	_ = unix.Close(int(fd))
	_ = unix.Close(parent)
	program := os.Getenv(watchedEnv)
	if err := os.Unsetenv(watchedEnv); err != nil {
		fail("environment", err)
	}
	fail("exec", syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ()))
}

// filter reports the points and allows everything else.
func filter() []unix.SockFilter {
	out := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // the number of the call
	for nr := range points {
		out = append(out,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(nr)},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	}
	return append(out, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
}

// stopper watches an agent and its children, and kills one of them in front of a point that is counted out.
type stopper struct {
	t *testing.T
	m *machine

	mu    sync.Mutex
	of    string // whose points are counted: "agent" or "plugin"
	kill  string // who is killed in front of the point
	left  int    // points until then; -1: not armed
	fired chan string

	served sync.WaitGroup
	ends   []func() // of what could not be handed over
}

// watch makes what watches the agents of a machine. It is made before the machine: what is watched ends first.
func watch(t *testing.T) *stopper {
	s := &stopper{t: t, left: -1}
	t.Cleanup(func() {
		for _, end := range s.ends {
			end()
		}
		s.served.Wait()
	})
	return s
}

// arm has kill killed in front of the point number n of of, and returns what tells that it was done.
func (s *stopper) arm(of, kill string, n int) <-chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of, s.kill = of, kill
	s.left = n
	s.fired = make(chan string, 1)
	return s.fired
}

// between runs what changes the machine's agent while nobody is killed; if the agent was, it does not.
func (s *stopper) between(change func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left < 0 && s.kill == "agent" {
		return false
	}
	change()
	return true
}

// disarm ends the counting, and says whether anybody was killed.
func (s *stopper) disarm() (where string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = -1
	select {
	case where = <-s.fired:
	default:
	}
	return where
}

func (s *stopper) wrap(cmd *exec.Cmd) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(s.t, err)
	theirs := os.NewFile(uintptr(pair[1]), "watched")
	self, err := os.Executable()
	must(s.t, err)
	cmd.Env = append(cmd.Env, watchedEnv+"="+cmd.Path)
	cmd.Path = self
	cmd.ExtraFiles = []*os.File{theirs}
	ours := os.NewFile(uintptr(pair[0]), "watches")
	s.served.Go(func() { s.serve(pair[0]) })
	s.ends = append(s.ends, func() {
		theirs.Close() // of an agent that was not started nobody waits for anything any more
		_ = unix.Shutdown(pair[0], unix.SHUT_RDWR)
		ours.Close()
	})
}

// serve answers what is reported until all who are watched have ended.
func (s *stopper) serve(from int) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(from, make([]byte, 1), oob, 0)
	if err != nil || n == 0 {
		return
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		s.t.Errorf("what the watched program hands over: %v", err)
		return
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		s.t.Error(err)
		return
	}
	defer unix.Close(fds[0])
	for {
		p := []unix.PollFd{{Fd: int32(fds[0]), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, -1); err != nil && !errors.Is(err, unix.EINTR) {
			s.t.Error(err)
			return
		}
		if p[0].Revents&unix.POLLIN != 0 {
			s.answer(fds[0])
		} else if p[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0 {
			return
		}
	}
}

// report and answer are the kernel's struct seccomp_notif and seccomp_notif_resp.
type report struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type answer struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

const (
	notifyReceive = 0xc0502100
	notifySend    = 0xc0182101
	goOn          = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

func (s *stopper) answer(fd int) {
	var r report
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), notifyReceive,
		uintptr(unsafe.Pointer(&r))); errno != 0 {
		return // the caller was killed meanwhile
	}
	s.look(&r)
	a := answer{id: r.id, flags: goOn}
	// A caller that was killed takes no answer.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), notifySend, uintptr(unsafe.Pointer(&a)))
}

// look counts a point, and kills when it is the one.
func (s *stopper) look(r *report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left < 0 {
		return
	}
	pid, who := s.caller(r.pid)
	if who != s.of {
		return
	}
	if s.left--; s.left >= 0 {
		return
	}
	victim := pid
	if s.kill != s.of {
		victim = s.m.cmd.Process.Pid // the agent, in the middle of a call to the plugin
	}
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		s.t.Errorf("kill the %s: %v", s.kill, err)
	}
	s.fired <- fmt.Sprintf("in front of %s of the %s", points[r.nr], who)
}

// caller says whose thread a point is of: the agent's, the plugin's, or somebody else's.
func (s *stopper) caller(tid uint32) (pid int, who string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0, ""
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "Tgid:"); ok {
			pid, _ = strconv.Atoi(strings.TrimSpace(v)) // the kernel writes numbers there
		}
	}
	if s.m.cmd != nil && pid == s.m.cmd.Process.Pid {
		return pid, "agent"
	}
	exe, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if args := strings.Split(string(exe), "\x00"); err == nil && len(args) > 2 && args[1] == "plugin" {
		return pid, "plugin"
	}
	return pid, ""
}
