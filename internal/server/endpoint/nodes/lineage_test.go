package nodes

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/recovery"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	fsmrecovery "berth/internal/server/fsm/recovery"
	"berth/internal/server/fsm/sessions"
	"berth/internal/server/state"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// patience bounds the wait for what comes at once unless it never comes.
const patience = 30 * time.Second

// served lets endpoints answer over a connection until the test ends.
func served(t *testing.T, e *Endpoints) wire.Conn {
	t.Helper()
	s, pipe := wire.NewServer(nil), wire.NewPipe()
	e.Register(s)
	g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
	g.Go("serve", func() error { return s.Run(ctx, pipe.Listener()) })
	conn, err := wire.Connect(pipe.Dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close() // in-process: nobody is at the other end any more
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Errorf("the endpoints ended with %v", err)
		}
	})
	return conn
}

func endpoints(t *testing.T) (*Endpoints, *localstate.Cluster) {
	t.Helper()
	c := localstate.New(t)
	return New(Config{
		Base:       serving.Base{Store: c.Store, Cluster: leader.Alone{}},
		Proposer:   c,
		Heartbeats: leader.Alone{},
		Log:        slog.New(slog.DiscardHandler),
	}), c
}

func mark(t *testing.T, c *localstate.Cluster, id string) {
	t.Helper()
	c.Must(t, &fsm.LineageMark{Mark: id})
}

func someone() wire.NodeIdentity {
	return wire.NodeIdentity{Node: ids.Node(ids.New()),
		Secret: wire.Secrets{Values: map[string]string{secretValue: ids.New()}}}
}

