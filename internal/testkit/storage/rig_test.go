package storage

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client"
	"berth/internal/client/allochooks"
	"berth/internal/client/csimanager/controller"
	"berth/internal/client/csimanager/instance"
	"berth/internal/client/csimanager/node"
	"berth/internal/client/dynamicplugins"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/client/taskhooks"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi/csitest"
	"berth/internal/port/csi/proxy/oracle"
	"berth/internal/port/driver"
	"berth/internal/port/driver/mock"
	"berth/internal/port/hostfs"
	"berth/internal/server"
	"berth/internal/wire"
)

// cluster is one server with its nodes.
type cluster struct {
	t    testing.TB
	s    *server.Server
	conn wire.Conn
	log  *slog.Logger
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
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("CSI_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	c := &cluster{t: t, log: log}
	cfg.DataDir, cfg.Log = t.TempDir(), log
	c.s = server.New(cfg)
	run(t, "server", func(ctx context.Context) error { return c.s.Run(ctx, server.Listeners{}) })
	conn, err := c.s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c.conn = conn
	if err := c.s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
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
	c         *cluster
	p         *csitest.Plugin
	dir       string
	client    *client.Client
	keeper    *node.Keeper
	executor  *controller.Executor
	instances *instance.Manager
	driver    *mock.Driver
	end       func()
	cut       lifecycle.Signal
}

func (c *cluster) member(name string, p *csitest.Plugin) *member {
	c.t.Helper()
	dir, err := os.MkdirTemp("", "m")
	if err != nil {
		c.t.Fatal(err)
	}
	m := &member{c: c, p: p, dir: dir, driver: mock.New()}
	m.driver.Capabilities.Mounts = driver.MountAll
	c.t.Cleanup(func() {
		m.stop()
		removeAll(c.t, dir)
	})
	m.start(name)
	select {
	case <-m.client.Registered():
	case <-time.After(15 * time.Second):
		c.t.Fatal("the node is not accepted")
	}
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

// start begins a life of the node's agent.
func (m *member) start(name string) {
	c := m.c
	c.t.Helper()
	var err error
	log := c.log.With("node", name)
	m.client, err = client.New(client.Config{DataDir: m.dir, Name: name, Datacenter: "dc1", Region: "global", NodePool: "default", Drivers: []driver.Driver{m.driver},
		Dial:        func(ctx context.Context) (net.Conn, error) { return c.s.Calls().Dial(ctx) },
		DialReverse: func(ctx context.Context) (net.Conn, error) { return c.s.Reversed().Dial(ctx) }, Log: log})
	if err != nil {
		c.t.Fatal(err)
	}
	registry, err := dynamicplugins.Open(m.client.Store(), log)
	if err != nil {
		c.t.Fatal(err)
	}
	m.instances = instance.New(instance.Config{Registry: registry, Node: m.client.ID(), Log: log,
		Health: func(dynamicplugins.Info, bool, string) {}, Timeout: func(context.Context, dynamicplugins.Info, string) {}})
	m.keeper, err = node.New(node.Config{Store: m.client.Store(), Codec: localstate.Codec, Boot: "boot", DataDir: m.dir, Plugins: m.instances,
		Processes: m.client.Processes(), Armed: m.client.Armed(), Known: m.client.Known, Log: log})
	if err != nil {
		c.t.Fatal(err)
	}
	m.executor = controller.New(controller.Config{Plugins: m.instances, Node: m.keeper, Log: log})
	m.client.Attach(client.Parts{AllocHooks: []hook.Hook{&allochooks.CSI{Grants: m.client, Mounter: m.keeper}},
		TaskHooks: []hook.Hook{&taskhooks.Volume{Mounter: m.keeper}}, Instances: m.instances,
		Serve: []func(*wire.Server){controller.Reads{Plugins: m.instances}.Register}})
	base := node.HostBase(m.dir, ids.Plugin(m.p.ID))
	for _, role := range []plugin.Role{plugin.RoleController, plugin.RoleNode} {
		if err := registry.Register(dynamicplugins.Info{Plugin: ids.Plugin(m.p.ID), Role: role, Alloc: ids.Alloc("plugin-" + name), Socket: m.p.Socket,
			HostBase: base, TaskBase: base, Scope: plugin.ScopeCluster, Declared: time.Now()}); err != nil {
			c.t.Fatal(err)
		}
	}
	m.end = run(c.t, name, func(ctx context.Context) error {
		return lifecycle.RunAll(ctx, map[string]func(context.Context) error{"client": m.client.Run, "keeper": m.keeper.Run, "plugins": m.instances.Run,
			"inventory": m.report, "work": m.work})
	})
}

func (m *member) stop() { m.end() }

// session repeats fn while the node lives.
func (m *member) session(ctx context.Context, fn func(context.Context) error) error {
	select {
	case <-m.client.Registered():
	case <-ctx.Done():
		return nil
	}
	for ctx.Err() == nil {
		_ = fn(ctx) // a session that failed is begun anew
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (m *member) report(ctx context.Context) error {
	return m.session(ctx, func(ctx context.Context) error {
		for gate := m.client.Armed(); !gate.Armed(); {
			select {
			case <-ctx.Done():
				return nil
			case <-gate.Changed():
			case <-time.After(10 * time.Millisecond):
			}
		}
		return node.Reporter{Keeper: m.keeper, Sink: m.client, AllocIndex: m.client.AllocIndex}.Run(ctx)
	})
}

// work serves controller work; a cut ends the session as a broken connection would.
func (m *member) work(ctx context.Context) error {
	return m.session(ctx, func(ctx context.Context) error {
		sctx, cancel := context.WithCancel(ctx)
		defer cancel()
		cut := m.cut.C()
		go func() {
			select {
			case <-cut:
				cancel()
			case <-sctx.Done():
			}
		}()
		stream, err := wire.NodeWork.Open(sctx, m.client.Conn(), &wire.WorkRequest{NodeIdentity: m.client.Identity()})
		if err != nil {
			return err
		}
		return m.executor.Serve(sctx, stream)
	})
}

// plugin starts the fake plugin with everything that it offers.
func startPlugin(t testing.TB, fake csitest.Fake, rules ...string) *csitest.Plugin {
	t.Helper()
	fake.Mount = csitest.MountBind
	return csitest.New(t, csitest.Options{Rules: rules, Fake: fake})
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
	return volume.Spec{Plugin: ids.Plugin(p.ID), Name: "v", CapacityMin: 1 << 20, CapacityMax: 1 << 30,
		Capabilities: []volume.Capability{{AccessMode: mode, AttachmentMode: volume.FileSystem}}}
}

func (c *cluster) create(name string, spec volume.Spec) (*wire.VolumeWriteReply, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 25*time.Second)
	defer cancel()
	return wire.VolumeCreate.Call(ctx, c.conn, &wire.VolumeWriteRequest{Volume: volID(name), Spec: spec, Wait: 20 * time.Second})
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
	ctx, cancel := context.WithTimeout(c.t.Context(), 25*time.Second)
	defer cancel()
	_, err := wire.VolumeDelete.Call(ctx, c.conn, &wire.VolumeDeleteRequest{Volume: volID(name), Wait: wait})
	return err
}

// runJob registers a job whose one task uses the volume until it is stopped.
func (c *cluster) runJob(id, vol string, mode volume.AccessMode, tune ...func(*job.Job)) {
	c.t.Helper()
	g := &job.TaskGroup{Name: "g", Count: 1, EphemeralDisk: &job.EphemeralDisk{SizeMB: 10},
		ReschedulePolicy: &job.ReschedulePolicy{Unlimited: true, Delay: time.Second, DelayFunction: "constant"},
		Volumes:          map[string]*job.VolumeRequest{"data": {Name: "data", Type: job.VolumeTypeCSI, Source: vol, AccessMode: string(mode), AttachmentMode: string(volume.FileSystem)}},
		Tasks: []*job.Task{{Name: "t", Driver: "mock_driver", Resources: &job.Resources{CPU: 1, MemoryMB: 10}, KillTimeout: time.Second,
			VolumeMounts: []*job.VolumeMount{{Volume: "data", Destination: "/data"}}, LogConfig: &job.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1}}}}
	j := &job.Job{Region: "global", Namespace: ids.DefaultNamespace, ID: ids.Job(id), Name: id, Type: job.TypeService, Priority: 50, Datacenters: []string{"*"},
		NodePool: "default", TaskGroups: []*job.TaskGroup{g}}
	for _, fn := range tune {
		fn(j)
	}
	if _, err := wire.JobRegister.Call(c.t.Context(), c.conn, &wire.JobRegisterRequest{Job: j}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) stopJob(id string) {
	c.t.Helper()
	if _, err := wire.JobDeregister.Call(c.t.Context(), c.conn, &wire.JobDeregisterRequest{Namespace: ids.DefaultNamespace, Job: ids.Job(id)}); err != nil {
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

// atRest waits until nothing of any volume is claimed, attached, staged or published, and tells the oracle.
func (c *cluster) atRest(p *csitest.Plugin) {
	c.t.Helper()
	c.letGo()
	p.Tell(func(f *oracle.Facts) { f.Final = &oracle.Final{} })
}

// letGo waits until nothing of any volume is claimed or attached.
func (c *cluster) letGo() {
	c.t.Helper()
	var left []string
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
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
			c.t.Fatalf("not let go:\n%s", strings.Join(left, "\n"))
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

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
