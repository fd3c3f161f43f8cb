// Package fetch owns how artifacts come to a node: what an address of somebody's choice answers is received, unpacked
// and judged by a process of its own, the same program in another role, which has no privileges, sees one directory and
// what TLS and the resolver read, and ends with who asked for it. What it leaves is looked at once more, by the agent,
// before it is put in its place.
//
// The agent calls Run and Install; cmd/berth runs Main in the child.
package fetch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/artifact"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/privilege"
	"berth/internal/base/sizes"
)

// Role is the zeroth argument under which the program is the child; no person can type it as a command.
const Role = "berth-artifact"

// nobody is the user and the group of a child whose task names none.
const nobody = 65534

// Bounds of one fetch; 0: there is none.
type Bounds struct {
	Received int64 // bytes
	Unpacked int64 // bytes, of all files together
	Files    int   // and directories and links
	HTTP     time.Duration
	Git      time.Duration
}

// Guard says which addresses are asked.
type Guard struct {
	// Allowed are addresses that would be refused otherwise: of the loopback, of the link, unspecified ones.
	Allowed []netip.Prefix
	// Own are the addresses of the node, and Ports those at which the agent itself answers: they are never asked.
	Own   []netip.Addr
	Ports []uint16
}

// Request is one artifact.
type Request struct {
	Source   artifact.Source
	Mode     string
	Headers  map[string]string
	Insecure bool
	Bounds   Bounds
	Guard    Guard
}

// Result is what was fetched: it lies in Data beneath the directory.
type Result struct {
	File string // the name of the one file that it is; empty: a directory's content
}

// Data is the directory, beneath that of a fetch, in which what was fetched lies.
const Data = "data"

// Child says as what a fetch runs.
type Child struct {
	UID, GID uint32 // of an agent of root's alone; 0: nobody
	// Environment is what the child has of the agent's environment: its proxies.
	Environment []string
	// Unconfined leaves the child all that its user may read, on a kernel without Landlock; Readable is what it may
	// read in addition.
	Unconfined bool
	Readable   []string
}

// Progress is how much has been received, and how much there is; 0: that is not known.
type Progress struct{ Received, Total int64 }

// message is one line of what a child says.
type message struct {
	Progress *Progress `json:",omitempty"`
	Result   *Result   `json:",omitempty"`
	Kind     fault.Kind
	Problem  string `json:",omitempty"`
}

// Run has an artifact fetched into a stage by a child that ends with ctx. A fault of kind
// Invalid or Denied is one that no other try mends; Unavailable and Timeout may go better next time.
func (c *Child) Run(ctx context.Context, s *Stage, r *Request, progress func(Progress)) (*Result, error) {
	var out *Result
	var runErr error // beside the group, which would put its name before it
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("fetch", func() error {
		// The thread gives up its privileges and is thrown away. It is the child's parent: while it is there the child
		// lives.
		runtime.LockOSThread()
		out, runErr = c.run(gctx, s, r, progress)
		return nil
	})
	if err := errors.Join(g.Wait(), ctx.Err()); err != nil {
		return nil, err
	}
	return out, runErr
}

// grace is what a child has beyond its own time-out.
const grace = 10 * time.Second

func (c *Child) run(ctx context.Context, s *Stage, r *Request, progress func(Progress)) (*Result, error) {
	const what = "the fetch of an artifact"
	input, err := json.Marshal(r.sent())
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "encode", what)
	}
	dir := "/proc/self/fd/" + strconv.Itoa(int(s.inner.Fd())) // where it was opened: a path may lead elsewhere
	if os.Geteuid() == 0 {
		if err := seclude(s.inner, c.Readable); err != nil {
			return nil, err
		}
		dir = seen
	}
	if err := c.surrender(dir, r); err != nil {
		return nil, err
	}
	if wall := r.wall(); wall > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wall+grace,
			fault.New(fault.Timeout, "", what, fmt.Sprintf("it takes longer than %s", wall)))
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{Role, strconv.FormatUint(uint64(c.uid()), 10), strconv.FormatUint(uint64(c.gid()), 10)}
	cmd.Env = append([]string{}, c.Environment...)
	cmd.Dir = dir
	var noise bytes.Buffer
	said := &sayings{progress: progress}
	cmd.Stdin, cmd.Stdout = bytes.NewReader(input), said
	cmd.Stderr = &limited{to: &noise, left: 4 << 10}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
	}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) } // its programs too
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	switch {
	case context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case said.bad != nil:
		return nil, fault.Wrap(said.bad, fault.Internal, "read", "the answer of "+what)
	case said.last == nil && cmd.ProcessState != nil && cmd.ProcessState.ExitCode() > 1:
		// Go's runtime can't go on: its code is 2, or 66 with the race detector.
		return nil, fault.WithHint(fault.New(fault.Invalid, "", "",
			fmt.Sprintf("it takes more than %s of memory to unpack", sizes.Human(memory))),
			"pack it with a smaller dictionary")
	case said.last == nil:
		return nil, fault.New(fault.Internal, "run", what, fmt.Sprintf("it ended without an answer: %v %s", err,
			strings.TrimSpace(noise.String())))
	case said.last.Problem != "":
		return nil, fault.New(said.last.Kind, "", "", said.last.Problem)
	}
	return said.last.Result, nil
}

