package client_test

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client"
	"berth/internal/client/servers"
	"berth/internal/client/shim"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/trust"
	"berth/internal/port/driver"
	"berth/internal/port/driver/mock"
	"berth/internal/port/hostfs"
	"berth/internal/testkit/await"
	"berth/internal/testkit/inventory"
	"berth/internal/wire"
)

// fakeServers plays the server half for one node: it hands out allocs and remembers what it received.
type fakeServers struct {
	t       *testing.T
	changed lifecycle.Signal

	mu          sync.Mutex
	incarnation string
	mark        string
	behind      bool            // the server is of the present leadership and lags
	foreign     map[string]bool // marks that are not in the state's chain
	index       uint64
	node        *node.Node
	registered  int
	allocs      map[ids.Alloc]alloc.Bundle
	forgotten   map[ids.Alloc]bool // left out of sets, but known by id
	reported    map[ids.Alloc]*alloc.Alloc
	history     map[ids.Alloc][]string // client states in the order of their reports
	down        bool
	deaf        bool          // how allocs are is not taken
	deltas      bool          // after the first set of a stream only changes are sent
	mute        chan struct{} // sets are sent when it is closed; nil: at once
	// held is waited for before questions about allocs by id are refused; nil: they are answered.
	held     chan struct{}
	asked    map[ids.Alloc]int // how often an alloc was asked about by id
	again    bool              // the next heartbeat asks for a registration
	holds    bool              // what the last registration said
	starts   []wire.AgentStart // of the registrations, newest last
	left     int               // agents that said that they end with nothing
	lost     bool              // the answer to a registration gets lost
	members  []trust.ServerAt  // that the node hears of
	refusal  error             // of all that the node asks, and of its registration
	unknown  bool              // the node's session is, until it registers; its heartbeats are answered all the same
	reversed chan *grpc.ClientConn
	calls    chan wire.ControllerCall // that the node is to make
	made     chan *wire.ControllerResult
	storage  *inventory.Servers           // what the node reports of its volumes
	grants   func(ids.Alloc) []wire.Grant // nil: nobody has a volume
}

func newFakeServers(t *testing.T) *fakeServers {
	return &fakeServers{
		t:           t,
		incarnation: "one",
		mark:        "m1",
		foreign:     map[string]bool{},
		index:       10,
		allocs:      map[ids.Alloc]alloc.Bundle{},
		forgotten:   map[ids.Alloc]bool{},
		reported:    map[ids.Alloc]*alloc.Alloc{},
		history:     map[ids.Alloc][]string{},
		asked:       map[ids.Alloc]int{},
		reversed:    make(chan *grpc.ClientConn, 4),
		calls:       make(chan wire.ControllerCall, 1),
		made:        make(chan *wire.ControllerResult, 1),
		storage:     inventory.New(),
	}
}

// serve starts the servers and returns how to reach it.
func (f *fakeServers) serve() (calls, reverse servers.Dialer) {
	p, back := wire.NewPipe(), wire.NewPipe()
	s := wire.NewServer(nil)
	wire.NodeRegister.Serve(s, f.register)
	wire.NodeHeartbeat.Serve(s, func(context.Context, *wire.NodeHeartbeatRequest) (*wire.NodeHeartbeatReply, error) {
		return &wire.NodeHeartbeatReply{TTL: time.Second, Reregister: f.takeAgain(), Servers: f.others()},
			cmp.Or(f.refused(), f.alive())
	})
	wire.NodeLeave.Serve(s, func(context.Context, *wire.NodeLeaveRequest) (*wire.Empty, error) {
		f.change(func() { f.left++ })
		return &wire.Empty{}, f.alive()
	})
	wire.NodeAllocs.Serve(s, f.stream)
	wire.NodeAllocsKnown.Serve(s, f.known)
	wire.NodeUpdate.Serve(s, f.update)
	wire.NodeInventory.Serve(s, f.storage.SendInventory)
	wire.NodeGrants.Serve(s, func(_ context.Context, r *wire.GrantsRequest) (*wire.GrantsReply, error) {
		reply := &wire.GrantsReply{Ready: true, Session: r.Session} // of no volume, unless a test has some
		if f.grants != nil {
			reply.Grants = f.grants(r.Alloc)
		}
		return reply, f.alive()
	})
	wire.NodeControllerCalls.Serve(s,
		func(_ *wire.ControllerCallsRequest, s *wire.Stream[wire.ControllerCall, wire.ControllerResult]) error {
			select {
			case <-s.Context().Done():
				return nil
			case call := <-f.calls:
				if err := s.Send(&call); err != nil {
					return err
				}
				r, err := s.Recv()
				if err == nil {
					f.made <- r
				}
				return err
			}
		})
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
	return p, back
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
	f.registered++
	f.starts = append(f.starts, *r.Start)
	defer f.changed.Notify()
	switch {
	case f.refusal != nil:
		return nil, f.refusal
	case f.lost:
		return nil, fault.New(fault.Unavailable, "answer", "server", "its answer was lost")
	}
	f.node, f.holds = r.Info, r.Holds
	f.unknown = false
	return &wire.NodeRegisterReply{
		Index:        f.index,
		HeartbeatTTL: time.Second,
		Incarnation:  f.incarnation,
		Session:      r.Start.Next,
		At:           f.at(),
		Servers:      f.members,
	}, nil
}

