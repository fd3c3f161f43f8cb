package shim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/procs"
	"berth/internal/client/shim"
	"berth/internal/port/driver"
	"berth/internal/shimproto"
)

// storm is one alloc whose agents say anything at any time, and the memory of what was answered, that every answer is
// held against.
type storm struct {
	t     testing.TB
	seed  uint64
	dir   string
	alloc string

	busy   sync.RWMutex // read-held while an agent launches: the next one comes when the last is dead
	mu     sync.Mutex
	agent  *shim.Launcher
	ctx    context.Context // of the present agent
	die    context.CancelFunc
	newest map[string]int
	aimed  map[string]bool // attempts that somebody meant to end, or launched and hung up
	leased map[int]bool    // shims whose lease was short
	killed map[int]bool    // shims that were killed
	ends   map[string]shimproto.Exit
}

// TestTheProtocolInAStorm: given agents that repeat, double, delay and cut off every request, die and come back, and
// shims that are killed, then of each task at most one attempt lives, no attempt ends that nobody meant to end, each
// has one end for as long as its shim lives, and in the end nothing is left.
func TestTheProtocolInAStorm(t *testing.T) {
	t.Parallel()
	seeds := 8
	if testing.Short() {
		seeds = 1
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := &storm{
				t:      t,
				seed:   seed,
				dir:    tempDir(t),
				alloc:  ids.New(),
				newest: map[string]int{},
				aimed:  map[string]bool{},
				leased: map[int]bool{},
				killed: map[int]bool{},
				ends:   map[string]shimproto.Exit{},
			}
			s.run()
		})
	}
}

func (s *storm) run() {
	s.revive()
	var wg sync.WaitGroup
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(over)
	}()
	storm, calm := context.WithTimeout(s.t.Context(), 2500*time.Millisecond) // runs out: then the storm is over
	defer calm()
	for w := range uint64(6) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(s.seed, w))
			for storm.Err() == nil && !s.t.Failed() {
				s.step(r)
			}
		})
	}
	wg.Go(func() {
		r := rand.New(rand.NewPCG(s.seed, 99))
		for storm.Err() == nil {
			time.Sleep(time.Duration(50+r.IntN(300)) * time.Millisecond)
			if r.IntN(3) == 0 {
				s.killShim()
			} else {
				s.revive()
			}
		}
	})
	wg.Wait()
	close(over)
	<-watched
	s.die()
	if err := launcherAt(s.t, s.dir).EndAll(short(s.t)); err != nil {
		s.t.Errorf("the end: %v", err)
	}
	left := slices.DeleteFunc(cgroups(s.t), func(group string) bool { return !strings.Contains(group, s.alloc) })
	if left = append(left, sockets(s.t, s.dir)...); len(left) > 0 {
		s.t.Errorf("left behind: %v", left)
	}
	s.t.Logf("%d attempts, %d ends, %d shims killed", s.newest["a"]+s.newest["b"], len(s.ends), len(s.killed))
}

