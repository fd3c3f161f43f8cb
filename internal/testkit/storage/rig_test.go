package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/client"
	"berth/internal/client/csimanager"
	"berth/internal/client/dynamicplugins"
	"berth/internal/client/fingerprint"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	modelnode "berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/driver"
	"berth/internal/port/driver/mock"
	"berth/internal/port/hostfs"
	"berth/internal/server"
	"berth/internal/testkit/await"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/wire"
)

// cluster is one server with its nodes.
type cluster struct {
	t    testing.TB
	cfg  server.Config
	s    *server.Server
	live atomic.Pointer[server.Server] // s, for nodes that dial it meanwhile
	conn wire.Conn
	log  *slog.Logger
	end  func() // of the server
	// delay is for how long nodes hold back what nobody waits for; 0: as they do.
	delay time.Duration
	// patience is for how long they hold back what is under way and goes well; 0: ten times delay.
	patience time.Duration

	watch *watch
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	return newClusterWith(t, server.Config{Dev: true})
}

func newClusterWith(t testing.TB, cfg server.Config) *cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	c := &cluster{t: t, cfg: cfg, watch: newWatch()}
	var out io.Writer = &c.watch.log
	if os.Getenv("CSI_LOG") != "" {
		out = io.MultiWriter(out, os.Stderr)
	}
	c.log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c.cfg.Log = c.log
	if c.cfg.DataDir == "" {
		c.cfg.DataDir = t.TempDir()
	}
	c.serve()
	if _, measures := t.(*testing.B); !measures { // what looks all the time must not be a part of a figure
		run(t, "watch", c.look)
	}
	return c
}

// serve begins a run of the server on its data directory.
func (c *cluster) serve() {
	t := c.t
	t.Helper()
	s := server.New(c.cfg)
	c.s = s
	c.live.Store(s)
	c.end = run(t, "server", func(ctx context.Context) error { return s.Run(ctx, server.Listeners{}) })
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c.conn = conn
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.watch.follow(s)
}

// run runs something until the test ends, or until the returned function is called.
func run(t testing.TB, what string, fn func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	var once sync.Once
	end = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("%s ended with %v", what, err)
			}
		})
	}
	t.Cleanup(end)
	return end
}

// member is one node with everything but real processes.
type member struct {
	c      *cluster
	p      *csitest.Plugin
	dir    string
	client *client.Client
	driver *mock.Driver
	boot   string // of the kernel
	remote bool   // its agent does not run in the server's process
	other  string // the machine it runs on, if not the one of its directory
	calls  *line  // on which the node calls the servers
	end    func()
}

// line reaches the cluster's present server, and can be cut.
type line struct {
	c    *cluster
	pipe func(*server.Server) *wire.Pipe

	mu    sync.Mutex
	conns []net.Conn
}

// Dial implements servers.Dialer.
func (l *line) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := l.pipe(l.c.live.Load()).Dial(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conn)
	return conn, nil
}

// cut breaks what was connected; whoever dials again reaches the server again.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close() // a pipe in memory
	}
	l.conns = nil
}

func (c *cluster) member(name string, p *csitest.Plugin) *member {
	c.t.Helper()
	dir, err := os.MkdirTemp("", "m")
	if err != nil {
		c.t.Fatal(err)
	}
	m := &member{
		c:      c,
		p:      p,
		dir:    dir,
		driver: mock.New(),
		boot:   "boot",
	}
	m.driver.Capabilities.Mounts = driver.MountAll
	c.watch.joins(m)
	c.t.Cleanup(func() {
		m.stop()
		removeAll(c.t, dir)
	})
	m.start(name)
	select {
	case <-m.client.Registered():
	case <-time.After(time.Minute):
		c.t.Fatal("the node is not accepted")
	}
	m.placePlugin(ids.Alloc("plugin-" + name))
	return m
}

