// Package csitest owns what tests need to speak to CSI plugins: the fake plugin (or any other) behind the recording
// proxy, a script of faults, the oracle that judges the record when the test ends, and the suite that every keeper of
// volumes on a node passes. Tests import it, and what authors of plugins will run against theirs.
package csitest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
	"berth/internal/testkit/fake"
)

// Fake scripts the fake plugin; see its fields.
type Fake = fake.Config

// The ways of mounting, and the ways of answering outside of the specification.
const (
	MountBind    = fake.MountBind
	MountNothing = fake.MountNothing

	DefectForgets  = fake.DefectForgets
	DefectEmpty    = fake.DefectEmpty
	DefectHuge     = fake.DefectHuge
	DefectUTF8     = fake.DefectUTF8
	DefectLongID   = fake.DefectLongID
	DefectNegative = fake.DefectNegative
	DefectMore     = fake.DefectMore
	DefectSecretID = fake.DefectSecretID
)

// Defect is a way of answering OK outside of the specification.
type Defect = fake.Defect

// Options of a plugin under test. The zero value is a fake monolith on node "node-a".
type Options struct {
	Plugin  string        // plugin id; empty gives "fake"
	Fake    Fake          // the script of the fake; Dir and NodeID are filled in when empty
	Backend proxy.Backend // another plugin instead of the fake
	Socket  string        // where to listen; empty gives a socket of the test's own
	Record  string        // file of the record; several plugins of one test share one. Empty gives the test's own
	Rules   []string      // faults from the start
	World   World         // feeds the oracle; without it the plugin must be unjudged, or run by Alone
	// why the oracle does not run at the end: for tests that break the rules on purpose and judge themselves
	Unjudged string
	Log      *slog.Logger
}

// Plugin is a plugin behind its proxy.
type Plugin struct {
	ID     string
	Socket string
	Record string
	Dir    string // of the fake's backend
	Node   string // storage node id of the fake
	AtOnce int    // how many calls of a kind its job says it takes at once; 0: nothing

	t     testing.TB
	rules string
	proxy *proxy.Proxy

	world World

	mu     sync.Mutex
	more   []func(*oracle.Facts)
	kept   map[string]bool // volumes with a keepsake
	strays []oracle.Stray
}

// New runs a plugin behind its proxy until the test ends, and then lets the oracle judge every call it has seen. A
// crash of the plugin starts another run of it on the same socket.
func New(t testing.TB, o Options) *Plugin {
	t.Helper()
	if o.World == nil && o.Unjudged == "" {
		t.Fatal("the plugin is in no world: give Options.World, use Alone, or say in Options.Unjudged why " +
			"nobody judges it")
	}
	if o.World == nil {
		o.World = alone{}
	}
	dir := shortDir(t)
	p := &Plugin{
		world:  o.World,
		kept:   map[string]bool{},
		ID:     o.Plugin,
		Socket: o.Socket,
		Record: o.Record,
		Dir:    o.Fake.Dir,
		t:      t,
		rules:  filepath.Join(dir, "rules"),
	}
	if p.ID == "" {
		p.ID = "fake"
	}
	if p.Socket == "" {
		p.Socket = filepath.Join(dir, "csi.sock")
	}
	if p.Record == "" {
		p.Record = filepath.Join(dir, "record")
	}
	if p.Dir == "" {
		p.Dir = filepath.Join(dir, "backend")
	}
	if o.Fake.NodeID == "" {
		o.Fake.NodeID = "node-a"
	}
	o.Fake.Dir, p.Node = p.Dir, o.Fake.NodeID
	backend := o.Backend
	if backend == nil {
		backend = proxy.Serving(func(ctx context.Context, socket string) error {
			return fake.Serve(ctx, socket, o.Fake)
		})
	}
	p.Rules(o.Rules...)
	px, err := proxy.New(proxy.Config{
		Endpoint: p.Socket,
		Record:   p.Record,
		Rules:    p.rules,
		Plugin:   p.ID,
		Name:     p.ID + "@" + o.Fake.NodeID,
		Backend:  backend,
		Witness:  p.witness,
		Restart:  true,
		Log:      o.Log,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.proxy = px
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // the plugin lives until the cleanup
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("proxy", func() error { return px.Run(gctx) })
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(fmt.Errorf("the proxy in front of plugin %q: %w", p.ID, err))
		}
		if o.Unjudged == "" {
			p.Judge()
		}
	})
	wait, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	if _, err := px.WaitReady(wait); err != nil {
		t.Fatal(fmt.Errorf("the plugin %q does not come up: %w", p.ID, err))
	}
	return p
}

// shortDir is a directory whose paths leave room in the limits of sockets and of CSI paths. What is mounted beneath it
// when the test ends is unmounted, never deleted.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeTree(dir); err != nil {
			t.Error(fmt.Errorf("clean up %s: %w", dir, err))
		}
	})
	return dir
}

// World is what surrounds the plugin.
func (p *Plugin) World() World { return p.world }

// Rules replaces the faults. A rule that stays keeps its count.
func (p *Plugin) Rules(rules ...string) {
	p.t.Helper()
	if err := proxy.WriteRules(p.rules, rules...); err != nil {
		p.t.Fatal(err)
	}
}

