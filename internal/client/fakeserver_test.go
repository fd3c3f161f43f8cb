package client_test

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/port/driver"
	"berth/internal/port/driver/mock"
	"berth/internal/port/hostfs"
	"berth/internal/wire"
)

// fakeServers plays the server half for one node: it hands out allocs and remembers what it was told.
type fakeServers struct {
	t       *testing.T
	changed lifecycle.Signal

	mu          sync.Mutex
	incarnation string
	index       uint64
	node        *node.Node
	registered  int
	allocs      map[ids.Alloc]alloc.Bundle
	forgotten   map[ids.Alloc]bool // left out of sets, but known by id
	told        map[ids.Alloc]*alloc.Alloc
	history     map[ids.Alloc][]string // client states in the order they were told
	down        bool
	reversed    chan *grpc.ClientConn
}

func newFakeServers(t *testing.T) *fakeServers {
	return &fakeServers{t: t, incarnation: "one", index: 10, allocs: map[ids.Alloc]alloc.Bundle{}, forgotten: map[ids.Alloc]bool{},
		told: map[ids.Alloc]*alloc.Alloc{}, history: map[ids.Alloc][]string{}, reversed: make(chan *grpc.ClientConn, 4)}
}

// serve starts a life of the servers and returns how to reach it.
func (f *fakeServers) serve() (dial, reverse client.Dialer) {
	p, back := wire.NewPipe(), wire.NewPipe()
	s := wire.NewServer()
	wire.NodeRegister.Serve(s, f.register)
	wire.NodeHeartbeat.Serve(s, func(context.Context, *wire.NodeHeartbeatRequest) (*wire.NodeHeartbeatReply, error) {
		return &wire.NodeHeartbeatReply{TTL: time.Second}, f.alive()
	})
	wire.NodeAllocs.Serve(s, f.stream)
	wire.NodeAllocsKnown.Serve(s, f.known)
	wire.NodeUpdate.Serve(s, f.update)
	ctx, cancel := context.WithCancel(context.Background())
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("serve", func() error { return s.Run(gctx, p.Listener()) })
	g.Go("accept reversed", func() error { return f.accept(gctx, back.Listener()) })
	f.t.Cleanup(func() {
		cancel()
		_ = back.Listener().Close()
		if err := g.Wait(); err != nil {
			f.t.Errorf("servers: %v", err)
		}
	})
	return p.Dial, back.Dial
}

func (f *fakeServers) accept(ctx context.Context, l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return nil
		}
		_, conn, err := wire.ReceiveHello(c)
		if err != nil {
			return err
		}
		select {
		case f.reversed <- conn:
		case <-ctx.Done():
			return conn.Close()
		}
	}
}

func (f *fakeServers) alive() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return fault.New(fault.Unavailable, "reach", "server", "it is down")
	}
	return nil
}

func (f *fakeServers) register(_ context.Context, r *wire.NodeRegisterRequest) (*wire.NodeRegisterReply, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.node = r.Info
	f.registered++
	defer f.changed.Notify()
	return &wire.NodeRegisterReply{Index: f.index, HeartbeatTTL: time.Second, Incarnation: f.incarnation}, nil
}

func (f *fakeServers) stream(_ *wire.NodeAllocsRequest, s *wire.Stream[wire.AllocSet, wire.Empty]) error {
	for {
		changed := f.changed.C()
		if err := f.alive(); err != nil {
			return err
		}
		if err := s.Send(f.set()); err != nil {
			return err
		}
		select {
		case <-s.Context().Done():
			return nil
		case <-changed:
		}
	}
}

func (f *fakeServers) set() *wire.AllocSet {
	f.mu.Lock()
	defer f.mu.Unlock()
	set := &wire.AllocSet{Index: f.index, Incarnation: f.incarnation, Full: true}
	for _, id := range slices.Sorted(maps.Keys(f.allocs)) {
		if !f.forgotten[id] {
			set.Bundles = append(set.Bundles, f.allocs[id])
		}
	}
	return set
}

func (f *fakeServers) known(_ context.Context, r *wire.NodeAllocsKnownRequest) (*wire.NodeAllocsKnownReply, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	reply := &wire.NodeAllocsKnownReply{Index: f.index}
	for _, id := range r.Allocs {
		if f.allocs[id].Alloc == nil {
			reply.Unknown = append(reply.Unknown, id)
		}
	}
	return reply, nil
}

func (f *fakeServers) update(_ context.Context, r *wire.NodeUpdateRequest) (*wire.Written, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range r.Allocs {
		f.told[a.ID] = a
		if h := f.history[a.ID]; len(h) == 0 || h[len(h)-1] != a.ClientStatus {
			f.history[a.ID] = append(h, a.ClientStatus)
		}
	}
	return &wire.Written{Index: f.index}, nil
}

