package controller_test

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/internal/base/bootclock"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/csimanager/controller"
	"berth/internal/client/csimanager/instance"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/wire"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// bench is an executor between servers that the story plays and a scripted plugin.
type bench struct {
	t       *testing.T
	p       *csitest.Plugin
	client  *csi.Client
	facts   csi.Instance
	out     strings.Builder
	volume  string // id of a volume at the provider
	asks    chan wire.ControllerCall
	results chan *wire.ControllerResult
	g       *lifecycle.Group
	served  chan error // what Serve returned
	clock   *bootclock.Clock
	boot    atomic.Int64 // the machine's time since boot, by which clock goes

	mu     sync.Mutex
	gone   bool
	hold   *hold // of the next use of the plugin
	atOnce int   // as the plugin's job says
}

// hold keeps a call from the plugin until it is released.
type hold struct{ reached, released chan struct{} }

// holdNext keeps the next call from the plugin.
func (b *bench) holdNext() *hold {
	h := &hold{reached: make(chan struct{}), released: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold = h
	return h
}

func newBench(t *testing.T) *bench {
	caps := csi.Caps[csi.ControllerCap]{csi.CapCreateDelete, csi.CapAttach}
	p := csitest.Alone(t, csitest.Options{
		Fake:     csitest.Fake{Controller: caps},
		Unjudged: "the story plays the servers, and asks without their pauses",
	})
	b := &bench{
		t:       t,
		p:       p,
		client:  p.Dial(csi.Options{}),
		asks:    make(chan wire.ControllerCall, 8),
		results: make(chan *wire.ControllerResult, 8),
		served:  make(chan error, 1),
	}
	b.clock = bootclock.New(func() time.Duration { return time.Duration(b.boot.Load()) })
	var err error
	if b.facts, err = b.client.Negotiate(t.Context(), csi.RoleController); err != nil {
		t.Fatal(err)
	}
	b.open()
	return b
}

// Use implements instance.Plugins.
func (b *bench) Use(ids.Plugin, plugin.Role) (*instance.Connection, error) {
	b.mu.Lock()
	gone, h := b.gone, b.hold
	b.hold = nil
	b.mu.Unlock()
	if h != nil {
		close(h.reached)
		<-h.released
	}
	if gone {
		return nil, fault.New(fault.NotReady, "use", `plugin "fake"`, "no instance of it runs on this node")
	}
	return &instance.Connection{Client: b.client, Facts: b.facts, Release: func() {}}, nil
}

// Changed implements instance.Plugins.
func (*bench) Changed() <-chan struct{} { return nil }

// AtOnce implements instance.Plugins.
func (b *bench) AtOnce(_ ids.Plugin, role plugin.Role) int {
	if role != plugin.RoleController {
		b.t.Errorf("asked for the role %s", role)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.atOnce
}

// says changes how many calls the plugin takes at once.
func (b *bench) says(atOnce int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.atOnce = atOnce
}

// WantSize implements controller.NodeExpander.
func (*bench) WantSize(key volume.StagingKey, _ int64) error {
	return fault.New(fault.NotFound, "expand", fmt.Sprintf("volume %q", key.ExternalID),
		"it is not staged on this node")
}

// open begins a stream of the executor with the servers.
func (b *bench) open() {
	pipe, s := wire.NewPipe(), wire.NewServer(nil)
	wire.NodeControllerCalls.Serve(s, b.serve)
	conn, err := wire.Connect(pipe.Dial)
	if err != nil {
		b.t.Fatal(err)
	}
	g, ctx := lifecycle.NewGroup(b.t.Context())
	b.g = g
	g.Go("servers", func() error { return s.Run(ctx, pipe.Listener()) })
	stream, err := wire.NodeControllerCalls.Open(ctx, conn, &wire.ControllerCallsRequest{})
	if err != nil {
		b.t.Fatal(err)
	}
	x := controller.New(controller.Config{
		Plugins:  b,
		Node:     b,
		Parallel: 1,
		Clock:    b.clock,
		Log:      slog.New(slog.DiscardHandler),
	})
	g.Go("executor", func() error {
		b.served <- x.Serve(ctx, stream)
		return nil
	})
	b.t.Cleanup(func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			b.t.Error(err)
		}
		if err := conn.Close(); err != nil {
			b.t.Error(err)
		}
	})
}

func (b *bench) serve(
	_ *wire.ControllerCallsRequest, s *wire.Stream[wire.ControllerCall, wire.ControllerResult],
) error {
	g, ctx := lifecycle.NewGroup(s.Context())
	g.Go("results", func() error {
		for {
			r, err := s.Recv()
			if err != nil {
				return nil // the stream is over
			}
			b.results <- r
		}
	})
	for {
		select {
		case <-ctx.Done():
			return g.Wait()
		case call := <-b.asks:
			if err := s.Send(&call); err != nil {
				return err
			}
		}
	}
}

