package node_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/instance"
	"berth/internal/client/csimanager/node"
	"berth/internal/client/dynamicplugins"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/csi/csitest"
	"berth/internal/port/csi/proxy/oracle"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
	"berth/internal/wire"
)

var codec = kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict}

// gate is the client's side: armed, and allocs whose processes live.
type gate struct {
	mu      sync.Mutex
	armed   bool
	live    map[ids.Alloc]bool
	idle    map[ids.Alloc]bool
	unknown map[ids.Alloc]bool
	changed lifecycle.Signal
}

func (g *gate) Armed() bool              { g.mu.Lock(); defer g.mu.Unlock(); return g.armed }
func (g *gate) Changed() <-chan struct{} { return g.changed.C() }
func (g *gate) ProcessesGone(a ids.Alloc) (bool, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.live[a], "a process lives"
}
func (g *gate) ProcessesIdle(a ids.Alloc) bool { g.mu.Lock(); defer g.mu.Unlock(); return g.idle[a] }
func (g *gate) known(a ids.Alloc) bool         { g.mu.Lock(); defer g.mu.Unlock(); return !g.unknown[a] }
func (g *gate) set(fn func(*gate)) {
	g.mu.Lock()
	fn(g)
	g.mu.Unlock()
	g.changed.Notify()
}

// rig is a node's volume side: a keeper and an instance manager over one local store, in front of one plugin.
type rig struct {
	t    testing.TB
	p    *csitest.Plugin
	dir  string
	boot string
	gate *gate
	lost chan string
	log  *slog.Logger

	store     *kv.Store
	registry  *dynamicplugins.Store
	keeper    *node.Keeper
	instances *instance.Manager
	end       func()
	codec     kv.Codec
}

func newRig(t testing.TB, p *csitest.Plugin) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, p: p, dir: dir, boot: "boot-1", codec: codec, lost: make(chan string, 100),
		gate: &gate{armed: true, live: map[ids.Alloc]bool{}, idle: map[ids.Alloc]bool{}, unknown: map[ids.Alloc]bool{}}, log: slog.New(slog.DiscardHandler)}
	if os.Getenv("CSI_LOG") != "" {
		r.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	t.Cleanup(func() {
		r.stop()
		removeAll(t, dir)
	})
	r.open()
	r.declare()
	return r
}

type kvTx = kv.Tx

// declare says that the plugin's task runs here.
func (r *rig) declare() {
	r.t.Helper()
	if err := r.registry.Register(dynamicplugins.Info{Plugin: ids.Plugin(r.p.ID), Role: plugin.RoleNode, Alloc: "plugin-alloc",
		Socket: r.p.Socket, HostBase: r.base(), TaskBase: r.base(), Declared: time.Now()}); err != nil {
		r.t.Fatal(err)
	}
}

// mountGrant mounts by a grant of the test's own.
func (r *rig) mountGrant(g wire.Grant) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	_, err := r.keeper.MountVolume(ctx, csimanager.MountRequest{Grant: g})
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

func (r *rig) base() string { return node.HostBase(r.dir, ids.Plugin(r.p.ID)) }

// open begins a life of the agent.
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
		Health: func(dynamicplugins.Info, bool, string) {}, Timeout: func(context.Context, dynamicplugins.Info, string) {}})
	r.keeper, err = node.New(node.Config{Store: r.store, Codec: codec, Boot: r.boot, DataDir: r.dir, Plugins: r.instances, Processes: r.gate, Armed: r.gate,
		Known: r.gate.known, Unreported: true, Log: r.log, Lost: func(a ids.Alloc, alias, reason string) { r.lost <- string(a) + " " + alias }})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- lifecycle.RunAll(ctx, map[string]func(context.Context) error{"keeper": r.keeper.Run, "instances": r.instances.Run})
	}()
	r.end = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	}
}

// stop ends a life in an orderly way; kill ends it with nothing written any more.
func (r *rig) stop() {
	if r.end != nil {
		r.end()
		r.end = nil
		_ = r.store.Close()
	}
}

func (r *rig) kill() {
	_ = r.store.Close()
	r.stop()
}

// Root implements csitest.Mounter.
func (r *rig) Root() string { return r.base() }

