package shim

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/cgroup"
	"berth/internal/client/shim/names"
	"berth/internal/port/driver"
	"berth/internal/shimproto"
)

// process is one launched process. It holds no connection: each call has its own.
type process struct {
	l      *Launcher
	alloc  string
	handle driver.ProcessHandle

	mu   sync.Mutex
	exit *driver.ExitResult // once it is known
}

var _ driver.Process = (*process)(nil)

func (p *process) Handle() driver.ProcessHandle { return p.handle }

func (p *process) subject() string { return "process " + strconv.Quote(p.handle.Name) }

// known returns the exit if it was learned already.
func (p *process) known() *driver.ExitResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// learn keeps the first exit: what a shim reported is better than what is concluded from its end.
func (p *process) learn(exit driver.ExitResult) driver.ExitResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exit == nil {
		p.exit = &exit
	}
	return *p.exit
}

// Wait implements driver.Process. The answer comes when the process ends; should the shim die instead, the connection
// ends, everything in the cgroup is killed, and the exit is unknown.
func (p *process) Wait(ctx context.Context) (driver.ExitResult, error) {
	if exit := p.known(); exit != nil {
		return *exit, nil
	}
	var m shimproto.Exit
	n := p.named()
	err := ask(ctx, p.handle.Socket, shimproto.TypeWait, &n, &m)
	if err == nil {
		return p.learn(exitResult(&m)), nil
	}
	if exit := p.known(); exit != nil { // Kill was faster
		return *exit, nil
	}
	if !errors.Is(err, errGone) {
		return driver.ExitResult{}, fault.Note(err, "wait for", p.subject())
	}
	if err := p.cleanUp(ctx); err != nil {
		return driver.ExitResult{}, fault.Note(err, "wait for", p.subject())
	}
	return p.learn(p.unknown()), nil
}

func (p *process) unknown() driver.ExitResult {
	return driver.ExitResult{
		Unknown: true,
		Ended:   time.Now(),
		Err:     "the shim of alloc " + ids.Short(p.alloc) + " died; its processes were killed",
	}
}

func exitResult(m *shimproto.Exit) driver.ExitResult {
	return driver.ExitResult{
		ExitCode:  m.Code,
		Signal:    m.Signal,
		OOMKilled: m.OOM,
		Unknown:   m.Unknown,
		Err:       m.Err,
		Ended:     time.Unix(0, m.Ended),
	}.Told()
}

func (p *process) named() shimproto.Named {
	n := shimproto.Named{Name: p.handle.Name, Task: p.handle.Task, Attempt: p.handle.Attempt}
	n.Complete() // a handle that an agent of an earlier version wrote has the name alone
	return n
}

// cleanUp makes sure that the shim is dead and ends what it left of this process.
func (p *process) cleanUp(ctx context.Context) error {
	if p.handle.Boot != bootID() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := waitDead(limited, p.handle.ShimPID, p.handle.ShimStart); err != nil {
		return err
	}
	g, err := p.group()
	if err != nil {
		return err
	}
	if err := g.Kill(); err != nil {
		return err
	}
	return g.WaitEmpty(ctx)
}

func (p *process) group() (*cgroup.Group, error) { return p.l.tree.At(p.handle.Cgroup) }

// Signal implements driver.Process.
func (p *process) Signal(ctx context.Context, signal string) error {
	n, err := names.Signal(signal)
	if err != nil {
		return err
	}
	m := &shimproto.Signal{Named: p.named(), Number: n}
	return fault.Note(p.ask(ctx, shimproto.TypeSignal, m, &shimproto.Named{}), "signal", p.subject())
}

// ask asks something that only a process which has not ended can answer.
func (p *process) ask(ctx context.Context, t shimproto.Type, m, reply shimproto.Message) error {
	err := ask(ctx, p.handle.Socket, t, m, reply)
	if over := (*endedError)(nil); errors.As(err, &over) {
		return fault.Wrap(err, fault.NotFound, "", "")
	}
	return err
}

