// Package spawn owns the birth of processes in the helper program: one function starts a shim's tasks, what `alloc
// exec` runs beside them, and init stages.
//
// Every child has an operating-system thread of its own, which makes itself what the child shall be (its groups,
// namespaces, capability bound), forks, waits for the child, and is thrown away. So nothing has to be undone, and a
// second program between the helper and the task is not needed. A Go program may do that: threads of the runtime are
// never started from a locked thread. No child is born by the first thread, which cannot be thrown away
// (base/privilege).
package spawn

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"berth/internal/base/descriptors"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/cgroup"
	"berth/internal/shimproto"
)

// Spec says what to start.
type Spec struct {
	Path   string // of the program; empty: Argv[0] is looked up
	Argv   []string
	Env    []string
	Dir    string
	Search []string // looked into, before PATH, for a command without a slash
	User   *shimproto.User
	Files  []*os.File // 0, 1, 2 …
	TTY    *Size      // a new terminal instead of Files
	// Cgroup is the v2 leaf that the child is born in; the first version has groups of its own.
	Cgroup string
	Visit  Visit
	// Netns is the network namespace that the child lives in; nil: the helper's.
	Netns *os.File
	// Enter are the namespaces of an init stage; Clone are new ones.
	Enter *Enter
	Clone uintptr
	Bound *Bound           // nil: the helper's own capabilities
	Reach *shimproto.Reach // nil: all that its user may enter
	OOM   int              // its oom_score_adj; 0: the helper's
}

// Visit has the files of cgroup.Group.Joins: those that the child is born in, and the way back.
type Visit struct{ Join, Back []string }

// Enter names the namespaces to enter.
type Enter struct {
	PidFD int
	Flags int
	// Users is a user namespace (UserNamespace), FirstID its first user as the node counts; nil: the node's.
	Users   *os.File
	FirstID uint32
}

// Bound is the limit of a child's privileges.
type Bound struct {
	Keep            []int // capabilities
	Ambient         []int
	NoNewPrivileges bool
	Filter          []byte // of system calls: shimproto.Isolate.Filter
	// Writable are the paths, as the child sees them, beneath which it may change files; nil: all that are mounted so.
	Writable []string
}

// Child is a started process.
type Child struct {
	PID    int
	PidFD  *os.File
	Master *os.File      // of the terminal, or nil
	slave  int           // its other end, until the child has it; 0: none
	leaf   int           // its control group, until the child is in it
	visit  *cgroup.Visit // of the child's thread in its groups on v1; nil: it did not get there
	done   chan struct{}
	status unix.WaitStatus
	err    error

	mu     sync.Mutex // of the pidfd: its number must not be another file's when a signal is sent
	closed bool
}

// Done is closed when the child has ended and was waited for.
func (c *Child) Done() <-chan struct{} { return c.done }

// Exit tells exit code and signal after Done.
func (c *Child) Exit() (code, signal int, err error) {
	if c.status.Signaled() {
		return 0, int(c.status.Signal()), c.err
	}
	return c.status.ExitStatus(), 0, c.err
}

// Signal sends to the child, and to nothing else when it is gone.
func (c *Child) Signal(sig unix.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	err := unix.PidfdSendSignal(int(c.PidFD.Fd()), sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// Close gives back what is held of a child that has ended; nothing is left to signal. It may be repeated.
func (c *Child) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		_ = c.PidFD.Close() // nothing was written
	}
}

// SignalGroup sends to the process group that the child leads: all children lead a session.
func (c *Child) SignalGroup(sig unix.Signal) {
	_ = unix.Kill(-c.PID, sig) // fails only when the group is gone
}

// Start starts a child and returns when its program runs.
func Start(g *lifecycle.Group, s Spec) (*Child, error) {
	type result struct {
		c   *Child
		err error
	}
	started, named := make(chan result, 1), make(chan struct{})
	ok := g.Go("child", func() error {
		defer close(started)
		runtime.LockOSThread() // never unlocked: the thread dies with its goroutine
		c, err := s.fork()
		started <- result{c, err}
		if err == nil {
			<-named  // until it is waited for, its number is no other process's
			c.wait() // its error is the child's: Exit tells it
		}
		return nil
	})
	if !ok {
		return nil, fault.New(fault.Unavailable, "start", s.Argv[0], "the shim is closing")
	}
	r, ok := <-started
	if !ok {
		return nil, fault.New(fault.Internal, "start", s.Argv[0], "the thread that should start it has ended")
	}
	// Not by the child's thread: its descriptors are its own.
	for _, fd := range []int{r.c.slave, r.c.leaf} {
		if fd > 0 {
			_ = unix.Close(fd) // nothing was written to it
		}
	}
	if r.c.visit != nil {
		_ = r.c.visit.Close() // nothing was written by this table
	}
	if r.err != nil {
		return nil, errors.Join(r.err, r.c.closeMaster())
	}
	defer close(named)
	pidfd, err := unix.PidfdOpen(r.c.PID, 0)
	if err != nil {
		_ = unix.Kill(r.c.PID, unix.SIGKILL) // it is not waited for yet, and so there
		return nil, errors.Join(fault.Wrap(err, fault.Internal, "hold", "the process of command "+quote(s.Argv[0])),
			r.c.closeMaster())
	}
	r.c.PidFD = os.NewFile(uintptr(pidfd), "pidfd")
	return r.c, nil
}