// change edits the servers' state and pushes it.
func (f *fakeServers) change(fn func()) {
	f.mu.Lock()
	f.index++
	fn()
	f.mu.Unlock()
	f.changed.Notify()
}

// place gives a job's only group to the node.
func (f *fakeServers) place(j *job.Job) ids.Alloc {
	id := ids.Alloc(ids.New())
	f.change(func() {
		g := j.TaskGroups[0]
		a := &alloc.Alloc{ID: id, Namespace: "default", Name: string(j.ID) + "." + g.Name + "[0]", Job: j.ID, JobType: j.Type, TaskGroup: g.Name,
			DesiredStatus: alloc.DesiredRun, ClientStatus: alloc.ClientPending, AllocModifyIndex: f.index,
			Resources: alloc.Resources{Tasks: map[string]alloc.TaskResources{}}}
		for _, t := range g.Tasks {
			a.Resources.Tasks[t.Name] = alloc.TaskResources{CPUShares: 100, MemoryMB: 64}
		}
		f.allocs[id] = alloc.Bundle{Alloc: a, Job: j}
	})
	return id
}

// edit changes an alloc on the servers' side.
func (f *fakeServers) edit(id ids.Alloc, fn func(*alloc.Alloc)) {
	f.change(func() {
		b := f.allocs[id]
		a := *b.Alloc
		fn(&a)
		a.AllocModifyIndex = f.index
		f.allocs[id] = alloc.Bundle{Alloc: &a, Job: b.Job}
	})
}

func (f *fakeServers) stop(id ids.Alloc) {
	f.edit(id, func(a *alloc.Alloc) { a.DesiredStatus = alloc.DesiredStop })
}

func (f *fakeServers) status(id ids.Alloc) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.told[id]; a != nil {
		return a.ClientStatus
	}
	return ""
}

// times counts registrations.
func (f *fakeServers) times() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.registered
}

func (f *fakeServers) report(id ids.Alloc) *alloc.Alloc {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told[id]
}

// states lists the client states that were told, in order.
func (f *fakeServers) states(id ids.Alloc) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.history[id])
}

// events lists the types of a task's events as the servers know them.
func (f *fakeServers) events(id ids.Alloc, task string) []string {
	var out []string
	if a := f.report(id); a != nil && a.TaskStates[task] != nil {
		for _, e := range a.TaskStates[task].Events {
			out = append(out, e.Type)
		}
	}
	return out
}

// life is one life of the agent.
type life struct {
	*client.Client
	stop func()
}

type rig struct {
	t       *testing.T
	dir     string
	servers *fakeServers
	mock    *mock.Driver
	drivers []driver.Driver
	dial    client.Dialer
	reverse client.Dialer
	parts   client.Parts
	// launcher starts real processes; nil without realRig.
	launcher driver.Launcher
	tune     func(*client.Config)
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, dir: t.TempDir(), servers: newFakeServers(t), mock: mock.New()}
	t.Cleanup(func() { unmountBeneath(t, r.dir) })
	r.drivers = []driver.Driver{r.mock}
	r.dial, r.reverse = r.servers.serve()
	return r
}

// start begins a life of the agent on the rig's data directory.
func (r *rig) start() *life {
	r.t.Helper()
	cfg := client.Config{DataDir: r.dir, Name: "n1", Datacenter: "dc1", Region: "global", Drivers: r.drivers, Dial: r.dial, DialReverse: r.reverse,
		Log: slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if r.tune != nil {
		r.tune(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		r.t.Fatalf("new client: %v", err)
	}
	c.Attach(r.parts)
	ctx, cancel := context.WithCancel(context.Background())
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("client", func() error { return c.Run(gctx) })
	stop := sync.OnceFunc(func() {
		cancel()
		if err := g.Wait(); err != nil {
			r.t.Errorf("client: %v", err)
		}
	})
	r.t.Cleanup(stop)
	return &life{Client: c, stop: stop}
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("never came true: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func service(tasks ...*job.Task) *job.Job {
	return &job.Job{ID: "web", Name: "web", Namespace: "default", Type: job.TypeService, TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1, Tasks: tasks,
		RestartPolicy: &job.RestartPolicy{Attempts: 2, Interval: time.Minute, Delay: time.Second, Mode: job.RestartFail}}}}
}

func task(name string, config map[string]any) *job.Task {
	return &job.Task{Name: name, Driver: "mock_driver", Config: config, KillTimeout: time.Second, Env: map[string]string{}}
}

// unmountBeneath undoes what tasks that a test left running keep mounted.
func unmountBeneath(t *testing.T, dir string) {
	table, err := hostfs.ReadTable()
	if err != nil {
		t.Error(err)
		return
	}
	for _, m := range table.Beneath(dir) {
		if err := unix.Unmount(m.Path, 0); err != nil {
			t.Errorf("unmount %s: %v", m.Path, err)
		}
	}
}
