// Package shim owns the life of one alloc's tasks: it starts them, holds their exit codes until they are forgotten,
// carries their output into files, runs commands beside them and ends them, whether an agent is there or not. It is the
// "shim" role of the helper program.
package shim

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/shimproto"
	"berth/internal/shimproto/cgroup"
)

// Shim holds the processes of one alloc.
type Shim struct {
	alloc  string
	slice  string
	socket string
	tree   *cgroup.Tree
	start  uint64

	mu       sync.Mutex
	procs    map[string]*process
	starting map[string]bool
	conns    map[*conn]bool
	closing  bool
	quit     chan struct{}
	quitOnce sync.Once
	group    *lifecycle.Group
}

// noFiles is the soft limit of open files that tasks inherit; the hard limit stays the agent's.
const noFiles = 65536

// Run serves the listening socket until the agent said bye to an empty shim.
func Run(ctx context.Context, alloc, slice, socket string, listener int) error {
	tree, err := cgroup.Discover()
	if err != nil {
		return err
	}
	start, err := shimproto.StartTime(os.Getpid())
	if err != nil {
		return err
	}
	s := &Shim{alloc: alloc, slice: slice, socket: socket, tree: tree, start: start,
		procs: map[string]*process{}, starting: map[string]bool{}, conns: map[*conn]bool{}, quit: make(chan struct{})}
	settle()
	g, gctx := lifecycle.NewGroup(ctx)
	s.group = g
	unix.CloseOnExec(listener) // a task that held it would answer for a dead shim
	if err := unix.SetNonblock(listener, true); err != nil {
		return err
	}
	l := os.NewFile(uintptr(listener), "listener")
	g.Go("accept", func() error { return s.accept(l) })
	select {
	case <-s.quit:
	case <-gctx.Done():
	}
	s.hangUp()
	return errors.Join(l.Close(), g.Wait())
}

// settle makes the process deaf to what is meant for others and sets what tasks inherit.
func settle() {
	// Caught, not ignored: an ignored signal would stay ignored in the tasks.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGPIPE)
	unix.Umask(0o022)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		limit.Cur = min(limit.Max, noFiles)
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // lowering or raising up to the hard limit cannot fail
	}
}

func (s *Shim) accept(l *os.File) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	for {
		var fd int
		var acceptErr error
		err := raw.Read(func(listener uintptr) bool {
			fd, _, acceptErr = unix.Accept4(int(listener), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return !errors.Is(acceptErr, unix.EAGAIN)
		})
		switch {
		case errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return err
		case acceptErr != nil:
			time.Sleep(10 * time.Millisecond) // the peer hung up, or descriptors are short
			continue
		}
		s.serve(fd)
	}
}

// serve answers one connection of the agent; anybody else gets none.
func (s *Shim) serve(fd int) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || int(cred.Uid) != os.Geteuid() {
		_ = unix.Close(fd)
		return
	}
	c := &conn{shim: s, file: os.NewFile(uintptr(fd), "agent")}
	s.mu.Lock()
	s.conns[c] = true
	s.mu.Unlock()
	if !s.beside("connection", c.run) {
		c.close()
	}
}

// beside runs work for one object. Whatever goes wrong there must not end the shim, which other tasks live by; it is said
// on standard error, where somebody who traces the shim sees it.
func (s *Shim) beside(name string, fn func() error) bool {
	return s.group.Go(name, lifecycle.Isolated(name, fn, func(err error) {
		_, _ = os.Stderr.WriteString(name + ": " + err.Error() + "\n") // there is nobody else to tell
	}))
}

// hangUp ends all conversations.
func (s *Shim) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.file.Close() // the conversation is over
	}
}

// find returns a process by name.
func (s *Shim) find(name string) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.procs[name]
	if p == nil {
		return nil, fault.New(fault.NotFound, "find", "process "+name, "this shim does not hold it")
	}
	return p, nil
}

// forget drops an ended process.
func (s *Shim) forget(name string) error {
	p, err := s.find(name)
	if err != nil {
		return err
	}
	if !p.isGone() {
		return fault.New(fault.Conflict, "forget", "process "+name, "it was not killed yet")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.procs, name)
	return nil
}

// bye closes the shim for new work if it holds nothing.
func (s *Shim) bye() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.procs)+len(s.starting) > 0 {
		return false
	}
	if !s.closing {
		s.closing = true
		_ = unix.Unlink(s.socket) // a dead socket is replaced by the next shim anyway
	}
	return true
}

// reserve takes a name for a process that is being started.
func (s *Shim) reserve(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return fault.New(fault.Unavailable, "launch", "process "+name, "the shim is closing")
	case s.procs[name] != nil || s.starting[name]:
		return fault.New(fault.Conflict, "launch", "process "+name, "the shim holds one of this name already")
	}
	s.starting[name] = true
	return nil
}

// keep ends the reservation; p is nil when the start failed.
func (s *Shim) keep(name string, p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.starting, name)
	if p != nil {
		s.procs[name] = p
	}
}

func (s *Shim) list() *shimproto.List {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &shimproto.List{}
	for _, p := range s.procs {
		l.Entries = append(l.Entries, p.entry())
	}
	return l
}