// revive has the agent die, with all its conversations, and another one take its place.
func (s *storm) revive() {
	l, err := shim.New(shim.Config{Dir: s.dir, Program: program, Slice: slice})
	if err != nil {
		s.t.Error(err)
		return
	}
	if s.die != nil {
		s.die()
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agent = l
	s.ctx, s.die = context.WithCancel(context.Background())
}

func (s *storm) present() (context.Context, *shim.Launcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx, s.agent
}

// killShim kills the shim that answers now.
func (s *storm) killShim() {
	k, hello := s.dial()
	if k == nil {
		return
	}
	defer k.Close()
	s.mu.Lock()
	s.killed[hello.PID] = true
	s.mu.Unlock()
	if start, err := procs.StartTime(hello.PID); err == nil && start == hello.Start {
		_ = unix.Kill(hello.PID, unix.SIGKILL) // it may have ended by itself
	}
}

// dial greets the shim; nil when there is none.
func (s *storm) dial() (net.Conn, shimproto.HelloReply) {
	var hello shimproto.HelloReply
	c, err := net.Dial("unix", filepath.Join(s.dir, s.alloc+".sock"))
	if err != nil {
		return nil, hello
	}
	err = errors.Join(c.SetDeadline(time.Now().Add(2*time.Minute)),
		shimproto.Write(c, shimproto.TypeHello, &shimproto.Hello{Min: 2, Max: 2}))
	if err == nil {
		var payload []byte
		if _, payload, err = shimproto.Read(c); err == nil {
			err = shimproto.Unmarshal(payload, &hello)
		}
	}
	if err != nil {
		_ = c.Close() // the shim ended meanwhile
		return nil, hello
	}
	return c, hello
}

// pick chooses a task and one of its attempts, often the newest.
func (s *storm) pick(r *rand.Rand) shimproto.Named {
	task := []string{"a", "b"}[r.IntN(2)]
	s.mu.Lock()
	defer s.mu.Unlock()
	attempt := max(1, s.newest[task]-max(0, r.IntN(8)-4))
	return shimproto.Named{Name: driver.ProcessName(task, attempt), Task: task, Attempt: attempt}
}

// aim notes that an attempt may end by what is done now, and, for a launch, all below it.
func (s *storm) aim(n shimproto.Named, below bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !below {
		s.aimed[n.Name] = true
		return
	}
	for a := range n.Attempt {
		s.aimed[driver.ProcessName(n.Task, a)] = true
	}
}

func (s *storm) step(r *rand.Rand) {
	n := s.pick(r)
	switch r.IntN(10) {
	case 0, 1, 2:
		s.launch(r, s.next(r, n))
	case 3, 4:
		s.aim(n, false)
		m := &shimproto.Kill{Named: n, Number: int(unix.SIGTERM), Grace: int64(r.IntN(40)) * int64(time.Millisecond)}
		s.request(r, n, shimproto.TypeKill, m, &shimproto.Exit{})
	case 5:
		s.request(r, n, shimproto.TypeWait, &n, &shimproto.Exit{})
	case 6:
		s.aim(n, false)
		s.request(r, n, shimproto.TypeSignal, &shimproto.Signal{Named: n, Number: int(unix.SIGKILL)},
			&shimproto.Named{})
	case 7:
		s.request(r, n, shimproto.TypeForget, &n, &shimproto.Forgotten{})
	case 8:
		s.request(r, n, []shimproto.Type{shimproto.TypeBye, shimproto.TypeStats, shimproto.TypeList}[r.IntN(3)], &n,
			nil)
	case 9:
		s.lease(r)
	}
}

// next is the attempt of a launch: mostly a new one, else the present or an earlier one again.
func (s *storm) next(r *rand.Rand, n shimproto.Named) shimproto.Named {
	if r.IntN(3) == 0 {
		return n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest[n.Task]++
	a := s.newest[n.Task]
	return shimproto.Named{Name: driver.ProcessName(n.Task, a), Task: n.Task, Attempt: a}
}

func (s *storm) launch(r *rand.Rand, n shimproto.Named) {
	s.aim(n, true)
	script := "exec sleep 1000"
	if r.IntN(4) == 0 {
		script = fmt.Sprintf("exit %d", r.IntN(100))
	}
	if r.IntN(2) == 0 {
		s.request(r, n, shimproto.TypeLaunch, launchOf(n, script), &shimproto.Launched{})
		return
	}
	s.busy.RLock()
	defer s.busy.RUnlock()
	ctx, agent := s.present()
	if r.IntN(4) == 0 { // the agent gives up
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(8000))*time.Microsecond)
		defer cancel()
	}
	_, err := agent.Launch(ctx, &driver.LaunchSpec{
		AllocID: s.alloc,
		Task:    n.Task,
		Attempt: n.Attempt,
		Argv:    []string{"/bin/sh", "-c", script},
		Env:     []string{"PATH=/usr/bin:/bin"},
		Dir:     "/",
		Logs:    driver.LogConfig{Disabled: true},
	})
	if ctx.Err() != nil {
		s.aim(n, false)
	}
	if over := (*driver.AttemptOver)(nil); err != nil && ctx.Err() == nil && !errors.As(err, &over) {
		s.refused(n, err)
	}
}

// lease gives the shim a short or a long lease, or ends it, in requests that may be late.
func (s *storm) lease(r *rand.Rand) {
	c, hello := s.dial()
	if c == nil {
		return
	}
	defer c.Close()
	now := shimproto.Boottime()
	m := &shimproto.Lease{At: now - int64(r.IntN(100))*int64(time.Millisecond)}
	switch r.IntN(6) {
	case 0:
		s.mu.Lock()
		s.leased[hello.PID] = true
		s.mu.Unlock()
		m.Deadline = now + int64(r.IntN(30))*int64(time.Millisecond)
	case 1, 2:
		m.Deadline = now + int64(time.Hour)
	}
	if shimproto.Write(c, shimproto.TypeLease, m) == nil {
		_, _, _ = shimproto.Read(c) // the answer may be lost with the shim
	}
}