// Restart implements csitest.Mounter.
func (r *rig) Restart(context.Context) error {
	r.kill()
	r.open()
	return nil
}

func grantOf(p *csitest.Plugin, u csitest.Use) wire.Grant {
	return wire.Grant{Alias: "data", Volume: volume.ID{Namespace: "default", ID: "vol"},
		Key:   volume.PublicationKey{StagingKey: volume.StagingKey{Plugin: ids.Plugin(p.ID), ExternalID: u.Volume.ID}, Alloc: u.Alloc},
		Epoch: volume.Epoch{Incarnation: "i", Index: 1}, Generation: 1, AccessMode: volume.AccessMode(u.Capability.AccessMode),
		AttachmentMode: volume.AttachmentMode(u.Capability.AttachmentMode), ReadOnly: u.ReadOnly, VolumeContext: u.Volume.Context, NeedsStage: true}
}

// Mount implements csitest.Mounter.
func (r *rig) Mount(ctx context.Context, u csitest.Use) (string, error) {
	info, err := r.keeper.MountVolume(ctx, csimanager.MountRequest{Grant: grantOf(r.p, u)})
	if err != nil {
		return "", err
	}
	if err := r.keeper.Mounted(info.Key); err != nil {
		return "", err
	}
	return info.Source, nil
}

// Unmount implements csitest.Mounter.
func (r *rig) Unmount(ctx context.Context, u csitest.Use) error {
	return r.keeper.UnmountVolume(ctx, grantOf(r.p, u).Key)
}

func TestTheKeeperPassesTheSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole suite takes many seconds: not in a short run")
	}
	csitest.Suite(t, func(t testing.TB, p *csitest.Plugin) csitest.Mounter { return newRig(t, p) })
}

// use is an alloc's use of a volume of the fake plugin.
func use(v csi.Volume, alloc string) csitest.Use {
	return csitest.Use{Volume: v, Alloc: ids.Alloc(alloc), Capability: csi.VolumeCapability{AccessMode: csi.MultiNodeMultiWriter, AttachmentMode: csi.FileSystem}}
}

// plugin starts a plugin that mounts and makes one volume on it.
func startPlugin(t testing.TB, rules ...string) (*csitest.Plugin, csi.Volume) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	p := csitest.New(t, csitest.Options{Rules: rules, Fake: csitest.Fake{Mount: csitest.MountBind, Controller: csi.Caps[csi.ControllerCap]{csi.CapCreateDelete}}})
	return p, makeVolume(t, p, "vol")
}

func makeVolume(t testing.TB, p *csitest.Plugin, name string) csi.Volume {
	t.Helper()
	c := p.Dial(csi.Options{})
	if _, err := c.Negotiate(t.Context(), csi.RoleController); err != nil {
		t.Fatal(err)
	}
	v, err := c.CreateVolume(t.Context(), csi.CreateVolumeRequest{Name: name, Capabilities: []csi.VolumeCapability{use(csi.Volume{}, "").Capability}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (r *rig) mount(v csi.Volume, alloc string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	path, err := r.Mount(ctx, use(v, alloc))
	if err != nil {
		r.t.Fatal(err)
	}
	r.p.Tell(func(f *oracle.Facts) {
		f.Tasks = append(f.Tasks, oracle.TaskStart{At: time.Now(), Target: path, Mounted: true})
	})
	return path
}

func (r *rig) unmount(v csi.Volume, alloc string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	if err := r.Unmount(ctx, use(v, alloc)); err != nil {
		r.t.Fatal(err)
	}
}

// atRest checks that nothing is left: no mount, and no file but the store.
func (r *rig) atRest() {
	r.t.Helper()
	table, err := hostfs.ReadTable()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range table.Beneath(r.base()) {
		r.t.Errorf("%s is still mounted", m.Path)
	}
	for _, dir := range []string{"s", "p"} {
		entries, err := os.ReadDir(filepath.Join(r.base(), dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			r.t.Error(err)
		}
		for _, e := range entries {
			r.t.Errorf("%s/%s is left", dir, e.Name())
		}
	}
	r.p.Tell(func(f *oracle.Facts) { f.Final = &oracle.Final{} })
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
