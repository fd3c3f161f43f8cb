package controllers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// line is a dispatcher with one node that is connected to it.
type line struct {
	*Dispatcher
	node *wire.Stream[wire.ControllerResult, wire.ControllerCall] // as the node sees it
	cut  context.CancelFunc
}

// connect serves a dispatcher over a connection until the test ends.
func connect(t *testing.T) *line {
	t.Helper()
	d := New()
	s, pipe := wire.NewServer(nil), wire.NewPipe()
	wire.NodeControllerCalls.Serve(s, func(r *wire.ControllerCallsRequest,
		st *wire.Stream[wire.ControllerCall, wire.ControllerResult]) error {
		return d.Serve(r.Node, func(ids.Plugin) int { return r.Credits }, st, func() error { return nil })
	})
	g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
	g.Go("serve", func() error { return s.Run(ctx, pipe.Listener()) })
	conn, err := wire.Connect(pipe.Dial)
	if err != nil {
		t.Fatal(err)
	}
	sctx, cut := context.WithCancel(ctx)
	t.Cleanup(func() {
		cut()
		_ = conn.Close() // in-process: nobody is at the other end any more
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	changed := d.Changed()
	st, err := wire.NodeControllerCalls.Open(sctx, conn, &wire.ControllerCallsRequest{
		NodeIdentity: wire.NodeIdentity{Node: "n"},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-changed
	return &line{Dispatcher: d, node: st, cut: cut}
}

func aCall() *wire.ControllerCall {
	return &wire.ControllerCall{
		Kind:       wire.CallAttach,
		Subject:    "default/v",
		Generation: 1,
		Plugin:     "p",
		Timeout:    time.Minute,
	}
}

// answer reads the next call and answers it.
func (l *line) answer(t *testing.T, e *wire.CallError) {
	t.Helper()
	c, err := l.node.Recv()
	if err != nil {
		t.Error(err)
		return
	}
	r := &wire.ControllerResult{Kind: c.Kind, Subject: c.Subject, Generation: c.Generation, Err: e}
	if err := l.node.Send(r); err != nil {
		t.Error(err)
	}
}

// Given a node that answers with a class of retry that this server does not know, then how the call ended is not known.
func TestAnAnswerOfANewerAgentLeavesTheEndUnknown(t *testing.T) {
	l := connect(t)
	go l.answer(t, &wire.CallError{Kind: uint8(fault.Conflict), Retry: "when-the-moon-is-full", Message: "no"})
	r, err := l.Do(t.Context(), "n", aCall())
	if err != nil {
		t.Fatal(err)
	}
	if uncertain, failed := Failure(r); !uncertain || failed == nil {
		t.Errorf("it counts as ended: %+v", r.Err)
	}
}

// Given a node that takes a call and says nothing more, also when the call is withdrawn, then the wait has an end, and
// how the call ended is not known.
func TestANodeThatNeverAnswersLeavesTheEndUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begun := time.Now()
		_, err := l.Do(ctx, "n", aCall())
		if !fault.Has(err, fault.Timeout) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(begun); took != time.Minute+2*grace {
			t.Errorf("it ended after %s", took)
		}
	})
}

// Given as many calls under way as the node makes at once, then the next is handed over when one of them has ended for
// the servers, and not when they have merely withdrawn it.
func TestACallIsHandedOverAgainstAFreeCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		var handed, withdrawn atomic.Int64
		read := make(chan struct{})
		go func() {
			defer close(read)
			for {
				c, err := l.node.Recv()
				switch {
				case err != nil:
					return
				case c.Cancel:
					withdrawn.Add(1)
				default:
					handed.Add(1)
				}
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for i := range defaultCredits + 1 {
			c := aCall()
			c.Generation = uint64(i)
			calls.Go(func() { _, _ = l.Do(ctx, "n", c) })
		}
		synctest.Wait()
		if n := handed.Load(); n != defaultCredits {
			t.Errorf("%d calls are handed over to a node that makes %d at once", n, defaultCredits)
		}
		time.Sleep(aCall().Timeout + grace + time.Second)
		synctest.Wait()
		if w, h := withdrawn.Load(), handed.Load(); w != defaultCredits || h != defaultCredits {
			t.Errorf("%d are withdrawn and may be under way, %d are handed over", w, h)
		}
		time.Sleep(grace)
		synctest.Wait()
		if n := handed.Load(); n != defaultCredits+1 {
			t.Errorf("the others have ended for the servers, %d are handed over", n)
		}
		cancel()
		calls.Wait()
		l.cut()
		<-read
	})
}

