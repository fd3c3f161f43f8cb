package shim

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/cmd/berth-helper/internal/spawn"
	"berth/cmd/berth-helper/internal/tasklog"
	"berth/internal/base/fault"
	"berth/internal/shimproto"
	"berth/internal/shimproto/cgroup"
)

// process is one launched task process with everything that was made for it.
type process struct {
	shim   *Shim
	launch *shimproto.Launch
	cgroup *cgroup.Group
	logs   []*tasklog.Stream
	logged []chan struct{}
	init   *spawn.Child // of an isolated process
	main   *spawn.Child

	ended chan struct{} // closed when exit is set

	mu      sync.Mutex
	exit    shimproto.Exit
	waiters map[*conn]bool
	dying   *death // the present or last try to destroy
}

// death is one try to end every process of the group and to remove what was made for it.
type death struct {
	done chan struct{}
	err  error
}

// settleLimit bounds how long an exit is held back for output that is still in the pipe.
const settleLimit = 2 * time.Second

// launch starts a process; on failure, and when the agent hangs up before it is told, nothing of it is left.
func (s *Shim) launch(m *shimproto.Launch, hangup <-chan struct{}) (shimproto.Message, error) {
	if m.Name == "" || len(m.Argv) == 0 || m.Argv[0] == "" {
		return nil, fault.New(fault.Invalid, "launch", "a process", "name and command must be given")
	}
	if err := s.reserve(m.Name); err != nil {
		return nil, err
	}
	p := &process{shim: s, launch: m, cgroup: s.tree.Group(s.slice, s.alloc, m.Name), ended: make(chan struct{}), waiters: map[*conn]bool{}}
	err := s.abortable(p, hangup)
	if err != nil {
		err = errors.Join(err, p.destroy())
		s.keep(m.Name, nil)
		return nil, err
	}
	s.keep(m.Name, p)
	s.beside("watch", p.watch)
	select {
	case <-hangup: // nobody has the handle of what was started
		if _, err := p.kill(0, 0, nil); err != nil {
			return nil, err
		}
		return nil, s.forget(m.Name)
	default:
	}
	return &shimproto.Launched{PID: p.main.PID, Cgroup: p.cgroup.Dir()}, nil
}

// abortable starts a process; when the agent hangs up meanwhile, what was begun is killed, so that a root whose building
// hangs ends.
func (s *Shim) abortable(p *process, hangup <-chan struct{}) error {
	started := make(chan struct{})
	defer close(started)
	s.beside("abort", func() error {
		select {
		case <-started:
			return nil
		case <-hangup:
		}
		select {
		case <-started: // and the agent, being answered, was done
			return nil
		default:
			return p.cgroup.Kill()
		}
	})
	return p.start()
}

func (p *process) start() error {
	if err := p.cgroup.Create(p.launch.Limits); err != nil {
		return err
	}
	logs, ends, err := tasklog.Open(p.launch.Task, p.launch.Logs)
	if err != nil {
		return err
	}
	defer tasklog.CloseAll(nil, ends)
	for _, l := range logs {
		done := make(chan struct{})
		p.logs, p.logged = append(p.logs, l), append(p.logged, done)
		p.shim.beside("log", func() error {
			defer close(done)
			return l.Run()
		})
	}
	if p.launch.Isolate != nil {
		if err := p.startInit(); err != nil {
			return err
		}
	}
	null, err := os.Open("/dev/null")
	if err != nil {
		return err
	}
	defer null.Close()
	spec := p.spec(p.launch.Argv)
	spec.Files = []*os.File{null, ends[0], ends[len(ends)-1]}
	p.main, err = spawn.Start(p.shim.group, spec)
	return err
}

// spec describes a child that lives where the main process does.
func (p *process) spec(argv []string) spawn.Spec {
	s := spawn.Spec{Argv: argv, Env: p.launch.Env, Dir: p.launch.Dir, Search: p.launch.Search, User: p.launch.User, Cgroup: p.cgroup.TaskLeaf()}
	s.Join, s.Back = p.cgroup.Joins()
	if iso := p.launch.Isolate; iso != nil {
		s.Enter = &spawn.Enter{PidFD: int(p.init.PidFD.Fd()), Flags: namespaces(iso)}
		s.Bound = &spawn.Bound{Keep: iso.Capabilities, Ambient: iso.Ambient, NoNewPrivileges: iso.NoNewPrivileges}
	}
	return s
}