// others are the servers that the node hears of.
func (f *fakeServers) others() []trust.ServerAt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members
}

// refused is what the servers answer to a node of which they obey another agent.
func (f *fakeServers) refused() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refusal
}

// started returns the newest agent start, and how many registrations there were.
func (f *fakeServers) started() (wire.AgentStart, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.starts) == 0 {
		return wire.AgentStart{}, 0
	}
	return f.starts[len(f.starts)-1], len(f.starts)
}

// at is where the state is. The caller holds the lock.
func (f *fakeServers) at() lineage.Point {
	return lineage.Point{Incarnation: f.incarnation, Mark: f.mark, Index: f.index}
}

// relate tells how the state stands to a point. The caller holds the lock.
func (f *fakeServers) relate(seen lineage.Point) lineage.Relation {
	switch {
	case seen.IsZero():
		return lineage.Continues
	case seen.Incarnation != f.incarnation:
		return lineage.Foreign
	case f.foreign[seen.Mark]:
		return lineage.Forked
	case f.behind:
		return lineage.Behind
	}
	return lineage.Continues
}

// fork makes the state one that shares no leadership with what the nodes have seen: restored, then led anew.
func (f *fakeServers) fork(mark string) {
	f.change(func() {
		f.foreign[f.mark] = true
		delete(f.foreign, mark)
		f.mark = mark
	})
}

func (f *fakeServers) stream(r *wire.NodeAllocsRequest, s *wire.Stream[wire.AllocSet, wire.Empty]) error {
	for first := true; ; first = false {
		changed := f.changed.C()
		if err := cmp.Or(f.alive(), f.unknownTo(r.Node)); err != nil {
			return err
		}
		if !f.speaks(s.Context()) {
			return nil
		}
		if err := s.Send(f.set(r.Seen, first)); err != nil {
			return err
		}
		select {
		case <-s.Context().Done():
			return nil
		case <-changed:
		}
	}
}

func (f *fakeServers) unknownTo(id ids.Node) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unknown {
		return wire.UnknownSession(id)
	}
	return nil
}