// Kill implements driver.Process. It may be repeated until it succeeds.
func (p *process) Kill(ctx context.Context, signal string, grace time.Duration) error {
	m := &shimproto.Kill{Named: p.named(), Grace: int64(grace)}
	if signal != "" && grace > 0 {
		n, err := names.Signal(signal)
		if err != nil {
			return err
		}
		m.Number = n
	}
	exit, err := p.l.stop(ctx, p.alloc, m)
	if exit != nil {
		p.learn(exitResult(exit))
		if exit.LogLost > 0 {
			p.l.cfg.Log.Warn("output of a task could not be written", logkey.Alloc, p.alloc, "process", p.handle.Name,
				"lost_bytes", exit.LogLost)
		}
	}
	if errors.Is(err, errGone) {
		err = p.removeDead(ctx)
	}
	if err != nil && !fault.Has(err, fault.NotFound) {
		return fault.Note(err, "kill", p.subject())
	}
	return fault.Note(p.l.bye(ctx, p.alloc), "kill", p.subject())
}

// removeDead ends and removes what a dead shim left of this process.
func (p *process) removeDead(ctx context.Context) error {
	if err := p.cleanUp(ctx); err != nil {
		return err
	}
	p.learn(p.unknown())
	if p.handle.Boot != bootID() {
		return nil
	}
	g, err := p.group()
	if err != nil {
		return err
	}
	return g.Remove()
}

// OOMKills implements driver.OOMCounter.
func (p *process) OOMKills() int64 {
	g, err := p.group()
	if err != nil {
		return 0 // it has ended, or ends
	}
	return g.OOMKills()
}

// Stats implements driver.Inspector.
func (p *process) Stats(ctx context.Context) (driver.Stats, error) {
	var m shimproto.Stats
	n := p.named()
	if err := p.ask(ctx, shimproto.TypeStats, &n, &m); err != nil {
		return driver.Stats{}, fault.Note(err, "read usage of", p.subject())
	}
	u := func(n int64) uint64 { return uint64(max(n, 0)) }
	return driver.Stats{
		Time:           time.Now(),
		CPUNanos:       u(m.CPUNanos),
		UserNanos:      u(m.UserNanos),
		SystemNanos:    u(m.SystemNanos),
		ThrottledNanos: u(m.ThrottledNanos),
		MemoryRSS:      u(m.RSS),
		MemoryCache:    u(m.Cache),
		MemoryUsage:    u(m.Usage),
		MemoryMax:      u(m.Max),
		PIDs:           int(m.PIDs),
	}, nil
}

// Attach implements driver.Launcher.
func (l *Launcher) Attach(ctx context.Context, h driver.ProcessHandle) (driver.Process, error) {
	p := &process{l: l, alloc: allocOf(h.Socket), handle: h}
	fail := func(err error) (driver.Process, error) { return nil, fault.Note(err, "attach to", p.subject()) }
	if h.Boot != bootID() {
		return fail(fault.New(fault.NotFound, "", "", "the machine was restarted since it was launched"))
	}
	// The data directory may have been moved since, or have another name: its shims are where it is now.
	h.Socket = l.socket(p.alloc)
	p.handle = h
	c, err := l.reach(ctx, p.alloc)
	if err != nil && !errors.Is(err, errGone) {
		return fail(err)
	}
	if err == nil {
		defer c.close()
		if c.hello.PID == h.ShimPID && c.hello.Start == h.ShimStart {
			return p.confirm(ctx, c)
		}
	}
	// The shim of the handle is dead; what answers, if anything does, is a later one.
	if err := p.removeDead(ctx); err != nil {
		return fail(err)
	}
	if c == nil {
		if err := l.bye(ctx, p.alloc); err != nil {
			return fail(err)
		}
	}
	return fail(fault.New(fault.NotFound, "", "", "its shim died, and what was left of it was killed"))
}

// confirm asks the shim whether it still holds the process, or remembers how it ended.
func (p *process) confirm(ctx context.Context, c *conn) (driver.Process, error) {
	var held shimproto.List
	if err := c.ask(ctx, shimproto.TypeList, nil, &held); err != nil {
		return nil, fault.Note(err, "attach to", p.subject())
	}
	for _, e := range held.Entries {
		if e.Name == p.handle.Name {
			return p, nil
		}
	}
	n := p.named()
	for i := range held.Ends {
		if e := &held.Ends[i]; e.Task == n.Task && e.Attempt == n.Attempt {
			p.learn(exitResult(&e.Exit))
			return p, nil
		}
	}
	return nil, fault.New(fault.NotFound, "attach to", p.subject(), "its shim has forgotten it")
}

// allocOf is the alloc in a socket's name. For an alloc whose id is no UUID it is the hash, which names the same files:
// stem must leave it as it is.
func allocOf(socket string) string {
	base := filepath.Base(socket)
	return base[:max(0, len(base)-len(".sock"))]
}
