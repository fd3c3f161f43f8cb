package instance_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager/instance"
	"berth/internal/client/dynamicplugins"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/plugin"
	"berth/internal/port/kv"
	"berth/internal/wire"
)

// rig is a manager over a registry in a store.
type rig struct {
	t        testing.TB
	m        *instance.Manager
	registry *dynamicplugins.Registry
	health   chan string
	timeouts chan string
}

func newRig(t testing.TB) *rig {
	t.Helper()
	store, err := kv.Open(filepath.Join(t.TempDir(), "kv"), kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r := &rig{t: t, health: make(chan string, 100), timeouts: make(chan string, 100)}
	if r.registry, err = dynamicplugins.Open(store, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	r.m = instance.New(instance.Config{Registry: r.registry, Node: "n", Tasks: r, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// Health implements instance.Tasks.
func (r *rig) Health(i dynamicplugins.Info, ok bool, _ string) {
	word := "unhealthy"
	if ok {
		word = "healthy"
	}
	r.health <- string(i.Alloc) + " " + word
}

// Timeout implements instance.Tasks.
func (r *rig) Timeout(_ context.Context, _ dynamicplugins.Info, reason string) { r.timeouts <- reason }

func (r *rig) declare(socket, alloc string, timeout time.Duration) dynamicplugins.Info {
	r.t.Helper()
	i := dynamicplugins.Info{
		Plugin:        "fake",
		Role:          plugin.RoleNode,
		Alloc:         ids.Alloc(alloc),
		Socket:        socket,
		HostBase:      "/b",
		TaskBase:      "/b",
		HealthTimeout: timeout,
		Declared:      time.Now(),
	}
	if err := r.registry.Register(i); err != nil {
		r.t.Fatal(err)
	}
	return i
}

func (r *rig) withdraw(i dynamicplugins.Info) {
	r.t.Helper()
	if err := r.registry.Deregister(i.Role, i.Plugin, i.Alloc); err != nil {
		r.t.Fatal(err)
	}
}

// await waits until the plugin's state is one.
func (r *rig) await(alloc string, want plugin.State) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		var have []string
		for _, i := range r.m.States() {
			have = append(have, string(i.Alloc)+" "+string(i.State)+" "+i.Reason)
			if string(i.Alloc) == alloc && i.State == want {
				return
			}
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s is not %s: %v", alloc, want, have)
		}
	}
}

func socketIn(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "i")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "csi.sock")
}

func TestAPluginIsReadyMomentsAfterItsSocketListens(t *testing.T) {
	r := newRig(t)
	socket := socketIn(t)
	if err := os.WriteFile(socket, nil, 0o600); err != nil { // a stale file of an earlier run
		t.Fatal(err)
	}
	r.declare(socket, "a", time.Minute)
	r.await("a", plugin.Probing)
	if _, err := r.m.Use("fake", plugin.RoleNode); !fault.Has(err, fault.NotReady) {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	csitest.Alone(t, csitest.Options{Socket: socket})
	r.await("a", plugin.Ready)
	c, err := r.m.Use("fake", plugin.RoleNode)
	if err != nil {
		t.Fatal(err)
	}
	c.Release()
	if got := <-r.health; got != "a healthy" {
		t.Errorf("reported %q", got)
	}
}

// BenchmarkReadyAgain measures from the end of a plugin's connection to its next: at most a second.
func BenchmarkReadyAgain(b *testing.B) {
	r := newRig(b)
	p := csitest.Alone(b, csitest.Options{})
	r.declare(p.Socket, "a", time.Minute)
	r.await("a", plugin.Ready)
	for b.Loop() {
		c, err := r.m.Use("fake", plugin.RoleNode)
		if err != nil {
			b.Fatal(err)
		}
		p.Crash()
		<-c.Client.Lost()
		c.Release()
		r.await("a", plugin.Ready)
		for len(r.health) > 0 {
			<-r.health
		}
	}
}

func TestAPluginThatDiesIsAwaitedAndFoundAgain(t *testing.T) {
	r := newRig(t)
	p := csitest.Alone(t, csitest.Options{})
	r.declare(p.Socket, "a", time.Minute)
	r.await("a", plugin.Ready)
	c, err := r.m.Use("fake", plugin.RoleNode)
	if err != nil {
		t.Fatal(err)
	}
	p.Crash()
	<-c.Client.Lost()
	c.Release()
	r.await("a", plugin.Ready)
	next, err := r.m.Use("fake", plugin.RoleNode)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Release()
	if next.Client == c.Client {
		t.Error("another run of the plugin on the old connection")
	}
	for _, want := range []string{"a healthy", "a unhealthy", "a healthy"} {
		if got := <-r.health; got != want {
			t.Errorf("reported %q, want %q", got, want)
		}
	}
}

// Given instances of one plugin whose jobs say other numbers of calls, then that of the one counts that is used: of
// those that are ready the last declared.
func TestTheInstanceThatIsUsedSaysHowManyCallsItTakes(t *testing.T) {
	r := newRig(t)
	is := func(when string, want int) {
		t.Helper()
		if got := r.m.AtOnce("fake", plugin.RoleNode); got != want {
			t.Errorf("%s: %d at once, want %d", when, got, want)
		}
	}
	declare := func(socket, alloc string, most int) dynamicplugins.Info {
		i := r.declare(socket, alloc, time.Minute)
		i.MaxParallel = most
		if err := r.registry.Register(i); err != nil {
			t.Fatal(err)
		}
		return i
	}
	is("without an instance", 0)
	declare(csitest.Alone(t, csitest.Options{}).Socket, "a", 3)
	r.await("a", plugin.Ready)
	is("with one", 3)
	late := declare(socketIn(t), "b", 7)
	r.await("b", plugin.Awaiting)
	is("while the next is not there yet", 3)
	csitest.Alone(t, csitest.Options{Socket: late.Socket})
	r.await("b", plugin.Ready)
	is("with the next", 7)
	if got := r.m.AtOnce("fake", plugin.RoleController); got != 0 {
		t.Errorf("%d at once in a role that it does not have", got)
	}
}

func TestInitialisingIsNotFailing(t *testing.T) {
	r := newRig(t)
	p := csitest.Alone(t, csitest.Options{Fake: csitest.Fake{NotReady: 3}})
	r.declare(p.Socket, "a", 700*time.Millisecond) // less than the three probes take
	r.await("a", plugin.Ready)
	select {
	case why := <-r.timeouts:
		t.Errorf("restarted while it was initialising: %s", why)
	default:
	}
}

func TestAFailingProbeMakesNotReadyAndItsEndReady(t *testing.T) {
	r := newRig(t)
	p := csitest.Alone(t, csitest.Options{Rules: []string{"(Probe * before Internal x3)"}})
	r.declare(p.Socket, "a", time.Minute)
	r.await("a", plugin.Failing)
	if _, err := r.m.Use("fake", plugin.RoleNode); err == nil || !strings.Contains(err.Error(), "Internal") {
		t.Errorf("got %v", err)
	}
	r.await("a", plugin.Ready)
}

// TestAPluginThatFallsSilentIsNotReadyUntilItAnswers: its connection stands, for the ends of the calls under way on it
// are not known.
func TestAPluginThatFallsSilentIsNotReadyUntilItAnswers(t *testing.T) {
	r := newRig(t)
	p := csitest.Alone(t, csitest.Options{})
	r.declare(p.Socket, "a", 4*time.Second)
	r.await("a", plugin.Ready)
	lease, err := r.m.Use("fake", plugin.RoleNode)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	p.Rules("(Probe * hang)")
	r.await("a", plugin.Failing)
	if _, err := r.m.Use("fake", plugin.RoleNode); !fault.Has(err, fault.NotReady) ||
		!strings.Contains(err.Error(), "the plugin does not answer") {
		t.Errorf("got %v", err)
	}
	select {
	case <-lease.Client.Lost():
		t.Error("the connection was ended, and with it what is under way")
	default:
	}
	p.Rules()
	r.await("a", plugin.Ready)
	for _, want := range []string{"a healthy", "a unhealthy", "a healthy"} {
		if got := <-r.health; got != want {
			t.Errorf("reported %q, want %q", got, want)
		}
	}
}

// TestAPluginThatAcceptsAndIsSilentIsNamed: as a stopped process does, whose socket the kernel still serves.
func TestAPluginThatAcceptsAndIsSilentIsNamed(t *testing.T) {
	r := newRig(t)
	socket := socketIn(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r.declare(socket, "a", 4*time.Second)
	r.await("a", plugin.Probing)
	if _, err := r.m.Use("fake", plugin.RoleNode); err == nil ||
		!strings.Contains(err.Error(), "the plugin does not answer") {
		t.Errorf("got %v", err)
	}
}

func TestAPluginThatNeverComesIsRestartedAgainAndAgain(t *testing.T) {
	r := newRig(t)
	r.declare(socketIn(t), "a", 150*time.Millisecond)
	for range 2 {
		select {
		case why := <-r.timeouts:
			if !strings.Contains(why, "socket did not appear") {
				t.Errorf("the reason is %q", why)
			}
		case <-time.After(time.Minute):
			t.Fatal("nobody is called")
		}
	}
}

func TestADrainingInstanceKeepsItsLeaseAndTheNewOneIsUsed(t *testing.T) {
	r := newRig(t)
	record := filepath.Join(t.TempDir(), "record")
	p := csitest.Alone(t, csitest.Options{Record: record})
	q := csitest.Alone(t, csitest.Options{Record: record})
	first := r.declare(p.Socket, "a", time.Minute)
	r.await("a", plugin.Ready)
	lease, err := r.m.Use("fake", plugin.RoleNode)
	if err != nil {
		t.Fatal(err)
	}
	r.declare(q.Socket, "b", time.Minute)
	r.await("b", plugin.Ready)
	newer, err := r.m.Use("fake", plugin.RoleNode)
	if err != nil {
		t.Fatal(err)
	}
	if newer.Info.Alloc != "b" {
		t.Errorf("two are ready and %s is used", newer.Info.Alloc)
	}
	newer.Release()
	r.withdraw(first)
	r.await("a", plugin.Draining)
	if _, err := lease.Client.Probe(t.Context()); err != nil {
		t.Errorf("the call of the lease was broken off: %v", err)
	}
	lease.Release()
	for deadline := time.Now().Add(time.Minute); len(r.m.States()) != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the drained instance stays: %+v", r.m.States())
		}
	}
	if _, err := lease.Client.Probe(t.Context()); err == nil {
		t.Error("the connection of the drained instance lives on")
	}
}

func TestAnInstanceDeclaredAgainWhileItDrainsComesBack(t *testing.T) {
	r := newRig(t)
	p := csitest.Alone(t, csitest.Options{})
	i := r.declare(p.Socket, "a", time.Minute)
	r.await("a", plugin.Ready)
	lease, err := r.m.Use("fake", plugin.RoleNode)
	if err != nil {
		t.Fatal(err)
	}
	r.withdraw(i)
	r.await("a", plugin.Draining)
	r.declare(p.Socket, "a", time.Minute)
	lease.Release()
	r.await("a", plugin.Ready)
}

// Given a plugin that waits for its socket, when its process has ended before it served, then what is said of the
// instance, and to who wants to use it, names how; and no more when it serves.
func TestWhoWaitsForAPluginHearsHowItEnded(t *testing.T) {
	r := newRig(t)
	i := r.declare(socketIn(t), "a", 0)
	r.await("a", plugin.Awaiting)
	if err := r.registry.Ended(i.Alloc, i.Task, "Error: mount it on /v"); err != nil {
		t.Fatal(err)
	}
	const want = "waiting for the plugin's socket; its last process ended before it served: Error: mount it on /v"
	for deadline := time.Now().Add(time.Minute); r.m.States()[0].Reason != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it says %q", r.m.States()[0].Reason)
		}
	}
	if _, err := r.m.Use("fake", plugin.RoleNode); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("who wants to use it hears: %v", err)
	}
	i.Declared = i.Declared.Add(time.Second)
	if err := r.registry.Register(i); err != nil { // the next start
		t.Fatal(err)
	}
	if got := r.registry.List()[0].Ended; got != "Error: mount it on /v" {
		t.Errorf("after the next start: %q", got)
	}
}