// speaks waits until sets are sent; false: ctx has ended.
func (f *fakeServers) speaks(ctx context.Context) bool {
	f.mu.Lock()
	mute := f.mute
	f.mu.Unlock()
	if mute == nil {
		return true
	}
	select {
	case <-mute:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *fakeServers) set(seen lineage.Point, first bool) *wire.AllocSet {
	f.mu.Lock()
	defer f.mu.Unlock()
	set := &wire.AllocSet{At: f.at(), Relation: f.relate(seen), Full: first || !f.deltas}
	for _, id := range slices.Sorted(maps.Keys(f.allocs)) {
		if !f.forgotten[id] {
			set.Bundles = append(set.Bundles, f.allocs[id])
		}
	}
	return set
}

func (f *fakeServers) known(ctx context.Context, r *wire.NodeAllocsKnownRequest) (*wire.NodeAllocsKnownReply, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	held := f.held
	f.mu.Unlock()
	if held != nil {
		select {
		case <-held: // the question was of then; the next one says what the node holds now
			return nil, fault.New(fault.Unavailable, "answer", "server", "it was away")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	reply := &wire.NodeAllocsKnownReply{At: f.at()}
	for _, a := range r.Allocs {
		f.asked[a.Alloc]++
		switch {
		case f.allocs[a.Alloc].Alloc != nil:
		case f.relate(a.Received) == lineage.Continues:
			reply.Removed = append(reply.Removed, a.Alloc)
		default:
			reply.Orphans = append(reply.Orphans, a.Alloc)
		}
	}
	return reply, nil
}

func (f *fakeServers) update(ctx context.Context, r *wire.NodeUpdateRequest) (*wire.NodeUpdateReply, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deaf {
		return nil, fault.New(fault.Unavailable, "tell", "server", "it does not listen")
	}
	for _, a := range r.Allocs {
		if err := a.CheckReport(); err != nil {
			return nil, err // the whole call, as servers do
		}
	}
	for _, a := range r.Allocs {
		f.reported[a.ID] = a
		if b, ok := f.allocs[a.ID]; ok && a.ClientStatus == alloc.ClientLost {
			now := *b.Alloc
			now.ClientStatus = a.ClientStatus
			b.Alloc = &now
			f.allocs[a.ID] = b
		}
		if h := f.history[a.ID]; len(h) == 0 || h[len(h)-1] != a.ClientStatus {
			f.history[a.ID] = append(h, a.ClientStatus)
		}
	}
	reply := &wire.NodeUpdateReply{Written: wire.Written{Index: f.index}}
	if r.Inventory != nil {
		var err error
		reply.Inventory, err = f.storage.SendInventory(ctx, r.Inventory)
		return reply, err
	}
	return reply, nil
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
		a := &alloc.Alloc{
			ID:               id,
			Namespace:        "default",
			Name:             string(j.ID) + "." + g.Name + "[0]",
			Job:              j.ID,
			JobType:          j.Type,
			TaskGroup:        g.Name,
			DesiredStatus:    alloc.DesiredRun,
			ClientStatus:     alloc.ClientPending,
			AllocModifyIndex: f.index,
			Resources:        alloc.Resources{Tasks: map[string]alloc.TaskResources{}},
		}
		for _, t := range g.Tasks {
			res := alloc.TaskResources{CPUShares: 100, MemoryMB: 64}
			if t.Resources != nil {
				res.PIDs = int64(t.Resources.PIDs)
			}
			a.Resources.Tasks[t.Name] = res
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

// last is the newest report of an alloc.
func (f *fakeServers) last(id ids.Alloc) *alloc.Alloc {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reported[id]
}

func (f *fakeServers) status(id ids.Alloc) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.reported[id]; a != nil {
		return a.ClientStatus
	}
	return ""
}

// asks reports whether the next heartbeat will ask for a registration.
func (f *fakeServers) asks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.again
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
	return f.reported[id]
}

// states lists the client states that were reported, in order.
func (f *fakeServers) states(id ids.Alloc) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.history[id])
}

// agentRun is one run of the agent.
type agentRun struct {
	*client.Client
	stop func()
}

type rig struct {
	t       *testing.T
	dir     string
	servers *fakeServers
	mock    *mock.Driver
	drivers []driver.Driver
	calls   servers.Dialer
	reverse servers.Dialer
	// shims looks at what real processes are started in; nil without realRig.
	shims *shim.Launcher
	tune  func(*client.Config)
	lines logLines // of the agent
}

func newRig(t *testing.T) *rig {
	dir, err := os.MkdirTemp("", "c") // a short one: paths of sockets are bounded
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir, servers: newFakeServers(t), mock: mock.New()}
	t.Cleanup(func() {
		unmountBeneath(t, r.dir)
		if err := os.RemoveAll(r.dir); err != nil {
			t.Error(err)
		}
	})
	r.drivers = []driver.Driver{r.mock}
	r.calls, r.reverse = r.servers.serve()
	return r
}

// logLines keeps what was logged.
type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start begins an agent run on the rig's data directory.
func (r *rig) start() *agentRun {
	r.t.Helper()
	cfg := client.Config{
		DataDir:    r.dir,
		Name:       "n1",
		Datacenter: "dc1",
		Region:     "global",
		Drivers:    r.drivers,
		Servers:    r.calls,
		Reverse:    r.reverse,
		Log: slog.New(slog.NewTextHandler(io.MultiWriter(r.t.Output(), &r.lines),
			&slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if r.tune != nil {
		r.tune(&cfg)
	}
	c, err := client.New(r.t.Context(), cfg)
	if err != nil {
		r.t.Fatalf("new client: %v", err)
	}
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
	return &agentRun{Client: c, stop: stop}
}

// eventually waits for a condition.
var eventually = await.Eventually

func service(tasks ...*job.Task) *job.Job {
	return &job.Job{
		ID:        "web",
		Name:      "web",
		Namespace: "default",
		Type:      job.TypeService,
		TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1, Tasks: tasks,
			RestartPolicy: &job.RestartPolicy{
				Attempts: 2,
				Interval: time.Minute,
				Delay:    time.Second,
				Mode:     job.RestartFail,
			}}},
	}
}

func task(name string, config map[string]any) *job.Task {
	return &job.Task{
		Name:        name,
		Driver:      "mock_driver",
		Config:      config,
		KillTimeout: time.Second,
		Env:         map[string]string{},
	}
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