// ask sends a call to the executor.
func (b *bench) ask(call wire.ControllerCall) {
	call.Plugin = "fake"
	verb := "ask   "
	if call.Cancel {
		verb = "cancel"
	}
	fmt.Fprintf(&b.out, "%s %s %s, generation %d\n", verb, call.Kind, call.Subject, call.Generation)
	b.asks <- call
}

func (b *bench) create(name string) {
	spec := volume.Spec{
		Capabilities: []volume.Capability{{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}},
	}
	b.ask(wire.ControllerCall{Kind: wire.CallCreate, Subject: name, Create: &wire.CreateArgs{Name: name, Spec: spec}})
}

func (b *bench) attachArgs(kind, node string, generation uint64) wire.ControllerCall {
	return wire.ControllerCall{
		Kind:       kind,
		Subject:    "db on " + node,
		Generation: generation,
		Attach: &wire.AttachArgs{
			ExternalID:     b.volume,
			StorageNode:    "node-a",
			AccessMode:     volume.SingleNodeWriter,
			AttachmentMode: volume.FileSystem,
		},
	}
}

func (b *bench) attach(node string, generation uint64) {
	b.ask(b.attachArgs(wire.CallAttach, node, generation))
}

func (b *bench) detach(node string, generation uint64) {
	b.ask(b.attachArgs(wire.CallDetach, node, generation))
}

// report waits for a result and writes it down.
func (b *bench) report() *wire.ControllerResult {
	b.t.Helper()
	select {
	case r := <-b.results:
		end := "done"
		if r.Unsent {
			end = "unsent"
		}
		if r.Err != nil {
			end = fmt.Sprintf("%s, uncertain %t, retry %v", fault.Kind(r.Err.Kind), r.Err.Uncertain, r.Err.Retry)
		}
		fmt.Fprintf(&b.out, "result %s %s, generation %d: %s\n", r.Kind, r.Subject, r.Generation, end)
		return r
	case <-time.After(time.Minute):
		b.t.Fatalf("no result after\n%s", b.out.String())
	}
	return nil
}

// begun waits until a call of the plugin is under way.
func (b *bench) begun(rpc string) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		for _, e := range b.p.Entries() {
			if e.RPC == rpc {
				return
			}
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s never began", rpc)
		}
	}
}

// taken waits until the executor has taken what was asked before: an undoing has a queue of its own.
func (b *bench) taken() {
	b.t.Helper()
	b.ask(wire.ControllerCall{Kind: wire.CallDelete, Subject: "another"})
	b.report()
}

// ended waits until the plugin's record is whole, and lists its calls without order.
func (b *bench) ended() []string {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		open := 0
		for _, e := range b.p.Entries() {
			switch e.Kind {
			case proxy.CallBegins:
				open++
			case proxy.CallEnds:
				open--
			}
		}
		if open == 0 {
			return slices.Sorted(slices.Values(b.p.Calls()))
		}
		if time.Now().After(deadline) {
			b.t.Fatal("a call of the plugin has no end")
		}
	}
}

// withVolume makes a volume that is not part of the transcript.
func (b *bench) withVolume() {
	b.create("db")
	b.volume = b.report().Created.ExternalID
	b.out.Reset()
}