func (c *Child) closeMaster() error {
	if c.Master == nil {
		return nil
	}
	return c.Master.Close()
}

func (c *Child) wait() {
	for {
		_, err := unix.Wait4(c.PID, &c.status, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			c.err = err
			break
		}
	}
	close(c.done)
}

// fork runs on the child's thread, and returns what was opened for the child also when it fails.
func (s *Spec) fork() (*Child, error) {
	c := &Child{done: make(chan struct{})}
	// A child gets s.Files alone, also when some descriptor of the helper was opened without the mark. Nothing can be
	// put between Go's fork and exec, so the mark is set here, before the namespaces are entered. The mark is not
	// enough: the kernel opens a script's interpreter before it closes what is marked, and /proc/self/fd leads through
	// a directory of the node. So isolateFiles leaves this thread nothing to lead through.
	if err := descriptors.CloseOnExec(); err != nil {
		return c, err
	}
	leaf, err := openLeaf(s.Cgroup)
	if err != nil {
		return c, err
	}
	c.leaf = leaf
	runtimes, err := runtimeFiles() // before the namespaces are entered: the task's /proc does not show this thread
	if err != nil {
		return c, err
	}
	if c.visit, err = cgroup.Begin(s.Visit.Join, s.Visit.Back); err != nil {
		return c, err
	}
	if err := s.join(); err != nil {
		return c, err
	}
	if err := s.enter(); err != nil {
		return c, err
	}
	if err := s.reach(); err != nil {
		return c, err
	}
	files, err := s.files(c)
	if err != nil {
		return c, err
	}
	keep := slices.Concat(runtimes, []uintptr{uintptr(leaf)}, c.visit.Files(), files)
	if s.Enter != nil && s.Enter.Users != nil {
		keep = append(keep, s.Enter.Users.Fd())
	}
	err = s.own(files)
	if err == nil {
		err = isolateFiles(keep)
	}
	if err == nil {
		err = s.exec(c, leaf, files)
		_ = c.visit.End() // the thread ends with the child anyway
		if c.slave > 0 {
			_ = unix.Close(c.slave) // the thread's own: while it is open, nobody sees that the child has hung up
		}
	}
	return c, err
}

func (s *Spec) exec(c *Child, leaf int, files []uintptr) error {
	path, err := s.lookup()
	if err != nil {
		return err
	}
	if err := s.bound(); err != nil {
		return err
	}
	b, err := s.birth(path)
	if err != nil {
		return err
	}
	var step int
	c.PID, step, err = b.bear(leaf, s.Clone, files)
	if err != nil {
		return s.explain(path, step, err)
	}
	return nil
}

// join enters the network namespace, as long as the thread may do everything.
func (s *Spec) join() error {
	if s.Netns == nil {
		return nil
	}
	return fault.Wrap(unix.Setns(int(s.Netns.Fd()), unix.CLONE_NEWNET), fault.Internal, "enter",
		"the allocation's network namespace")
}

func (s *Spec) enter() error {
	if s.Enter == nil {
		return nil
	}
	// the mount namespace of a thread with a shared root cannot change
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fault.Wrap(err, fault.Internal, "enter", "the task's namespaces")
	}
	return fault.Wrap(unix.Setns(s.Enter.PidFD, s.Enter.Flags), fault.Internal, "enter", "the task's namespaces")
}

// where names the tree in which a path was looked for.
func (s *Spec) where() string {
	if s.Enter != nil {
		return "the task's root"
	}
	return "the node's tree"
}

