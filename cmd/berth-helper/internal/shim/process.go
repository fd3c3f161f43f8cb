package shim

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/cmd/berth-helper/internal/spawn"
	"berth/cmd/berth-helper/internal/tasklog"
	"berth/internal/base/fault"
	"berth/internal/cgroup"
	"berth/internal/shimproto"
)

// process is one attempt of a task with everything that was made for it, from its launch until nothing is left.
type process struct {
	shim   *Shim
	launch *shimproto.Launch
	cgroup *cgroup.Group
	logs   []*tasklog.Stream
	logged []chan struct{}
	init   initStage // of an isolated process
	main   *spawn.Child

	started   chan struct{} // closed when the start is over, well or not
	abandoned chan struct{} // closed when the launch is given up
	ended     chan struct{} // closed when exit is set
	reported  chan struct{} // closed when the exit was sent to those who waited for it
	gone      chan struct{} // closed when nothing is left

	mu      sync.Mutex
	state   state
	exit    shimproto.Exit
	waiters map[*conn]bool
}

// state is how far a process has come.
type state struct {
	err         error // why it did not start
	running     bool  // its main process was started
	answered    bool  // a conversation was sent that it runs
	cancelled   bool  // the launch was given up
	asked       bool  // it was asked to end
	oomKills    int64 // of its processes, before it was asked to end
	deadline    int64 // of CLOCK_BOOTTIME, for its end; 0: none
	tearingDown bool
	try         chan struct{} // closed when the present try to destroy it has failed, for the reason in tryErr
	tryErr      error
}

// settleLimit bounds how long an exit is held back for output that is still in the pipe.
const settleLimit = 2 * time.Second

// Bounds of the tries to destroy a process: how long one waits for the kernel, and the pauses between them.
const (
	destroyLimit = 15 * time.Second
	minPause     = 100 * time.Millisecond
	maxPause     = 5 * time.Second
)

func newProcess(s *Shim, m *shimproto.Launch) *process {
	return &process{
		shim:      s,
		launch:    m,
		cgroup:    s.tree.Group(s.slice, s.alloc, m.Name),
		started:   make(chan struct{}),
		abandoned: make(chan struct{}),
		ended:     make(chan struct{}),
		reported:  make(chan struct{}),
		gone:      make(chan struct{}),
		state:     state{try: make(chan struct{})},
		waiters:   map[*conn]bool{},
	}
}

func (p *process) subject() string { return "process " + p.launch.Name }

// watch waits for the main process and publishes its exit.
func (p *process) watch() error {
	defer close(p.reported)
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
	kills := p.cgroup.OOMKills()
	exit.LogLost, _ = p.lost()
	if p.init.child != nil {
		_ = p.init.child.Signal(unix.SIGKILL) // with the main process ends its pid namespace; destroy makes sure
	}
	p.mu.Lock()
	// A task that lived on after the kernel had killed a child of it did not end for that, nor one that was then asked to.
	exit.OOM = (exit.Code != 0 || exit.Signal != 0) && kills > p.state.oomKills
	exit.Cancelled = p.state.cancelled
	p.exit = exit
	close(p.ended)
	asked, waiters := p.state.asked, p.waiters
	p.waiters = nil
	p.mu.Unlock()
	for c := range waiters {
		_ = shimproto.Write(c, shimproto.TypeDone, &exit) // who hung up asks again
	}
	if asked {
		p.teardown()
	}
	return nil
}

// await registers a conversation that gets the exit when it comes. If it came already it is returned; both are zero
// when none will come.
func (p *process) await(c *conn) (exit *shimproto.Exit, registered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiters != nil {
		p.waiters[c] = true
		return nil, true
	}
	if !isClosed(p.ended) {
		return nil, false
	}
	e := p.exit
	return &e, false
}

func (p *process) leave(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiters, c)
}

// stop asks the process to end: with a signal, the first time, and a deadline that another time can only bring nearer.
// It does not wait. A launch that is under way is given up.
func (p *process) stop(sig unix.Signal, grace time.Duration) error {
	deadline := shimproto.Boottime()
	now := sig == 0 || grace <= 0
	if !now {
		deadline += int64(min(grace, 1<<60))
	}
	p.mu.Lock()
	if !p.state.running {
		p.cancel()
		p.mu.Unlock()
		return nil
	}
	now = now || isClosed(p.ended)
	if !p.state.asked && !isClosed(p.main.Done()) {
		p.state.oomKills = p.cgroup.OOMKills()
	}
	if !now && !p.state.asked {
		if err := p.main.Signal(sig); err != nil {
			p.mu.Unlock()
			return fault.Wrap(err, fault.Invalid, "signal", p.subject())
		}
	}
	p.state.asked = true
	if p.state.deadline == 0 || deadline < p.state.deadline {
		p.state.deadline = deadline
	}
	p.mu.Unlock()
	if now {
		p.teardown()
	} else {
		p.shim.nudge()
	}
	return nil
}