// namespaces are those of an isolated process.
func namespaces(iso *shimproto.Isolate) int {
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWUTS
	if !iso.HostPID {
		flags |= unix.CLONE_NEWPID
	}
	if !iso.HostIPC {
		flags |= unix.CLONE_NEWIPC
	}
	return flags
}

// watch waits for the main process and publishes its exit.
func (p *process) watch() error {
	<-p.main.Done()
	for _, l := range p.logs {
		l.Settle(settleLimit)
	}
	var exit shimproto.Exit
	var err error
	exit.Code, exit.Signal, err = p.main.Exit()
	exit.Ended = time.Now().UnixNano()
	if err != nil {
		exit.Err = err.Error()
	}
	// A task that lived on after the kernel had killed a child of it did not end for that.
	exit.OOM = (exit.Code != 0 || exit.Signal != 0) && p.cgroup.OOMKills() > 0
	exit.LogLost, _ = p.lost()
	if p.init != nil {
		_ = p.init.Signal(unix.SIGKILL) // with the main process ends its pid namespace; destroy makes sure
	}
	p.mu.Lock()
	p.exit = exit
	close(p.ended)
	waiters := p.waiters
	p.waiters = nil
	p.mu.Unlock()
	for c := range waiters {
		_ = shimproto.Write(c, shimproto.TypeDone, &exit) // who hung up asks again
	}
	return nil
}

// await answers a waiting connection now, or when the process ends.
func (p *process) await(c *conn) {
	p.mu.Lock()
	if p.waiters != nil {
		p.waiters[c] = true
		p.mu.Unlock()
		return
	}
	exit := p.exit
	p.mu.Unlock()
	_ = shimproto.Write(c, shimproto.TypeDone, &exit) // who hung up asks again
}

func (p *process) leave(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiters, c)
}

// kill ends the process, first politely, and returns its exit when nothing of it is left.
func (p *process) kill(sig unix.Signal, grace time.Duration, hangup <-chan struct{}) (shimproto.Message, error) {
	if grace > 0 && sig != 0 {
		if err := p.main.Signal(sig); err != nil {
			return nil, fault.Wrap(err, fault.Invalid, "signal", "process "+p.launch.Name)
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.ended:
		case <-timer.C:
		case <-hangup:
			return nil, fault.New(fault.Canceled, "kill", "process "+p.launch.Name, "the agent hung up")
		}
	}
	d := p.die()
	select {
	case <-d.done:
	case <-hangup:
		return nil, fault.New(fault.Canceled, "kill", "process "+p.launch.Name, "the agent hung up")
	}
	if d.err != nil {
		return nil, d.err
	}
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	exit := p.exit
	return &exit, nil
}

// die begins to destroy the process, joins a try that is under way, or begins another after one that failed.
func (p *process) die() *death {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dying != nil && !(p.dying.over() && p.dying.err != nil) {
		return p.dying
	}
	d := &death{done: make(chan struct{})}
	p.dying = d
	ok := p.shim.beside("destroy", func() error {
		defer close(d.done)
		d.err = p.destroy()
		return nil
	})
	if !ok {
		d.err = fault.New(fault.Unavailable, "kill", "process "+p.launch.Name, "the shim is closing")
		close(d.done)
	}
	return d
}

func (d *death) over() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// isGone reports whether nothing of the process is left.
func (p *process) isGone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dying != nil && p.dying.over() && p.dying.err == nil
}

// destroy kills the group, waits until it is empty and every child was waited for, and removes it. Mounts of an isolated
// root are gone after it: the last process of its mount namespace is.
func (p *process) destroy() error {
	if err := p.cgroup.Kill(); err != nil {
		return err
	}
	if err := p.cgroup.WaitEmpty(context.Background()); err != nil {
		return err
	}
	if p.main != nil {
		<-p.ended // the exit is read from the group that is removed below
	}
	for _, c := range []*spawn.Child{p.main, p.init} {
		if c != nil {
			<-c.Done()
			_ = c.PidFD.Close() // nothing is left to signal
		}
	}
	for _, done := range p.logged {
		<-done
	}
	return p.cgroup.Remove()
}

func (p *process) lost() (n int64, why string) {
	for _, l := range p.logs {
		bytes, text := l.Lost()
		n += bytes
		if text != "" {
			why = text
		}
	}
	return n, why
}

func (p *process) entry() shimproto.Entry {
	e := shimproto.Entry{Name: p.launch.Name, Task: p.launch.Task, PID: p.main.PID, Cgroup: p.cgroup.Dir()}
	select {
	case <-p.ended:
		e.Ended = true
	default:
	}
	e.LogLost, e.LogError = p.lost()
	return e
}