// lookup finds the command as the child will see it.
func (s *Spec) lookup() (string, error) {
	var st unix.Stat_t
	if s.Dir == "" {
		s.Dir = "/"
	}
	if err := unix.Stat(s.Dir, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return "", s.refuse("working directory "+quote(s.Dir), "it is not a directory in "+s.where(), "")
	}
	if s.Path != "" {
		return s.Path, nil
	}
	name := s.Argv[0]
	if strings.Contains(name, "/") {
		full := join(s.Dir, name)
		if reason := runnable(full); reason != "" {
			return "", s.refuseCommand(name, reason+" in "+s.where(), s.hint(reason), reason == notFound)
		}
		return full, nil
	}
	dirs := append([]string{}, s.Search...)
	for _, kv := range s.Env {
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			dirs = append(dirs, strings.Split(list, ":")...)
		}
	}
	found, why := "", ""
	for _, d := range dirs {
		full := join(s.Dir, d) + "/" + name
		reason := runnable(full)
		if reason == "" {
			return full, nil
		}
		if reason != notFound {
			found, why = full+" "+reason, reason
		}
	}
	if found != "" {
		return "", s.refuseCommand(name, found, s.hint(why), false)
	}
	looked := "looked in " + strings.Join(dirs, ", ")
	if len(dirs) == 0 {
		looked = "the task's env has no PATH"
	}
	return "", s.refuseCommand(name, "not found in "+s.where()+": "+looked,
		"give the command's whole path, or set PATH in the task's env", true)
}

// Reasons why a file cannot be run.
const (
	notFound      = "not found"
	notExecutable = "is not executable"
)

// hint is the way out of a reason.
func (s *Spec) hint(reason string) string {
	switch {
	case reason == notExecutable:
		return "make it executable: chmod +x"
	case reason == notFound && s.Enter != nil:
		return "tasks see the node's programs below /usr, /bin and /sbin, and what is in /local, /alloc and volumes"
	case reason == notFound:
		return "install it on the node, or name another"
	}
	return ""
}

func runnable(path string) string {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return notFound
	case err != nil:
		return "cannot be looked up (" + err.Error() + ")"
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return "is a directory"
	case st.Mode&0o111 == 0:
		return notExecutable
	}
	return ""
}

// explain says what an errno of a birth means.
func (s *Spec) explain(path string, step int, err error) error {
	text, hint := err.Error(), ""
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM):
		return fault.Wrap(err, fault.Exhausted, "start", "command "+quote(path))
	case step == stepDirectory && errors.Is(err, unix.EACCES):
		return s.refuse("working directory "+quote(s.Dir), "the user of the task may not enter it",
			"let everybody pass through the directories above the agent's data_dir: chmod o+x")
	case step != stepExec:
		return fault.Wrap(fault.Note(err, stepNames[step], ""), fault.Internal, "start", "command "+quote(path))
	case errors.Is(err, unix.ENOENT):
		text = "its interpreter or loader does not exist in " + s.where()
		hint = "look at the script's first line, or link the program statically"
	case errors.Is(err, unix.ENOEXEC):
		text = "it is neither a program for this machine nor a script with an interpreter line"
	case errors.Is(err, unix.EACCES):
		text, hint = "the user of the task may not execute it",
			"check the modes of the file and its directories, and that its mount is not noexec"
	case errors.Is(err, unix.E2BIG):
		text = "its arguments and environment are larger than the kernel takes"
	}
	return s.refuseCommand(path, text, hint, false)
}

func (s *Spec) refuse(subject, text, hint string) error {
	return &fault.Error{Kind: fault.Invalid, Subject: subject, Err: errors.New(text), Hint: hint}
}

func (s *Spec) refuseCommand(name, text, hint string, missing bool) error {
	cause := &unrunnable{text: text, code: exitNotRunnable}
	if missing {
		cause.code = exitNotFound
	}
	return &fault.Error{Kind: fault.Invalid, Subject: "command " + quote(name), Err: cause, Hint: hint}
}

// Exit codes by which shells say that a command did not run (POSIX, Shell Command Language, 2.8.2).
const (
	exitNotRunnable = 126
	exitNotFound    = 127
)

// unrunnable is why a command cannot run, while all around it can.
type unrunnable struct {
	text string
	code int
}

func (u *unrunnable) Error() string { return u.text }

// ExitCode is the exit code with which a shell would have answered for a command that Start refused. There is none when
// the error is not the command's: its working directory, its namespaces, the machine.
func ExitCode(err error) (code int, ok bool) {
	var u *unrunnable
	if !errors.As(err, &u) {
		return 0, false
	}
	return u.code, true
}

func join(dir, path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return strings.TrimSuffix(dir, "/") + "/" + path
}

func quote(s string) string { return `"` + s + `"` }
