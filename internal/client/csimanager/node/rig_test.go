package node_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/alive"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/holding"
	"berth/internal/client/csimanager/instance"
	"berth/internal/client/csimanager/killable"
	"berth/internal/client/csimanager/node"
	"berth/internal/client/csimanager/reporter"
	"berth/internal/client/csimanager/unmount"
	"berth/internal/client/dynamicplugins"
	"berth/internal/client/taskhooks"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/helperbin"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
	"berth/internal/testkit/await"
	"berth/internal/testkit/inventory"
	"berth/internal/wire"
)

var codec = kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict}

// gate is the client's side: armed, and allocs whose processes live.
type gate struct {
	mu      sync.Mutex
	armed   bool
	live    map[ids.Alloc]bool
	idle    map[ids.Alloc]bool
	rests   map[ids.Alloc]bool // none of its processes lives, and some start again
	unknown map[ids.Alloc]bool
	groups  map[string]ids.Alloc // control groups that are taken for those of allocs
	changed lifecycle.Signal
}

func (g *gate) Armed() bool              { g.mu.Lock(); defer g.mu.Unlock(); return g.armed }
func (g *gate) Changed() <-chan struct{} { return g.changed.C() }
func (g *gate) ProcessesGone(a ids.Alloc) (bool, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.live[a] && !g.rests[a], "a process lives"
}
func (g *gate) ProcessesIdle(a ids.Alloc) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.idle[a] || g.rests[a]
}
func (g *gate) known(a ids.Alloc) bool { g.mu.Lock(); defer g.mu.Unlock(); return !g.unknown[a] }

// allocOf is the alloc of a control group, as the test says.
func (g *gate) allocOf(cgroup string) ids.Alloc {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.groups[cgroup]
}
func (g *gate) set(fn func(*gate)) {
	g.mu.Lock()
	fn(g)
	g.mu.Unlock()
	g.changed.Notify()
}

// rig is a node's volume side: a keeper and an instance manager over one local store, in front of one plugin, with
// servers to report to.
type rig struct {
	t       testing.TB
	p       *csitest.Plugin
	world   *world // nil in the suite, which is its own
	dir     string
	boot    string
	gate    *gate
	servers *inventory.Servers
	lost    chan string
	runs    atomic.Bool // allocs have been restored
	log     *slog.Logger

	store     *kv.Store
	byHand    bool                                    // the test itself has volumes worked on and reports sent
	plugins   func(instance.Plugins) instance.Plugins // what the test puts between
	registry  *dynamicplugins.Registry
	keeper    *node.Keeper
	instances *instance.Manager
	end       func()
	codec     kv.Codec
	// dead answers whether a file system is dead; nil: it is asked.
	dead func() (why string, err error)
	// around is what the test does around the node's own unmounting; nil: nothing.
	around func(ctx context.Context, m entry.Mount, unmount func(context.Context, entry.Mount) error) error
}

// prober asks as the client does, unless the test answers by itself.
func (r *rig) prober(p *alive.Prober) func(context.Context, *entry.Entry, ids.Alloc) (string, error) {
	return func(ctx context.Context, e *entry.Entry, alloc ids.Alloc) (string, error) {
		if r.dead != nil {
			return r.dead()
		}
		return p.Dead(ctx, e, alloc)
	}
}

func newRig(t testing.TB, p *csitest.Plugin) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		t:       t,
		p:       p,
		dir:     dir,
		boot:    "boot-1",
		codec:   codec,
		servers: inventory.New(),
		plugins: func(p instance.Plugins) instance.Plugins { return p },
		lost:    make(chan string, 100),
		gate: &gate{
			armed:   true,
			live:    map[ids.Alloc]bool{},
			idle:    map[ids.Alloc]bool{},
			rests:   map[ids.Alloc]bool{},
			unknown: map[ids.Alloc]bool{},
		},
		log: slog.New(slog.DiscardHandler),
	}
	if os.Getenv("CSI_LOG") != "" {
		r.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	t.Cleanup(func() {
		r.stop()
		removeAll(t, dir)
	})
	if w, own := p.World().(*world); own {
		w.mu.Lock()
		w.rig, r.world = r, w
		w.mu.Unlock()
	}
	r.open()
	r.declare(0)
	return r
}

type kvTx = kv.Tx

// declare says that the plugin's task runs here, and how long it may be unwell; 0: for ever.
func (r *rig) declare(healthTimeout time.Duration) {
	r.t.Helper()
	if err := r.registry.Register(dynamicplugins.Info{
		Plugin:        ids.Plugin(r.p.ID),
		Role:          plugin.RoleNode,
		Alloc:         "plugin-alloc",
		Socket:        r.p.Socket,
		HostBase:      r.base(),
		TaskBase:      r.base(),
		HealthTimeout: healthTimeout,
		Declared:      time.Now(),
	}); err != nil {
		r.t.Fatal(err)
	}
}

// withProgress adds who hears what a request waits for, of each reason once.
func withProgress(req csimanager.MountRequest, heard func(string)) csimanager.MountRequest {
	reported := ""
	req.Progress = func(reason string, _ bool) {
		if reason != reported {
			reported = reason
			heard(reason)
		}
	}
	return req
}

