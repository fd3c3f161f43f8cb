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

	"berth/internal/base/bootclock"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/procs"
	"berth/internal/cgroup"
	"berth/internal/shimproto"
)

// Shim holds the processes of one alloc.
type Shim struct {
	alloc string
	slice string
	tree  *cgroup.Tree
	start uint64
	door  *door
	alarm *bootclock.Alarm
	quit  chan struct{}
	group *lifecycle.Group

	mu      sync.Mutex
	ledger  ledger
	lease   shimproto.Lease
	bundle  []byte // what the agent recorded of the alloc last
	conns   map[*conn]bool
	busy    int  // conversations whose request was not answered yet
	leaving bool // it ends as soon as it holds nothing
	closing bool // it ends
}

// noFiles is the soft limit of open files that tasks inherit; the hard limit stays the agent's.
const noFiles = 65536

// farewell bounds how long an ending shim goes on answering.
const farewell = 250 * time.Millisecond

// Run serves the listening socket until the agent said bye and nothing is held any more.
func Run(ctx context.Context, alloc, slice, socket string, listener int) error {
	tree, err := cgroup.Given()
	if err != nil {
		return err
	}
	start, err := procs.StartTime(os.Getpid())
	if err != nil {
		return err
	}
	bell, err := bootclock.NewAlarm()
	if err != nil {
		return err
	}
	door, err := newDoor(socket, listener)
	if err != nil {
		return err
	}
	s := &Shim{
		alloc:  alloc,
		slice:  slice,
		tree:   tree,
		start:  start,
		alarm:  bell,
		door:   door,
		ledger: ledger{},
		conns:  map[*conn]bool{},
		quit:   make(chan struct{}),
	}
	calls := settle()
	g, gctx := lifecycle.NewGroup(ctx)
	s.group = g
	g.Go("accept", s.accept)
	g.Go("door", func() error { return s.answerCalls(gctx, calls) })
	g.Go("clock", s.keepTime)
	select {
	case <-s.quit:
		s.finishAnswers()
	case <-gctx.Done():
	}
	s.hangUp()
	s.door.close()
	return errors.Join(bell.Close(), g.Wait())
}

// finishAnswers waits a moment for conversations that have their answer coming.
func (s *Shim) finishAnswers() {
	for end := time.Now().Add(farewell); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		busy := s.busy
		s.mu.Unlock()
		if busy == 0 {
			return
		}
	}
}

// settle makes the process ignore what is meant for others and sets what tasks inherit. The channel has the calls of
// agents that do not reach it at its socket.
func settle() (calls <-chan os.Signal) {
	// Caught, not ignored: an ignored signal would stay ignored in the tasks.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGPIPE)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	unix.Umask(0o022)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		limit.Cur = min(limit.Max, noFiles)
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // lowering or raising up to the hard limit cannot fail
	}
	return hup
}

// accept serves whoever comes, until the door is closed for good.
func (s *Shim) accept() error {
	for {
		listener := s.door.open()
		if listener == nil {
			return nil
		}
		if err := s.acceptAt(listener); err != nil {
			return err
		}
	}
}

// acceptAt serves whoever comes to one listener until it is closed.
func (s *Shim) acceptAt(listener *os.File) error {
	raw, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	for {
		var fd int
		var acceptErr error
		err := raw.Read(func(socket uintptr) bool {
			fd, _, acceptErr = unix.Accept4(int(socket), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return !errors.Is(acceptErr, unix.EAGAIN)
		})
		switch {
		case err != nil && s.door.open() != listener:
			return nil // it was closed; the error of a poll that this ended has no name
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
	if !s.goAsync("connection", c.run) {
		c.close()
	}
}

// goAsync runs work for one object. Whatever goes wrong there must not end the shim, which other tasks live by; it is
// said on standard error, where somebody who traces the shim sees it.
func (s *Shim) goAsync(name string, fn func() error) bool {
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

// find returns the process of an attempt, or how it ended.
func (s *Shim) find(n shimproto.Named) (*process, *shimproto.Ended, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ended := s.ledger.find(n.Task, n.Attempt)
	if p == nil && ended == nil {
		return nil, nil, unheld(n)
	}
	return p, ended, nil
}

func unheld(n shimproto.Named) error {
	return fault.New(fault.NotFound, "find", "process "+n.Name, "this shim does not hold it")
}

// launch takes a process up, or finds the one that the same request began.
func (s *Shim) launch(m *shimproto.Launch) (p *process, ended *shimproto.Ended, err error) {
	if m.Name == "" || len(m.Argv) == 0 || m.Argv[0] == "" {
		return nil, nil, fault.New(fault.Invalid, "launch", "a process", "name and command must be given")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return nil, nil, fault.New(fault.Unavailable, "launch", "process "+m.Name, "the shim is closing")
	case s.leaseOver():
		err := fault.New(fault.NotReady, "launch", "process "+m.Name, "the lease of its alloc is over")
		return nil, nil, fault.WithHint(err, "it starts once the node hears from its servers again")
	}
	p = newProcess(s, m)
	known, ended, before := s.ledger.admit(p)
	if known != nil || ended != nil {
		return known, ended, nil
	}
	if !s.goAsync("launch", func() error { return p.run(before) }) {
		s.ledger.drop(p)
		return nil, nil, fault.New(fault.Unavailable, "launch", "process "+m.Name, "the shim is closing")
	}
	s.leaving = false
	if len(m.Bundle) > 0 {
		s.bundle, m.Bundle = m.Bundle, nil
	}
	return p, nil, nil
}

// settle notes the end of a process of which nothing is left.
func (s *Shim) settle(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if exit, ran := p.last(); ran {
		s.ledger.settle(p, exit, !exit.Cancelled)
	} else {
		s.ledger.drop(p)
	}
	close(p.gone)
	s.leave()
}

// forget says that nobody waits for the end of an attempt any more, and whether the shim ends.
func (s *Shim) forget(n shimproto.Named) (last bool, err error) {
	p, _, err := s.find(n)
	if err != nil {
		return false, err
	}
	if p != nil {
		return false, fault.New(fault.Conflict, "forget", "process "+n.Name, "it was not killed yet")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.forget(n.Task, n.Attempt)
	return s.leave(), nil
}

// bye has the shim end as soon as it holds nothing, and says whether that is now.
func (s *Shim) bye() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	return s.leave()
}

// leave ends a shim that was asked to and holds nothing. The caller holds the lock.
func (s *Shim) leave() bool {
	if s.closing || !s.leaving || !s.ledger.empty() {
		return s.closing
	}
	s.closing = true
	// From now on nobody is there. The socket's name stays: by it the agent finds the cgroup, which it alone can
	// remove.
	s.door.close()
	close(s.quit)
	return true
}

func (s *Shim) list() *shimproto.List {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledger.list()
	l.Bundle = s.bundle
	return l
}