// joins registers a node as one that has seen a point.
func joins(t *testing.T, e *Endpoints, who wire.NodeIdentity, seen lineage.Point, holds bool) *node.Node {
	t.Helper()
	req := &wire.NodeRegisterRequest{NodeIdentity: who, Info: &node.Node{ID: who.Node, Name: "n"},
		Seen: seen, Holds: holds}
	if _, err := e.nodeRegister(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	return e.cfg.Store.Snapshot().Node(nil, who.Node)
}

// A node that holds things of another state must not be given work of this one; one that holds nothing begins anew.
func TestANodeThatHoldsThingsOfAnotherStateIsNotReady(t *testing.T) {
	e, c := endpoints(t)
	mark(t, c, "one")
	own := c.Store.Snapshot().Point(nil)
	foreign := lineage.Point{Incarnation: "another", Mark: "one", Index: 1}
	forked := lineage.Point{Incarnation: own.Incarnation, Mark: "of another history", Index: 1}
	for _, tc := range []struct {
		what  string
		seen  lineage.Point
		holds bool
		want  string
	}{
		{"another state, holds nothing", foreign, false, ""},
		{"another state, holds something", foreign, true, node.FollowsOthers},
		{"this state, holds something", own, true, ""},
		{"a history that this one left, holds something", forked, true, ""},
		{"nothing, holds something", lineage.Point{}, true, ""},
	} {
		if n := joins(t, e, someone(), tc.seen, tc.holds); n.Unfollowed != tc.want || n.Ready() != (tc.want == "") {
			t.Errorf("it has seen %s: unfollowed %q, ready %v", tc.what, n.Unfollowed, n.Ready())
		}
	}
	who := someone()
	joins(t, e, who, foreign, true)
	if n := joins(t, e, who, foreign, false); n.Unfollowed != "" || !n.Ready() {
		t.Errorf("after what it held has ended: unfollowed %q, ready %v", n.Unfollowed, n.Ready())
	}
}

// Given a node that held what another state placed, then that is evidence until the node holds nothing any more: not
// when it says merely that it has seen nothing, for its store may be lost, nor while another boot of it may live,
// before a person has said that none does.
func TestForeignEvidenceStandsWhileAnythingOfItMayLive(t *testing.T) {
	foreign := lineage.Point{Incarnation: "another", Mark: "one", Index: 1}
	for _, tc := range []struct {
		what    string
		seen    lineage.Point
		holds   bool
		doubted bool
		stands  bool
	}{
		{"it holds the same", foreign, true, false, true},
		{"it has seen nothing and holds something", lineage.Point{}, true, false, true},
		{"it holds nothing", foreign, false, false, false},
		{"it holds nothing and another boot of it may live", foreign, false, true, true},
	} {
		e, c := endpoints(t)
		mark(t, c, "one")
		who := someone()
		joins(t, e, who, foreign, true)
		err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
			s := &node.Session{Node: who.Node, Epoch: "e"}
			if tc.doubted {
				s.OtherBoot = &node.OtherBoot{}
			}
			tx.PutSession(s)
			n := *tx.Node(nil, who.Node)
			if !tc.holds {
				n.Unfollowed = ""
			}
			tx.PutNode(&n)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		req := &wire.NodeRegisterRequest{
			NodeIdentity: who,
			Info:         &node.Node{ID: who.Node},
			Seen:         tc.seen,
			Holds:        tc.holds,
		}
		if err := e.noteEvidence(t.Context(), c.Store.Snapshot(), req); err != nil {
			t.Fatal(err)
		}
		if e := c.Store.Snapshot().Evidence(nil, who.Node); (e != nil) != tc.stands {
			t.Errorf("%s: evidence %+v, want that it stands: %v", tc.what, e, tc.stands)
		}
		c.Must(t, &sessions.Confirm{Node: who.Node, Reason: "nothing else of it runs"})
		if e := c.Store.Snapshot().Evidence(nil, who.Node); (e != nil) != tc.holds {
			t.Errorf("%s, and a person vouches for it: evidence %+v", tc.what, e)
		}
	}
}

// A node that keeps what another state placed has no stream that would end when a new incarnation begins: the answer to
// its heartbeats says which one there is.
func TestAHeartbeatSaysTheIncarnation(t *testing.T) {
	e, c := endpoints(t)
	mark(t, c, "one")
	who := someone()
	joins(t, e, who, lineage.Point{Incarnation: "another", Mark: "one", Index: 1}, true)
	for range 2 {
		reply, err := e.nodeHeartbeat(t.Context(), &wire.NodeHeartbeatRequest{NodeIdentity: who})
		if want := c.Store.Snapshot().Meta(nil).Incarnation; err != nil || reply.Incarnation != want {
			t.Errorf("%+v, %v, want incarnation %s", reply, err, want)
		}
		c.Must(t, &fsmrecovery.Begin{Incarnation: ids.New(), Mark: ids.New(), Cause: "a test"})
	}
}

// What a node may destroy is decided here: only what this very history gave to it and has taken back.
func TestAnAllocIsKnownOnlyToItsOwnNode(t *testing.T) {
	e, c := endpoints(t)
	mark(t, c, "one")
	mine, theirs := someone(), someone()
	joins(t, e, mine, lineage.Point{}, false)
	joins(t, e, theirs, lineage.Point{}, false)
	c.Must(t, &fsm.JobRegister{Job: service(), Seed: ids.New()})
	place := func(on ids.Node) ids.Alloc {
		j := c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "db")
		a := &alloc.Alloc{
			ID:             ids.Alloc(ids.New()),
			Namespace:      j.Namespace,
			Job:            j.ID,
			JobCreateIndex: j.CreateIndex,
			JobVersion:     j.Version,
			Node:           on,
		}
		c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
		return a.ID
	}
	known, elsewhere := place(mine.Node), place(theirs.Node)
	now := c.Store.Snapshot().Point(nil)
	forked := lineage.Point{Incarnation: now.Incarnation, Mark: "of another history", Index: 1}
	foreign := lineage.Point{Incarnation: "another", Mark: "one", Index: 1}
	ahead := lineage.Point{Incarnation: now.Incarnation, Mark: now.Mark, Index: now.Index + 1000}
	for _, tc := range []struct {
		what     string
		alloc    ids.Alloc
		received lineage.Point
		removed  bool
		orphan   bool
	}{
		{"its own", known, now, false, false},
		{"its own, received in another history", known, forked, false, false},
		{"another node's, received from this state", elsewhere, now, true, false},
		{"another node's, received in another history", elsewhere, forked, false, true},
		{"unknown, received from this state", "gone", now, true, false},
		{"unknown, received in a history that this one left", "gone", forked, false, true},
		{"unknown, received from another incarnation", "gone", foreign, false, true},
		{"unknown, received where this state is not yet", "gone", ahead, false, true},
	} {
		reply, err := e.nodeAllocsKnown(t.Context(), &wire.NodeAllocsKnownRequest{NodeIdentity: mine,
			Allocs: []wire.ReceivedAlloc{{Alloc: tc.alloc, Received: tc.received}}})
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(reply.Removed, tc.alloc) != tc.removed ||
			slices.Contains(reply.Orphans, tc.alloc) != tc.orphan || reply.At != now {
			t.Errorf("%s: %+v", tc.what, reply)
		}
	}
}