// stories stand in testdata/<name>.txt; -update writes them anew.
var stories = []struct {
	name string
	tell func(*bench)
}{
	{"attach_and_detach", func(b *bench) {
		b.withVolume()
		b.attach("n1", 1)
		b.report()
		b.detach("n1", 2)
		b.report()
	}},
	{"repeated_while_under_way", func(b *bench) {
		b.withVolume()
		h := b.holdNext()
		b.attach("n1", 1)
		<-h.reached
		b.attach("n1", 1)
		b.taken()
		close(h.released)
		b.report()
		b.detach("n1", 2)
		b.report()
	}},
	{"withdrawn_while_under_way", func(b *bench) {
		b.withVolume()
		b.p.Rules("(ControllerPublish * hang once)")
		call := b.attachArgs(wire.CallAttach, "n1", 1)
		call.Timeout = 10 * time.Second
		b.ask(call)
		b.begun("ControllerPublishVolume")
		other := b.attachArgs(wire.CallAttach, "n1", 2)
		other.Cancel = true // of a call that is not there
		b.ask(other)
		b.taken()
		again := b.attachArgs(wire.CallAttach, "n1", 1)
		again.Cancel = true
		b.ask(again)
		b.report()
		b.ended()
		b.detach("n1", 3)
		b.report()
	}},
	{"its_opposite_while_under_way", func(b *bench) {
		b.withVolume()
		h := b.holdNext()
		b.attach("n1", 1)
		<-h.reached
		b.detach("n1", 2)
		b.report()
		b.attach("n2", 3)
		b.report()
		close(h.released)
		b.report()
		b.detach("n1", 2)
		b.report()
	}},
	{"no_more_than_announced", func(b *bench) {
		b.withVolume()
		h := b.holdNext()
		b.attach("n1", 1)
		<-h.reached
		b.create("another")
		b.report()
		close(h.released)
		b.report()
		b.create("another")
		b.report()
	}},
	{"as_many_as_the_job_says", func(b *bench) {
		b.withVolume()
		b.says(2)
		h := b.holdNext()
		b.attach("n1", 1)
		<-h.reached
		b.create("another")
		b.report()
		b.says(1)
		b.create("a third")
		b.report()
		close(h.released)
		b.report()
	}},
	{"plugin_gone", func(b *bench) {
		b.withVolume()
		b.mu.Lock()
		b.gone = true
		b.mu.Unlock()
		b.attach("n1", 1)
		b.report()
	}},
	{"uncertain_answers", func(b *bench) {
		b.withVolume()
		b.p.Rules("(ControllerPublish * after-effect Unavailable once)", "(ControllerUnpublish * before Internal once)")
		b.attach("n1", 1)
		b.report()
		b.attach("n1", 1)
		b.report()
		b.detach("n1", 2)
		b.report()
		b.detach("n1", 2)
		b.report()
	}},
	{"final_refusal", func(b *bench) {
		b.withVolume()
		b.p.Rules("(ControllerPublish * before InvalidArgument once)")
		b.attach("n1", 1)
		b.report()
	}},
	{"call_runs_out_of_time", func(b *bench) {
		b.withVolume()
		b.p.Rules("(ControllerPublish * hang once)")
		call := b.attachArgs(wire.CallAttach, "n1", 1)
		call.Timeout = time.Second
		b.ask(call)
		b.report()
		b.ended()
		b.attach("n1", 1)
		b.report()
	}},
	{"machine_is_suspended_under_a_call", func(b *bench) {
		b.withVolume()
		b.p.Rules("(ControllerPublish * hang once)")
		call := b.attachArgs(wire.CallAttach, "n1", 1)
		call.Timeout = time.Hour
		b.ask(call)
		b.begun("ControllerPublishVolume")
		b.boot.Add(int64(time.Hour))
		if n := b.clock.Expire(); n != 1 {
			b.t.Fatalf("%d calls ended with the suspend", n)
		}
		b.report()
		b.ended()
		b.attach("n1", 1)
		b.report()
	}},
	{"machine_is_suspended_before_a_call", func(b *bench) {
		b.withVolume()
		h := b.holdNext()
		call := b.attachArgs(wire.CallAttach, "n1", 1)
		call.Timeout = time.Hour
		b.ask(call)
		<-h.reached
		b.boot.Add(int64(time.Hour)) // no alarm has rung yet
		close(h.released)
		b.report()
	}},
	{"stream_ends_under_a_call", func(b *bench) {
		b.withVolume()
		b.p.Rules("(ControllerPublish * hang once)")
		b.attach("n1", 1)
		b.begun("ControllerPublishVolume")
		b.g.Stop()
		<-b.served // the call has ended with the stream
		if len(b.results) > 0 {
			b.t.Error("an end was reported that nobody knows")
		}
		fmt.Fprintln(&b.out, "stream is over, nothing is reported")
		b.ended()
		b.open()
		b.attach("n1", 1)
		b.report()
	}},
	{"node_expand_of_what_is_not_staged", func(b *bench) {
		b.ask(wire.ControllerCall{
			Kind:    wire.CallNodeExpand,
			Subject: "db on n1",
			Volume:  &wire.VolumeArgs{ExternalID: "x", Min: 1},
		})
		b.report()
	}},
	{"unknown_call", func(b *bench) {
		b.ask(wire.ControllerCall{Kind: "defragment", Subject: "db"})
		b.report()
	}},
}

// cutOff is what becomes of a call whose caller goes: the plugin sees one of two codes.
var cutOff = strings.NewReplacer("=Canceled", " is cut off", "=DeadlineExceeded", " is cut off")

func TestStories(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			b := newBench(t)
			s.tell(b)
			for _, call := range b.ended() {
				if !strings.HasPrefix(call, "CreateVolume") {
					fmt.Fprintf(&b.out, "plugin %s\n", cutOff.Replace(call))
				}
			}
			if b.boot.Add(int64(24 * time.Hour)); b.clock.Expire() != 0 {
				t.Error("a call that has ended left its budget behind")
			}
			path := filepath.Join("testdata", s.name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(b.out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := b.out.String(); got != string(want) {
				t.Errorf("it went otherwise than in %s:\n%s", path, got)
			}
		})
	}
}