// Given a node whose stream ends while a call is handed to it, then the call may have been made.
func TestACallWhoseSendingFailedMayHaveBeenMade(t *testing.T) {
	l := connect(t)
	s := l.streamOf("n")
	s.send.Lock() // the call waits here, in front of the stream
	ended := make(chan error, 1)
	go func() {
		_, err := l.Do(t.Context(), "n", aCall())
		ended <- err
	}()
	for waiting := false; !waiting; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		waiting = len(s.waits) == 1
		l.mu.Unlock()
	}
	l.cut()
	<-s.gone
	s.send.Unlock()
	if err := <-ended; !fault.Has(err, fault.Timeout) {
		t.Errorf("it ended with %v", err)
	}
}

// Given volumes of two plugins that have the same id at their providers, then neither waits for the other.
func TestAnIDIsOnlyItsProvidersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, p := range []ids.Plugin{"p", "q"} {
			release, err := d.Lane(ctx, p, "x")
			if err != nil {
				t.Fatalf("the lane of plugin %s: %v", p, err)
			}
			defer release()
		}
	})
}

// listing is a node whose plugin lists volumes, page by page; an empty page is one that cannot be read.
type listing struct {
	conn  wire.Conn
	pages [][]wire.ExternalVolume
}

// NodeConn implements Nodes.
func (l *listing) NodeConn(ids.Node) (wire.Conn, error) { return l.conn, nil }

func (l *listing) Await(context.Context, ids.Node) (wire.Conn, error) { return l.conn, nil }

func (l *listing) serve(t *testing.T) {
	t.Helper()
	s, pipe := wire.NewServer(nil), wire.NewPipe()
	wire.AgentListVolumes.Serve(s, func(_ context.Context, r *wire.PluginReadRequest) (
		*wire.ProviderList[wire.ExternalVolume], error) {
		n := len(r.NextToken)
		if len(l.pages[n]) == 0 {
			return nil, fault.New(fault.Unavailable, "list", "", "the provider is away")
		}
		out := &wire.ProviderList[wire.ExternalVolume]{Items: l.pages[n]}
		if n+1 < len(l.pages) {
			out.NextToken = r.NextToken + "x"
		}
		return out, nil
	})
	g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
	g.Go("serve", func() error { return s.Run(ctx, pipe.Listener()) })
	conn, err := wire.Connect(pipe.Dial)
	if err != nil {
		t.Fatal(err)
	}
	l.conn = conn
	t.Cleanup(func() {
		_ = conn.Close() // in-process: nobody is at the other end any more
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Errorf("the node ended with %v", err)
		}
	})
}

// Given a plugin's "not found" to a detach, then it counts only if the provider's whole list bears it out: a volume
// that is listed counts as attached unless the list says to whom it is.
func TestADetachIsProvenByAWholeListAlone(t *testing.T) {
	here := wire.ExternalVolume{ExternalID: "x", PublishedNodes: []string{"storage-n"}}
	elsewhere := wire.ExternalVolume{ExternalID: "x", PublishedNodes: []string{"another"}}
	unsaid := wire.ExternalVolume{ExternalID: "x"}
	other := wire.ExternalVolume{ExternalID: "y", PublishedNodes: []string{"storage-n"}}
	for what, c := range map[string]struct {
		pages [][]wire.ExternalVolume
		says  bool // to which nodes volumes are attached
		want  bool
	}{
		"not on the list":              {[][]wire.ExternalVolume{{other}, {other}}, true, true},
		"attached":                     {[][]wire.ExternalVolume{{other}, {here}}, true, false},
		"attached to another node":     {[][]wire.ExternalVolume{{elsewhere}}, true, true},
		"on a list that does not say":  {[][]wire.ExternalVolume{{unsaid}}, false, false},
		"a list that breaks off":       {[][]wire.ExternalVolume{{other}, {}}, true, false},
		"a list that cannot be read":   {[][]wire.ExternalVolume{{}}, true, false},
		"gone, on one that says less":  {[][]wire.ExternalVolume{{other}}, false, true},
		"found before it breaks off":   {[][]wire.ExternalVolume{{here}, {}}, true, false},
		"elsewhere before that, again": {[][]wire.ExternalVolume{{elsewhere}, {}}, true, false},
	} {
		t.Run(what, func(t *testing.T) {
			cluster := localstate.New(t)
			err := cluster.Store.Write(cluster.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
				tx.PutPlugin(&plugin.Record{ID: "p", Negotiated: true, Controller: plugin.Capabilities{
					ListVolumes:        true,
					ListPublishedNodes: c.says,
				}})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			l := &listing{pages: c.pages}
			l.serve(t)
			v := Verifier{Store: cluster.Store, Nodes: l}
			a := &volume.Attachment{Plugin: "p", ExternalID: "x", Node: "n", StorageNode: "storage-n"}
			if err := v.Detached(t.Context(), a, "n", "n", ""); (err == nil) != c.want {
				t.Errorf("proven: %v (%v)", err == nil, err)
			}
		})
	}
}