// follow opens a node's alloc stream and returns what comes next on it.
func follow(t *testing.T, conn wire.Conn, who wire.NodeIdentity, seen lineage.Point) (next func() *wire.AllocSet) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	stream, err := wire.NodeAllocs.Open(ctx, conn, &wire.NodeAllocsRequest{NodeIdentity: who, Seen: seen})
	if err != nil {
		t.Fatal(err)
	}
	return func() *wire.AllocSet {
		t.Helper()
		set, err := stream.Recv()
		if err != nil {
			t.Fatalf("no set came: %v", err)
		}
		return set
	}
}

// A node stamps what it receives with the mark; were the new one not told, what it receives next would look forked.
func TestANewLeadershipIsAnnouncedToNodesThatFollow(t *testing.T) {
	e, c := endpoints(t)
	mark(t, c, "one")
	who := someone()
	joins(t, e, who, lineage.Point{}, false)
	next := follow(t, served(t, e), who, lineage.Point{})
	if first := next(); !first.Full || first.At != c.Store.Snapshot().Point(nil) || first.At.Mark != "one" {
		t.Fatalf("the first set is %+v", first)
	}
	mark(t, c, "two")
	if set := next(); set.Full || set.At != c.Store.Snapshot().Point(nil) || set.At.Mark != "two" ||
		len(set.Bundles)+len(set.Gone) != 0 {
		t.Errorf("after nothing but a new leadership came %+v", set)
	}
}

func TestTheFirstSetSaysHowTheStateStandsToWhatTheNodeSaw(t *testing.T) {
	e, c := endpoints(t)
	mark(t, c, "one")
	who := someone()
	joins(t, e, who, lineage.Point{}, false)
	conn := served(t, e)
	now := c.Store.Snapshot().Point(nil)
	for _, tc := range []struct {
		what string
		seen lineage.Point
		want lineage.Relation
	}{
		{"nothing", lineage.Point{}, lineage.Continues},
		{"this state", now, lineage.Continues},
		{"a mark that this state does not have",
			lineage.Point{Incarnation: now.Incarnation, Mark: "of another history", Index: 1}, lineage.Forked},
		{"an index that is not reached",
			lineage.Point{Incarnation: now.Incarnation, Mark: now.Mark, Index: now.Index + 1}, lineage.Behind},
		{"another incarnation", lineage.Point{Incarnation: "another", Mark: now.Mark, Index: 1}, lineage.Foreign},
	} {
		if first := follow(t, conn, who, tc.seen)(); !first.Full || first.Relation != tc.want {
			t.Errorf("the node has seen %s: full %v, %v, want %v", tc.what, first.Full, first.Relation, tc.want)
		}
	}
}

// Given an alloc with a volume on a node that follows, when a recovery begins, then the node hears that nothing may
// be begun with it, though nothing else changes, and as soon as the recovery has ended that it may.
func TestANodeHearsWhichAllocsAreSuspended(t *testing.T) {
	h := withClaim(t)
	who := wire.NodeIdentity{Node: h.node, Secret: wire.Secrets{Values: map[string]string{secretValue: "s"}}}
	next := follow(t, served(t, h.Endpoints), who, lineage.Point{})
	if first := next(); len(first.Suspended) != 0 {
		t.Fatalf("without a recovery suspended are %+v", first.Suspended)
	}
	rec := &recovery.Record{Index: 1, Incarnation: "i", Whole: true, Nodes: []recovery.Node{{ID: "off", Name: "oak"}}}
	h.write(t, func(tx *state.Tx) { tx.PutRecovery(rec) })
	set := next()
	if set.Full || len(set.Suspended) != 1 || set.Suspended[0].Alloc != h.alloc ||
		!strings.Contains(set.Suspended[0].Reason, `volume "v"`) || !strings.Contains(set.Suspended[0].Reason, "oak") {
		t.Fatalf("suspended are %+v", set.Suspended)
	}
	h.write(t, func(tx *state.Tx) {
		tx.PutRecovery(rec.With("off", "", time.Unix(9, 0), func(n *recovery.Node) { n.Reported = 5 }))
	})
	if set := next(); len(set.Suspended) != 0 {
		t.Errorf("after the recovery suspended are %+v", set.Suspended)
	}
}