func removeAll(t testing.TB, dir string) {
	t.Helper()
	table, err := hostfs.ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range table.Beneath(dir) {
		if err := unix.Unmount(m.Path, 0); err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// start begins a run of the node's agent, and declares the plugin on it as a task would.
func (m *member) start(name string) {
	c := m.c
	c.t.Helper()
	m.calls = &line{c: c, pipe: (*server.Server).Calls}
	meta, log := c.watch.starts(m)
	var err error
	m.client, err = client.New(c.t.Context(), client.Config{
		DataDir:    m.dir,
		Name:       name,
		Datacenter: "dc1",
		Region:     "global",
		NodePool:   "default",
		Meta:       meta,
		Machine:    m.machine(),
		// What others do on the machine's disk is no news of the node.
		Fingerprint: fingerprint.Options{DiskMB: 10_000},
		InProcess:   !m.remote,
		Drivers:     []driver.Driver{m.driver},
		Servers:     m.calls,
		Reverse:     &line{c: c, pipe: (*server.Server).Reversed},

		ReportDelay:    c.delay,
		ReportPatience: c.patience,

		Log: log.With("node", name),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	base := csimanager.HostBase(m.dir, ids.Plugin(m.p.ID))
	for _, role := range []plugin.Role{plugin.RoleController, plugin.RoleNode} {
		if err := m.client.Plugins().Register(dynamicplugins.Info{
			Plugin:   ids.Plugin(m.p.ID),
			Role:     role,
			Alloc:    ids.Alloc("plugin-" + name),
			Socket:   m.p.Socket,
			HostBase: base,
			TaskBase: base,
			Scope:    plugin.ScopeCluster,
			Declared: time.Now(),

			MaxParallel: m.p.AtOnce,
		}); err != nil {
			c.t.Fatal(err)
		}
	}
	m.end = run(c.t, name, m.client.Run)
}

// placePlugin has the servers place the alloc of the plugin on the node, if they know of none.
func (m *member) placePlugin(id ids.Alloc) {
	m.c.t.Helper()
	s := m.c.live.Load()
	pluginjobs.Place(m.c.t, s, s.Store().Snapshot, m.client.ID(),
		[]*plugin.Instance{{Plugin: ids.Plugin(m.p.ID), Alloc: id}},
		func(c *job.CSIPluginConfig) { c.MaxParallel = m.p.AtOnce })
}

// machine is what a node shows of the machine that it runs on.
func (m *member) machine() *modelnode.Machine {
	name := cmp.Or(m.other, m.dir)
	return &modelnode.Machine{Boot: m.boot, Product: "product of " + name, ID: "id of " + name}
}

func (m *member) stop() {
	m.c.watch.stops(m, m.c.live.Load().Store().Snapshot())
	m.end()
}

// has reports whether the node has anything of an alloc.
func (m *member) has(id ids.Alloc) bool {
	_, err := os.Lstat(filepath.Join(m.dir, "alloc", string(id)))
	return err == nil
}

// endOrphan ends an orphan as a person does.
func (m *member) endOrphan(id ids.Alloc) {
	m.c.t.Helper()
	m.c.watch.endsByHand(id)
	if _, err := wire.AllocEndOrphan.Call(m.c.t.Context(), m.c.conn,
		&wire.AgentRef{Node: m.client.ID(), Alloc: id}); err != nil {
		m.c.t.Fatal(err)
	}
}

// startPlugin starts the fake plugin with everything that it offers.
func (c *cluster) startPlugin(fake csitest.Fake, rules ...string) *csitest.Plugin {
	c.t.Helper()
	fake.Mount = csitest.MountBind
	return csitest.New(c.t, csitest.Options{World: c, Rules: rules, Fake: fake})
}

func (c *cluster) awaitPlugin(id string) {
	c.t.Helper()
	eventually(c.t, "the servers know the plugin", func() bool {
		r := c.s.Store().Snapshot().Plugin(nil, ids.Plugin(id))
		return r != nil && r.Negotiated && r.NodeNegotiated
	})
}

func volID(name string) volume.ID {
	return volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(name)}
}

func specOf(p *csitest.Plugin, mode volume.AccessMode) volume.Spec {
	return volume.Spec{
		Plugin:       ids.Plugin(p.ID),
		Name:         "v",
		CapacityMin:  1 << 20,
		CapacityMax:  1 << 30,
		Capabilities: []volume.Capability{{AccessMode: mode, AttachmentMode: volume.FileSystem}},
	}
}

// create asks for a volume; a write that answers only when its wait is over outlasts the context.
func (c *cluster) create(name string, spec volume.Spec) (*wire.VolumeWriteReply, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	from := time.Now()
	r, err := wire.VolumeCreate.Call(ctx, c.conn,
		&wire.VolumeWriteRequest{Volume: volID(name), Spec: spec, Wait: time.Hour})
	if err == nil {
		c.watch.took("the creation of "+name, r.Volume.Status.ExternalID, from)
	}
	return r, err
}

func (c *cluster) mustCreate(name string, p *csitest.Plugin, mode volume.AccessMode) *volume.Volume {
	c.t.Helper()
	r, err := c.create(name, specOf(p, mode))
	if err != nil {
		c.t.Fatal(err)
	}
	return r.Volume
}

func (c *cluster) delete(name string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	r, err := wire.VolumeDelete.Call(ctx, c.conn, &wire.VolumeDeleteRequest{Volume: volID(name), Wait: wait})
	if err == nil && r.Waits != "" {
		err = errors.New("it is not finished: " + r.Waits)
	}
	return err
}

// runJob registers a job whose one task uses the volume until it is stopped.
func (c *cluster) runJob(id, vol string, mode volume.AccessMode, tune ...func(*job.Job)) {
	c.t.Helper()
	g := &job.TaskGroup{
		Name:             "g",
		Count:            1,
		EphemeralDisk:    &job.EphemeralDisk{SizeMB: 10},
		ReschedulePolicy: &job.ReschedulePolicy{Unlimited: true, Delay: time.Second, DelayFunction: "constant"},
		Volumes: map[string]*job.VolumeRequest{"data": {
			Name:           "data",
			Type:           job.VolumeTypeCSI,
			Source:         vol,
			AccessMode:     string(mode),
			AttachmentMode: string(volume.FileSystem),
		}},
		Tasks: []*job.Task{{
			Name:         "t",
			Driver:       "mock_driver",
			Resources:    &job.Resources{CPU: 1, MemoryMB: 10},
			KillTimeout:  time.Second,
			VolumeMounts: []*job.VolumeMount{{Volume: "data", Destination: "/data"}},
			LogConfig: &job.LogConfig{
				MaxFiles:      1,
				MaxFileSizeMB: 1,
			},
		}},
	}
	j := &job.Job{
		Region:      "global",
		Namespace:   ids.DefaultNamespace,
		ID:          ids.Job(id),
		Name:        id,
		Type:        job.TypeService,
		Priority:    50,
		Datacenters: []string{"*"},
		NodePool:    "default",
		TaskGroups:  []*job.TaskGroup{g},
	}
	for _, fn := range tune {
		fn(j)
	}
	c.watch.asked(id, vol)
	if _, err := wire.JobRegister.Call(c.t.Context(), c.conn, &wire.JobRegisterRequest{Job: j}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) stopJob(id string) {
	c.t.Helper()
	if _, err := wire.JobDeregister.Call(c.t.Context(), c.conn,
		&wire.JobDeregisterRequest{Namespace: ids.DefaultNamespace, Job: ids.Job(id)}); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, "the allocations of "+id+" are to stop", func() bool {
		for a := range c.s.Store().Snapshot().AllocsByJob(nil, ids.DefaultNamespace, ids.Job(id)) {
			if !a.ServerTerminal() {
				return false
			}
		}
		return true
	})
}

// running waits for an alloc of the job that runs, and returns it.
func (c *cluster) running(id string) *alloc.Alloc {
	c.t.Helper()
	var found *alloc.Alloc
	eventually(c.t, "an allocation of "+id+" runs", func() bool {
		for a := range c.s.Store().Snapshot().AllocsByJob(nil, ids.DefaultNamespace, ids.Job(id)) {
			if a.ClientStatus == alloc.ClientRunning && a.DesiredStatus == alloc.DesiredRun {
				found = a
			}
		}
		return found != nil
	})
	c.watch.runs(id, c.s.Store().Snapshot())
	return found
}

// path is where the alloc's task sees the volume on the node.
func (m *member) path(a *alloc.Alloc) string {
	m.c.t.Helper()
	for i := range m.c.s.Store().Snapshot().InventoryOf(nil, m.client.ID()) {
		for _, p := range i.Entry.Publications {
			if p.Alloc == a.ID {
				return p.Path
			}
		}
	}
	m.c.t.Fatalf("%s has no publication", a.ID)
	return ""
}

// atRest waits until nothing of any volume is claimed, attached, staged or published, and has the oracle look at what
// is left.
func (c *cluster) atRest(p *csitest.Plugin) {
	c.t.Helper()
	c.released()
	rest := c.rest()
	p.Tell(func(f *oracle.Facts) { f.Rest = oracle.Feed(rest) })
}

// released waits until nothing of any volume is claimed or attached.
func (c *cluster) released() {
	c.t.Helper()
	var left []string
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		left = left[:0]
		s := c.s.Store().Snapshot()
		for cl := range s.Claims(nil) {
			left = append(left, volume.DescribeClaim(cl))
			if a := s.Alloc(nil, cl.Alloc); a != nil {
				left = append(left, "its allocation is "+a.ClientStatus+": "+a.ClientDescription)
			}
			if h := s.InventoryHead(nil, cl.Node); h != nil {
				left = append(left, fmt.Sprintf("claimed at %d, the node reported at %d", cl.Epoch.Index, h.AllocIndex))
			}
		}
		for a := range s.Attachments(nil) {
			left = append(left, volume.DescribeAttachment(a))
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("not released:\n%s", strings.Join(left, "\n"))
		}
	}
}

func count(p *csitest.Plugin, call string) (n int) {
	for _, c := range p.Calls() {
		if name, _, _ := strings.Cut(c, "="); name == call {
			n++
		}
	}
	return n
}

// eventually waits for a condition.
var eventually = await.Eventually