func (c *Child) uid() uint32 {
	if c.UID == 0 {
		return nobody
	}
	return c.UID
}

func (c *Child) gid() uint32 {
	if c.GID == 0 {
		return nobody
	}
	return c.GID
}

// wall is how long the fetch may take by its own time-out.
func (r *Request) wall() time.Duration {
	if r.Source.Way == artifact.Git {
		return r.Bounds.Git
	}
	return r.Bounds.HTTP
}

// readable is what TLS and the resolver read, runnable what git is.
var (
	readable = []string{"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates",
		"/usr/local/share/ca-certificates", "/etc/resolv.conf", "/run/systemd/resolve", "/etc/hosts",
		"/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", "/etc/ld.so.cache",
		"/dev/urandom", "/dev/random"}
	libraries = []string{"/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64"} // of a program that has some
	runnable  = []string{"/usr/bin", "/usr/local/bin", "/bin", "/usr/libexec"}
	further   = []string{"/usr/share/git-core", "/etc/passwd"}
)

// surrender makes whatever the thread starts next powerless, but for becoming another user.
func (c *Child) surrender(dir string, r *Request) error {
	drop := privilege.DropInheritable
	if os.Geteuid() == 0 {
		drop = func() error { return privilege.BoundCapabilities([]int{unix.CAP_SETUID, unix.CAP_SETGID}) }
	}
	if err := errors.Join(drop(), privilege.ForbidNew()); err != nil {
		return err
	}
	if c.Unconfined {
		return privilege.ScopeSockets()
	}
	reach := []privilege.Reach{{Path: dir, Write: true}, {Path: "/proc/self/exe", Run: true},
		{Path: "/dev/null", Write: true}}
	for _, path := range append(c.Readable, readable...) {
		reach = append(reach, privilege.Reach{Path: path})
	}
	runs := slices.Clone(libraries)
	if r.Source.Way == artifact.Git {
		runs = append(runs, runnable...)
		for _, path := range further {
			reach = append(reach, privilege.Reach{Path: path})
		}
	}
	for _, path := range runs {
		reach = append(reach, privilege.Reach{Path: path, Run: true})
	}
	err := privilege.ConfineFiles(reach)
	if fault.Has(err, fault.Unsupported) {
		return fault.WithHint(err, "a kernel with Landlock confines what fetches artifacts; to go without, set "+
			"disable_filesystem_isolation in the client's artifact block")
	}
	return err
}

// sayings reads what a child says, line by line.
type sayings struct {
	line     []byte
	progress func(Progress)
	last     *message
	bad      error
}

// maxLine bounds one line of a child, in bytes.
const maxLine = 64 << 10

// Write implements io.Writer; its error ends the child.
func (s *sayings) Write(b []byte) (int, error) {
	s.line = append(s.line, b...)
	for {
		line, rest, whole := bytes.Cut(s.line, []byte("\n"))
		if !whole {
			break
		}
		m := &message{}
		if s.bad = json.Unmarshal(line, m); s.bad != nil {
			return 0, s.bad
		}
		s.line = rest
		if m.Progress != nil {
			s.progress(*m.Progress)
		} else {
			s.last = m
		}
	}
	if len(s.line) > maxLine {
		s.bad = bufio.ErrTooLong
	}
	return len(b), s.bad
}

// limited passes on so many bytes and drops the rest.
type limited struct {
	to   io.Writer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.left -= n
	if _, err := l.to.Write(b[:n]); err != nil {
		return 0, err
	}
	return len(b), nil
}