// Crash kills the plugin and waits until it answers again.
func (p *Plugin) Crash() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	if err := p.proxy.Crash(ctx); err != nil {
		p.t.Fatal(err)
	}
	p.WaitReady()
}

// WaitReady waits until the plugin answers, after a rule has killed it.
func (p *Plugin) WaitReady() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	if _, err := p.proxy.WaitReady(ctx); err != nil {
		p.t.Fatal(err)
	}
}

// LoseMounts unmounts all that the plugin has mounted.
func (p *Plugin) LoseMounts() {
	p.t.Helper()
	if err := p.proxy.LoseMounts(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// Mark adds a fact to the record: that the caller has crashed, that something changed.
func (p *Plugin) Mark(m proxy.Mark, e proxy.Entry) {
	p.t.Helper()
	e.Mark = m
	if e.Plugin == "" {
		e.Plugin = p.ID
	}
	if e.Node == "" && (m == proxy.MountsLost || m == proxy.Rebooted) {
		e.Node = p.Node
	}
	if err := proxy.AppendMark(p.Record, e); err != nil {
		p.t.Fatal(err)
	}
}

// Tell adds to the facts of the plugin's world: quiet times, starts of tasks, the world at rest.
func (p *Plugin) Tell(add func(*oracle.Facts)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.more = append(p.more, add)
}

// facts are those of the world with what was added.
func (p *Plugin) facts() oracle.Facts {
	f := p.world.Facts(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	for volume := range p.kept {
		p.missing(volume, filepath.Join(p.Dir, "volumes", volume))
	}
	f.Strays.Add(p.strays...)
	for _, add := range p.more {
		add(&f)
	}
	return f
}

// Entries reads the record so far.
func (p *Plugin) Entries() []proxy.Entry {
	p.t.Helper()
	all, err := proxy.ReadRecord(p.Record)
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// Calls are the names of all calls so far that can change something, in order, with their codes when not OK:
// "NodeStageVolume", "NodePublishVolume=Internal".
func (p *Plugin) Calls() []string {
	p.t.Helper()
	var out []string
	for _, e := range p.Entries() {
		if e.Kind != proxy.CallEnds || !csi.RPC(e.RPC).Mutating() {
			continue
		}
		name := e.RPC
		if e.Code != "OK" {
			name += "=" + e.Code
		}
		out = append(out, name)
	}
	return out
}

// Judge lets the oracle look at the record now.
func (p *Plugin) Judge() {
	p.t.Helper()
	JudgeFor(p.t, p)
}

// JudgeFor lets the oracle look at the record now and reports to t, which need not be the plugin's own test.
func JudgeFor(t testing.TB, p *Plugin) {
	t.Helper()
	entries, err := proxy.ReadRecord(p.Record)
	if err != nil {
		t.Error(err)
		return
	}
	found, err := oracle.Check(entries, p.facts())
	if err != nil {
		t.Error(fmt.Errorf("plugin %q: the oracle cannot judge: %w", p.ID, err))
	}
	if len(found) == 0 {
		return
	}
	var b strings.Builder
	for _, v := range found {
		fmt.Fprintf(&b, "%s\n", v)
	}
	b.WriteString("the record:\n")
	for _, e := range entries {
		fmt.Fprintf(&b, "  %s\n", e)
	}
	t.Errorf("plugin %q: %d violations\n%s", p.ID, len(found), b.String())
}

// Dial connects a client to the plugin and closes it when the test ends.
func (p *Plugin) Dial(o csi.Options) *csi.Client {
	p.t.Helper()
	if o.Plugin == "" {
		o.Plugin = p.ID
	}
	c, err := csi.Dial(p.t.Context(), p.Socket, o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			p.t.Error(err)
		}
	})
	return c
}

// Connect dials and negotiates as a monolith.
func (p *Plugin) Connect() *csi.Client {
	p.t.Helper()
	c := p.Dial(csi.Options{})
	if _, err := c.Negotiate(p.t.Context(), csi.RoleMonolith); err != nil {
		p.t.Fatal(err)
	}
	return c
}

var binary struct {
	once sync.Once
	path string
	err  error
}

// Binary builds the program csi-proxy, which a test can run as the task of a plugin, and returns its path. It is built
// once per test process, always to the same place.
func Binary(t testing.TB) string {
	t.Helper()
	binary.once.Do(func() { binary.path, binary.err = buildBinary() })
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return binary.path
}

func buildBinary() (string, error) {
	dir := filepath.Join(os.TempDir(), "berth-csitest")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "csi-proxy")
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	build := exec.Command("go", "build", "-trimpath", "-o", fresh, "berth/internal/conformance/csi/proxy/cmd/csi-proxy")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // static: it also runs in the bare root of an isolated task
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build csi-proxy: %w\n%s", err, out)
	}
	return path, os.Rename(fresh, path)
}

// FakeArgs are the arguments with which Binary runs the fake plugin behind itself.
func FakeArgs(t testing.TB, plugin, record, rules string, f Fake) []string {
	t.Helper()
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"-plugin", plugin, "-record", record, "-rules", rules, "-fake", string(b)}
}