// mountBy mounts by a grant of the test's own.
func (r *rig) mountBy(g csimanager.MountRequest) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	_, err := r.keeper.MountVolume(ctx, g)
	return err
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

func (r *rig) base() string { return csimanager.HostBase(r.dir, ids.Plugin(r.p.ID)) }

// open begins an agent run.
func (r *rig) open() {
	r.t.Helper()
	var err error
	if r.store, err = kv.Open(filepath.Join(r.dir, "kv"), r.codec); err != nil {
		r.t.Fatal(err)
	}
	if r.registry, err = dynamicplugins.Open(r.store, r.log); err != nil {
		r.t.Fatal(err)
	}
	r.instances = instance.New(instance.Config{Registry: r.registry, Node: "node-a", Log: r.log,
		Tasks: &taskhooks.CSIPluginSupervisor{DataDir: r.dir, Registry: r.registry}})
	helpers := &killable.Helpers{Program: helperbin.Open, Path: helperbin.Path}
	r.keeper, err = node.New(node.Config{
		Store:     r.store,
		Codec:     codec,
		Boot:      r.boot,
		DataDir:   r.dir,
		Plugins:   r.plugins(r.instances),
		Processes: r.gate,
		Armed:     r.gate,
		Allocs:    r,
		Unmount:   r.unmountOwn(&unmount.Unmounter{Helpers: helpers}),
		Dead:      r.prober(&alive.Prober{Helpers: helpers}),
		Holding:   holding.NewSearch(&holding.Finder{Helpers: helpers, Alloc: r.gate.allocOf}, r.log),
		Log:       r.log,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	parts := map[string]func(context.Context) error{"keeper": r.keeper.Run, "instances": r.instances.Run,
		"reporter": r.report}
	if r.byHand {
		delete(parts, "keeper")
		delete(parts, "reporter")
	}
	r.runs.Store(true)
	go func() { done <- lifecycle.RunAll(ctx, parts) }()
	r.end = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	}
}

// unmountOwn is the node's own unmounting, with what the test does around it.
func (r *rig) unmountOwn(u *unmount.Unmounter) func(context.Context, entry.Mount) error {
	around := r.around
	if around == nil {
		return u.Unmount
	}
	return func(ctx context.Context, m entry.Mount) error { return around(ctx, m, u.Unmount) }
}

// Known implements csimanager.Allocs.
func (r *rig) Known(a ids.Alloc) bool { return r.gate.known(a) }

// Orphaned implements csimanager.Allocs: the servers decide about every alloc.
func (r *rig) Orphaned(ids.Alloc) bool { return false }

// VolumeLost implements csimanager.Allocs.
func (r *rig) VolumeLost(a ids.Alloc, alias, _ string) {
	if !r.runs.Load() {
		r.t.Error("the volume of an alloc that has not been restored yet is reported as lost")
	}
	r.lost <- string(a) + " " + alias
}

// report reports to the servers, over one connection after the other.
func (r *rig) report(ctx context.Context) error {
	for ctx.Err() == nil {
		_ = (&reporter.Reporter{Keeper: r.keeper, Servers: r.servers}).Run(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// stop ends an agent run in an orderly way; kill ends it with nothing written any more.
func (r *rig) stop() {
	if r.end != nil {
		r.end()
		r.end = nil
		r.runs.Store(false)
		_ = r.store.Close()
	}
}

func (r *rig) kill() {
	_ = r.store.Close()
	r.stop()
}

// Root implements csitest.Mounter.
func (r *rig) Root() string { return r.base() }

// Settle implements csitest.Mounter.
func (r *rig) Settle(ctx context.Context) error {
	for r.keeper.Dirty() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// Restart implements csitest.Mounter.
func (r *rig) Restart(context.Context) error {
	r.kill()
	r.open()
	return nil
}

func requestOf(p *csitest.Plugin, u csitest.Use) csimanager.MountRequest {
	return csimanager.MountRequest{
		Alias:  "data",
		Volume: volume.ID{Namespace: "default", ID: "vol"},
		Key: volume.PublicationKey{
			StagingKey: volume.StagingKey{Plugin: ids.Plugin(p.ID), ExternalID: u.Volume.ID},
			Alloc:      u.Alloc,
		},
		Epoch:          volume.Epoch{Incarnation: "i", Index: 1},
		Generation:     1,
		AccessMode:     u.Capability.AccessMode,
		AttachmentMode: u.Capability.AttachmentMode,
		ReadOnly:       u.ReadOnly,
		VolumeContext:  u.Volume.Context,
	}
}

// Mount implements csitest.Mounter.
func (r *rig) Mount(ctx context.Context, u csitest.Use) (string, error) {
	info, err := r.keeper.MountVolume(ctx, requestOf(r.p, u))
	if err != nil {
		return "", err
	}
	if err := r.keeper.Mounted(r.t.Context(), info.Key, false); err != nil {
		return "", err
	}
	if r.world != nil {
		r.world.uses(info.Source, u)
	}
	return info.Source, nil
}

// Unmount implements csitest.Mounter.
func (r *rig) Unmount(ctx context.Context, u csitest.Use) error {
	return r.keeper.UnmountVolume(ctx, requestOf(r.p, u).Key)
}

// refusedWith waits until an unmount that cannot end says why.
func (r *rig) refusedWith(v csi.Volume, alloc, why string) {
	r.t.Helper()
	eventually(r.t, "the unmount says "+why, func() bool {
		ctx, cancel := context.WithTimeout(r.t.Context(), 150*time.Millisecond) // runs out: it cannot end
		defer cancel()
		err := r.Unmount(ctx, use(v, alloc))
		if err == nil {
			r.t.Fatalf("unmounted although %s", why)
		}
		return strings.Contains(err.Error(), why)
	})
}

func TestTheKeeperPassesTheSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole suite takes many seconds: not in a short run")
	}
	csitest.Suite(t, func(t testing.TB, p *csitest.Plugin) csitest.Mounter { return newRig(t, p) })
}

// use is an alloc's use of a volume of the fake plugin.
func use(v csi.Volume, alloc string) csitest.Use {
	return csitest.Use{
		Volume:     v,
		Alloc:      ids.Alloc(alloc),
		Capability: csi.VolumeCapability{AccessMode: volume.MultiNodeMultiWriter, AttachmentMode: volume.FileSystem},
	}
}

// plugin starts a plugin that mounts and makes one volume on it.
func startPlugin(t testing.TB, rules ...string) (*csitest.Plugin, csi.Volume) {
	t.Helper()
	return startFake(t, csitest.Fake{}, rules...)
}

// startForgetful starts one that answers OK to each unpublishing, forgets the publication, and leaves its mount.
func startForgetful(t testing.TB, rules ...string) (*csitest.Plugin, csi.Volume) {
	t.Helper()
	return startFake(t, csitest.Fake{Defects: map[string]csitest.Defect{
		string(csi.NodeUnpublishVolume): csitest.DefectForgets}}, rules...)
}

func startFake(t testing.TB, fake csitest.Fake, rules ...string) (*csitest.Plugin, csi.Volume) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	fake.Mount, fake.Controller = csitest.MountBind, csi.Caps[csi.ControllerCap]{csi.CapCreateDelete}
	p := csitest.New(t,
		csitest.Options{
			World: &world{t: t, targets: map[string]csitest.Use{}},
			Rules: rules,
			Fake:  fake,
		})
	return p, makeVolume(t, p, "vol")
}

func makeVolume(t testing.TB, p *csitest.Plugin, name string) csi.Volume {
	t.Helper()
	c := p.Dial(csi.Options{})
	if _, err := c.Negotiate(t.Context(), csi.RoleController); err != nil {
		t.Fatal(err)
	}
	v, err := c.CreateVolume(t.Context(),
		csi.CreateVolumeRequest{
			Name:         name,
			Capacity:     csi.CapacityRange{Required: 1 << 20, Limit: 1 << 20},
			Capabilities: []csi.VolumeCapability{use(csi.Volume{}, "").Capability},
		})
	if err != nil {
		t.Fatal(err)
	}
	if w, own := p.World().(*world); own {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.volumes = append(w.volumes, v)
	}
	return v
}

func (r *rig) mount(v csi.Volume, alloc string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	path, err := r.Mount(ctx, use(v, alloc))
	if err != nil {
		r.t.Fatal(err)
	}
	mounted, err := mountinfo.Mounted(path)
	if err != nil {
		r.t.Error(err)
	}
	start := oracle.TaskStart{At: time.Now(), Target: path, Mounted: mounted}
	r.p.Tell(func(f *oracle.Facts) { f.Tasks.Add(start) })
	return path
}

func (r *rig) unmount(v csi.Volume, alloc string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if err := r.Unmount(ctx, use(v, alloc)); err != nil {
		r.t.Fatal(err)
	}
}

// atRest checks that nothing is left: nothing that the servers believe in, no record, no mount, and no file but the
// store.
func (r *rig) atRest() {
	r.t.Helper()
	eventually(r.t, "the servers and the node have nothing of any volume", func() bool {
		return len(r.servers.Entries()) == 0 && r.keeper.Entries() == 0 && r.records() == 0
	})
	var rest oracle.Rest
	table, err := hostfs.ReadTable()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range table.Beneath(r.base()) {
		rest.Mounts = append(rest.Mounts, m.Path)
	}
	for _, dir := range []string{"s", "p"} {
		entries, err := os.ReadDir(filepath.Join(r.base(), dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			r.t.Error(err)
		}
		for _, e := range entries {
			rest.Dirs = append(rest.Dirs, filepath.Join(dir, e.Name()))
		}
	}
	r.p.Tell(func(f *oracle.Facts) { f.Rest = oracle.Feed(rest) })
}

// records counts the records in the store.
func (r *rig) records() (n int) {
	r.t.Helper()
	if err := r.store.View(func(tx *kv.Tx) error {
		n = len(tx.Keys("csi-volumes"))
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// eventually waits for a condition.
var eventually = await.Eventually