// signal sends to the main process; to nobody when it has ended.
func (p *process) signal(sig unix.Signal) error {
	p.mu.Lock()
	running := p.state.running
	p.mu.Unlock()
	if !running {
		return fault.New(fault.NotReady, "signal", p.subject(), "it does not run yet")
	}
	return fault.Wrap(p.main.Signal(sig), fault.Invalid, "signal", p.subject())
}

// deadline is until when the process may live.
func (p *process) deadline() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.tearingDown {
		return 0
	}
	return p.state.deadline
}

// end ends the process at once, or gives up its launch.
func (p *process) end() {
	p.mu.Lock()
	running := p.state.running
	if !running {
		p.cancel()
	}
	p.mu.Unlock()
	if running {
		p.teardown()
	}
}

// teardown destroys the process, in the background, and goes on until nothing is left.
func (p *process) teardown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.tearingDown {
		return
	}
	p.state.tearingDown = true
	ok := p.shim.goAsync("destroy", func() error {
		for pause := minPause; ; pause = min(2*pause, maxPause) {
			err := p.destroy()
			if err == nil {
				p.shim.settle(p)
				p.dismiss()
				return nil
			}
			p.mu.Lock()
			close(p.state.try)
			p.state.try, p.state.tryErr = make(chan struct{}), err
			p.mu.Unlock()
			time.Sleep(pause)
		}
	})
	if !ok { // the shim ends, which it does only when it holds nothing
		p.state.tryErr = fault.New(fault.Unavailable, "kill", p.subject(), "the shim is closing")
		close(p.state.try)
	}
}

// dismiss answers those who wait for the exit of a process that never ran.
func (p *process) dismiss() {
	p.mu.Lock()
	waiters := p.waiters
	p.waiters = nil
	p.mu.Unlock()
	for c := range waiters {
		if exit, ran := p.last(); ran {
			_ = shimproto.Write(c, shimproto.TypeDone, &exit) // who hung up asks again
		} else {
			_ = shimproto.Write(c, shimproto.TypeFault, shimproto.FaultOf(unheld(p.launch.Named))) // likewise
		}
	}
}

// awaitGone returns when nothing of the process is left, or why a try to achieve that failed; others follow.
func (p *process) awaitGone(giveUp <-chan struct{}) error {
	p.mu.Lock()
	try := p.state.try
	p.mu.Unlock()
	select {
	case <-p.gone:
		return nil
	case <-giveUp:
		return fault.New(fault.Canceled, "end", p.subject(), "nobody waits for it any more")
	case <-try:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.state.tryErr
	}
}

// destroy kills the group, waits until it is empty and every child was waited for, and removes it. Mounts of an
// isolated root are gone after it: the last process of its mount namespace is. It may be repeated.
func (p *process) destroy() error {
	if err := p.cgroup.Kill(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), destroyLimit)
	defer cancel()
	if err := p.cgroup.WaitEmpty(ctx); err != nil {
		return err
	}
	if p.main != nil { // the exit is read from the group that is removed below, and sent before the process is gone
		<-p.reported
	}
	for _, c := range []*spawn.Child{p.main, p.init.child} {
		if c != nil {
			<-c.Done()
			c.Close()
		}
	}
	p.init.close()
	for i, done := range p.logged {
		select {
		case <-done:
		case <-time.After(settleLimit):
			p.logs[i].End()
			<-done
		}
	}
	return p.cgroup.Remove()
}

// last is how the process ended, once it is destroyed; false when it never ran, for a reason that its launch was
// answered with.
func (p *process) last() (shimproto.Exit, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.state.running && p.state.cancelled && !p.exit.Cancelled {
		p.exit = shimproto.Exit{Cancelled: true, Ended: time.Now().UnixNano(), Err: "its launch was given up"}
	}
	return p.exit, p.state.running || p.state.cancelled
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
	p.mu.Lock()
	defer p.mu.Unlock()
	e := shimproto.Entry{Named: p.launch.Named, Cgroup: p.cgroup.Dir(), Starting: !p.state.running}
	if p.state.running { // the rest is being made before
		e.PID = p.main.PID
		e.LogLost, e.LogError = p.lost()
	}
	e.Ended = isClosed(p.ended)
	return e
}