// request says something once or twice, at once or later, and hears the answer or not.
func (s *storm) request(r *rand.Rand, n shimproto.Named, typ shimproto.Type, m, reply shimproto.Message) {
	late := r.IntN(4) == 0
	noAnswer := r.IntN(4) == 0
	pause := time.Duration(r.IntN(20)) * time.Millisecond
	var conns []net.Conn
	var shims []int
	for range 1 + r.IntN(2) {
		if c, hello := s.dial(); c != nil {
			defer c.Close()
			conns, shims = append(conns, c), append(shims, hello.PID)
		}
	}
	ctx, _ := s.present()
	if late {
		time.Sleep(pause)
	}
	if typ == shimproto.TypeLaunch && (noAnswer || len(conns) > 1) {
		s.aim(n, false)
	}
	for _, c := range conns {
		if shimproto.Write(c, typ, m) != nil {
			return // the shim has ended
		}
	}
	if noAnswer {
		return
	}
	if typ == shimproto.TypeWait || typ == shimproto.TypeLaunch { // the agent may die before the answer
		if typ == shimproto.TypeLaunch {
			s.aim(n, false)
		}
		wctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond) // runs out: the agent dies
		defer cancel()
		for _, c := range conns {
			defer context.AfterFunc(wctx, func() { _ = c.Close() })()
		}
	}
	for i, c := range conns {
		s.hear(c, shims[i], n, reply)
	}
}

// hear reads an answer and holds it against what is known.
func (s *storm) hear(c net.Conn, shim int, n shimproto.Named, reply shimproto.Message) {
	typ, payload, err := shimproto.Read(c)
	if err != nil {
		if e := (net.Error)(nil); errors.As(err, &e) && e.Timeout() {
			s.t.Errorf("seed %d: no answer about %s", s.seed, n.Name)
		}
		return // the shim has ended, or the agent died
	}
	switch typ {
	case shimproto.TypeFault:
		var f shimproto.Fault
		if err := shimproto.Unmarshal(payload, &f); err != nil {
			s.t.Error(err)
		}
		s.refused(n, f.Err())
	case shimproto.TypeEnded:
		var e shimproto.Ended
		if err := shimproto.Unmarshal(payload, &e); err != nil {
			s.t.Error(err)
		}
		s.ended(shim, n, e.Exit)
	case shimproto.TypeDone:
		if exit, ok := reply.(*shimproto.Exit); ok {
			if err := shimproto.Unmarshal(payload, exit); err != nil {
				s.t.Error(err)
			}
			s.ended(shim, n, *exit)
		}
	}
}

// refused judges an error: those say in what way the request came at the wrong time.
func (s *storm) refused(n shimproto.Named, err error) {
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Conflict, fault.Unavailable, fault.NotReady, fault.Canceled:
	default:
		s.t.Errorf("seed %d: %s: %v: %v", s.seed, n.Name, fault.KindOf(err), err)
	}
}

// ended judges what a shim says of an end.
func (s *storm) ended(shim int, n shimproto.Named, exit shimproto.Exit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprintf("%d/%s", shim, n.Name)
	first, known := s.ends[key]
	switch {
	case exit.Unknown && known && n.Attempt > s.newest[n.Task]-shimproto.Kept:
		s.t.Errorf("seed %d: the end of %s is forgotten", s.seed, n.Name)
	case exit.Unknown:
	case known && first != exit:
		s.t.Errorf("seed %d: %s ended %+v, and ended %+v", s.seed, n.Name, first, exit)
	default:
		s.ends[key] = exit
	}
	if exit.Signal != 0 && !exit.Cancelled && !s.aimed[n.Name] && !s.leased[shim] && !s.killed[shim] {
		s.t.Errorf("seed %d: %s was ended by nobody: %+v", s.seed, n.Name, exit)
	}
}

// watch looks for two attempts of a task that live at once.
func (s *storm) watch(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(time.Millisecond):
		}
		var groups []string
		for _, point := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} { // hybrid, or the v2 tree alone
			found, err := filepath.Glob(filepath.Join(point, slice, s.alloc, "task-*"))
			if err != nil {
				s.t.Error(err)
				return
			}
			groups = append(groups, found...)
		}
		latest := map[string]int{}
		for _, g := range groups {
			if task, attempt, ok := shimproto.SplitName(filepath.Base(g)); ok {
				latest[task] = max(latest[task], attempt)
			}
		}
		// A later attempt was seen: from then on no earlier one may live.
		for _, g := range groups {
			task, attempt, _ := shimproto.SplitName(filepath.Base(g))
			events, err := os.ReadFile(filepath.Join(g, "cgroup.events"))
			if attempt < latest[task] && err == nil && strings.Contains(string(events), "populated 1") {
				s.t.Errorf("seed %d: attempt %d of %s lives beside attempt %d", s.seed, attempt, task, latest[task])
			}
		}
	}
}
