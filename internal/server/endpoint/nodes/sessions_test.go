package nodes

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/peer"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/wire"
)

// hearing are heartbeats of which a test says whether a node is silent.
type hearing struct {
	leader.Alone
	silent bool
	beats  int
}

// Beat implements Heartbeats.
func (h *hearing) Beat(ids.Node) time.Duration { h.beats++; return time.Second }

// Silence implements Heartbeats.
func (h *hearing) Silence(ids.Node) (lasts, rest time.Duration) {
	if h.silent {
		return time.Minute, 0
	}
	return time.Second, 19 * time.Second
}

// agent is one start of a node's agent.
type agent struct {
	h       *claimed
	who     wire.NodeIdentity
	start   wire.AgentStart
	address string
	token   string // of a readmission
}

// starts makes an agent start that follows earlier ones on a boot of a machine.
func (h *claimed) starts(epoch, boot, machine string, previous ...string) *agent {
	a := &agent{h: h, who: h.identity(), address: "agent of " + epoch}
	a.start = wire.AgentStart{At: h.c.Store.Snapshot().Point(nil), Registration: node.Registration{
		Previous: previous,
		Next:     epoch,
		Machine:  node.Machine{Boot: boot, Product: machine, ID: machine},
		Address:  a.address,
	}}
	return a
}

func (a *agent) registers(ctx context.Context) error {
	start := a.start
	reply, err := a.h.nodeRegister(ctx, &wire.NodeRegisterRequest{
		NodeIdentity: a.who,
		Info:         &node.Node{ID: a.who.Node, Name: "n"},
		Start:        &start,
		Readmit:      wire.Secrets{Values: map[string]string{wire.ReadmitToken: a.token}},
	})
	if err == nil {
		a.who.Session = reply.Session
	}
	return err
}

func (a *agent) accepted(t *testing.T) *agent {
	t.Helper()
	if err := a.registers(t.Context()); err != nil || a.who.Session != a.start.Next {
		t.Fatalf("%s is not accepted: session %q, %v", a.address, a.who.Session, err)
	}
	return a
}

// refused holds that the agent is refused by a kind of error that says certain things, and that nothing has changed.
func (a *agent) refused(t *testing.T, kind fault.Kind, says ...string) {
	t.Helper()
	index := a.h.c.Store.Snapshot().Index()
	err := a.registers(t.Context())
	if !fault.Has(err, kind) {
		t.Fatalf("%s: %v, want %s", a.address, err, kind)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v does not say %q", err, text)
		}
	}
	if now := a.h.c.Store.Snapshot().Index(); now != index {
		t.Errorf("the refusal of %s wrote %d entries", a.address, now-index)
	}
}

func (a *agent) beats(t *testing.T) error {
	t.Helper()
	_, err := a.h.nodeHeartbeat(t.Context(), &wire.NodeHeartbeatRequest{NodeIdentity: a.who})
	return err
}

func (h *claimed) session() *node.Session { return h.c.Store.Snapshot().Session(nil, h.node) }

// withAgents are endpoints whose heartbeats the test controls.
func withAgents(t *testing.T) (*claimed, *hearing) {
	t.Helper()
	h, ears := withClaim(t), &hearing{}
	h.cfg.Heartbeats = ears
	return h, ears
}

// Given an agent that another incarnation has accepted since, which this state does not know because it was put back
// over it, then the agent is no copy: nobody can know here how the chain of its node went on.
func TestAStateThatDoesNotKnowTheIncarnationBelievesTheNextAgent(t *testing.T) {
	h, _ := withAgents(t)
	h.starts("a", "boot", "m").accepted(t)
	next := h.starts("b", "boot", "m")
	next.start.Previous = []string{"an epoch of the other incarnation"}
	now := h.c.Store.Snapshot().Point(nil)
	for _, at := range []lineage.Point{{}, now} {
		next.start.At = at
		next.refused(t, fault.Conflict, "does not follow")
	}
	next.start.At = lineage.Point{Incarnation: "of a restore", Mark: "m", Index: 7}
	next.accepted(t)
}

// TestTheSessionsOfANodeAreAChain: of two agents with one identity only the one that follows is obeyed.
func TestTheSessionsOfANodeAreAChain(t *testing.T) {
	h, ears := withAgents(t)
	first := h.starts("a", "boot", "m").accepted(t)
	first.accepted(t) // the answer was lost, or its description changed
	begun := h.session()
	if begun.Epoch != "a" || begun.Address != first.address {
		t.Fatalf("the session is %+v", begun)
	}
	if err := first.beats(t); err != nil {
		t.Fatal(err)
	}
	h.starts("copy", "boot", "m", "never stored").refused(t, fault.Conflict, first.address, "agent of copy",
		"reboot-confirm")
	h.starts("copy", "another boot", "m2").refused(t, fault.Conflict, first.address)
	if now := h.session(); now != begun {
		t.Errorf("a copy changed the session: %+v", now)
	}

	second := h.starts("b", "boot", "m", "lost", "a").accepted(t)
	heard := ears.beats
	if err := first.beats(t); !wire.SessionRefused(err) || ears.beats != heard {
		t.Errorf("a heartbeat of the superseded agent: %v, it counts %t", err, ears.beats != heard)
	}
	if err := second.beats(t); err != nil {
		t.Error(err)
	}
	if err := first.beats(t); err == nil || !strings.Contains(err.Error(), "stop the agent that is the copy") {
		t.Errorf("a superseded agent is answered %v", err)
	}
	// One that has started and has not registered yet is no copy, and nobody is to empty its data_dir.
	third := h.starts("c", "boot", "m", "b", "a")
	if err := third.beats(t); !wire.SessionRefused(err) || strings.Contains(err.Error(), "copy") ||
		!strings.Contains(err.Error(), "it registers by itself") {
		t.Errorf("an agent that has not registered yet is answered %v", err)
	}
	first.refused(t, fault.Conflict, second.address)
	for name, call := range map[string]func() error{
		"grants": func() error {
			_, err := h.nodeGrants(t.Context(), &wire.GrantsRequest{NodeIdentity: first.who, Alloc: h.alloc})
			return err
		},
		"report": func() error {
			_, err := h.nodeInventory(t.Context(), &wire.InventoryReport{NodeIdentity: first.who, Full: true})
			return err
		},
		"update": func() error {
			_, err := h.nodeUpdate(t.Context(), &wire.NodeUpdateRequest{NodeIdentity: first.who})
			return err
		},
		"known": func() error {
			_, err := h.nodeAllocsKnown(t.Context(), &wire.NodeAllocsKnownRequest{NodeIdentity: first.who})
			return err
		},
		"leave": func() error {
			_, err := h.nodeLeave(t.Context(), &wire.NodeLeaveRequest{NodeIdentity: first.who})
			return err
		},
	} {
		if err := call(); !wire.SessionRefused(err) {
			t.Errorf("%s of a superseded agent: %v", name, err)
		}
	}
}

// TestAnotherBootWaitsUntilTheFirstIsSilent: a cloned disk is not obeyed beside the living node.
func TestAnotherBootWaitsUntilTheFirstIsSilent(t *testing.T) {
	h, ears := withAgents(t)
	h.starts("a", "boot", "m").accepted(t)
	clone := h.starts("b", "boot of the clone", "m2", "a")
	clone.refused(t, fault.NotReady, "agent of a", "19s")
	clone.start.InProcess = true // it says so, over a network
	clone.refused(t, fault.NotReady, "agent of a")
	ears.silent = true
	clone.accepted(t)
	if h.session().OtherBoot == nil {
		t.Error("nothing proves that the first boot is dead, and it is not in doubt")
	}
}

// TestARebootOfTheServersOwnNodeIsAcceptedAtOnce: who speaks in the server's process holds its data directory.
func TestARebootOfTheServersOwnNodeIsAcceptedAtOnce(t *testing.T) {
	h, _ := withAgents(t)
	h.starts("a", "boot", "").accepted(t)
	own := h.starts("b", "next boot", "", "a")
	own.start.InProcess = true
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: wire.NewPipe().Listener().Addr()})
	if err := own.registers(ctx); err != nil {
		t.Fatal(err)
	}
	if h.session().OtherBoot != nil {
		t.Errorf("the machine rebooted, and that is in doubt: %+v", h.session())
	}
	remote := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{}})
	own = h.starts("c", "boot 3", "", "b")
	own.start.InProcess = true
	if err := own.registers(remote); !fault.Has(err, fault.NotReady) {
		t.Errorf("a remote agent that calls itself local: %v", err)
	}
}

// TestAnAgentThatLeftWithNothingIsFollowedAtOnce: nothing of its boot is left that could write.
func TestAnAgentThatLeftWithNothingIsFollowedAtOnce(t *testing.T) {
	h, _ := withAgents(t)
	first := h.starts("a", "boot", "m").accepted(t)
	if _, err := h.nodeLeave(t.Context(), &wire.NodeLeaveRequest{NodeIdentity: first.who}); err != nil {
		t.Fatal(err)
	}
	h.starts("b", "next boot", "m2", "a").accepted(t)
	if h.session().OtherBoot != nil {
		t.Error("a boot that left with nothing is in doubt")
	}
}

// TestAnAgentThatLeavesWhatTheServersSawMountedIsNotFollowedAtOnce: what it says when it ends does not count against
// what its node has reported.
func TestAnAgentThatLeavesWhatTheServersSawMountedIsNotFollowedAtOnce(t *testing.T) {
	h, _ := withAgents(t)
	first := h.starts("a", "boot", "m").accepted(t)
	h.c.Must(t, &fsm.InventoryApply{Node: h.node, Full: true, Entries: []volume.InventoryEntry{{
		StagingKey: volume.StagingKey{Plugin: "p", ExternalID: "x"},
		Volume:     h.key.Volume,
		Staging:    volume.Present,
	}}})
	if _, err := h.nodeLeave(t.Context(), &wire.NodeLeaveRequest{NodeIdentity: first.who}); err != nil {
		t.Fatal(err)
	}
	if h.session().Left {
		t.Error("it has left with nothing, and its node has a volume staged")
	}
	h.starts("b", "next boot", "m2", "a").refused(t, fault.NotReady)
}

// TestAnotherMachineBringsNoAttachmentBack: what it shows as staged was attached to the machine before it, under that
// one's name at the provider.
func TestAnotherMachineBringsNoAttachmentBack(t *testing.T) {
	for machine, want := range map[string]bool{"m": true, "m2": false} {
		h, ears := withAgents(t)
		h.starts("a", "boot", "m").accepted(t)
		ears.silent = true
		h.starts("b", "next boot", machine, "a").accepted(t)
		err := h.c.Store.Write(h.c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
			tx.PutPlugin(&plugin.Record{ID: "p", Negotiated: true, NodeNegotiated: true, NeedsAttach: true})
			n := *tx.Node(nil, h.node)
			n.CSI = []*plugin.Instance{{Plugin: "p", Role: plugin.RoleNode, Node: h.node, StorageNode: "at-n"}}
			pluginjobs.Put(tx, &n)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		key := volume.StagingKey{Plugin: "p", ExternalID: "x"}
		report := &fsm.InventoryApply{Node: h.node, Full: true, Entries: []volume.InventoryEntry{
			{StagingKey: key, Volume: h.key.Volume, Staging: volume.Present, Generation: 7},
		}}
		if head := h.c.Store.Snapshot().InventoryHead(nil, h.node); head != nil {
			report.Prev = head.ModifyIndex
		}
		h.c.Must(t, report)
		got := h.c.Store.Snapshot().Attachment(nil, volume.AttachmentKey{StagingKey: key, Node: h.node})
		if (got != nil) != want {
			t.Errorf("a boot on machine %s reports a staging, and the attachment is %+v", machine, got)
		}
	}
}

// Given a claim that ended by proof, by which its volume was detached, when the node shows what is left of it, then the
// attachment does not come back: it would keep the volume from the node that has it now. Of a volume whose claim is
// there, the state lacks the attachment that the node shows.
func TestAMountWhoseClaimEndedByProofBringsNoAttachmentBack(t *testing.T) {
	for _, proven := range []bool{true, false} {
		h := withClaim(t)
		h.write(t, h.plugin(func(*plugin.Record) {}))
		h.write(t, func(tx *state.Tx) {
			n := *tx.Node(nil, h.node)
			n.CSI = []*plugin.Instance{{Plugin: "p", Role: plugin.RoleNode, Node: h.node, StorageNode: "at-n"}}
			pluginjobs.Put(tx, &n)
		})
		if proven {
			h.c.Must(t, &fsm.ClaimProof{Claim: h.key, Epoch: h.epoch, Proof: volume.ProofFenced, Reason: "cut off"})
		}
		e := h.mounted()
		e.Generation = 7
		h.tells(t, e)
		got := h.c.Store.Snapshot().Attachment(nil, volume.AttachmentKey{StagingKey: e.StagingKey, Node: h.node})
		if (got != nil) == proven {
			t.Errorf("its claim ended by proof: %v, and the attachment is %+v", proven, got)
		}
	}
}

// TestAnOlderBerthsNodeWorksUntilANewerAgentBegins: nothing changes by the upgrade itself.
func TestAnOlderBerthsNodeWorksUntilANewerAgentBegins(t *testing.T) {
	h, _ := withAgents(t)
	old := &wire.NodeRegisterRequest{NodeIdentity: h.identity(), Info: &node.Node{ID: h.node, Name: "n"}}
	if _, err := h.nodeRegister(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	h.tellsNothing(t, h.c.Store.Snapshot().Point(nil))
	if h.session() != nil {
		t.Errorf("an agent without epochs began %+v", h.session())
	}
	h.starts("a", "boot", "m").accepted(t)
	if now := h.session(); now.OtherBoot != nil || now.Doubt(1) != "" {
		t.Errorf("what the older agent left is in doubt: %+v", now)
	}
	if _, err := h.nodeRegister(t.Context(), old); !wire.SessionRefused(err) {
		t.Errorf("an older agent beside a newer one: %v", err)
	}
}

// TestServersThatWereRolledBackBeginTheChainAnew: they cannot know how it went on.
func TestServersThatWereRolledBackBeginTheChainAnew(t *testing.T) {
	h, _ := withAgents(t)
	h.starts("a", "boot", "m").accepted(t)
	later := h.starts("c", "boot", "m", "b")
	later.refused(t, fault.Conflict)
	later.start.At = lineage.Point{Incarnation: later.start.At.Incarnation, Mark: "of a lost leadership", Index: 99}
	later.accepted(t)
}

// TestASupersededAgentThatGoesOnMakesTheNodeDuplicated: and no claim of it ends by its word until a person has chosen.
func TestASupersededAgentThatGoesOnMakesTheNodeDuplicated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, ears := withAgents(t)
		h.cfg.Controllers = controllers.New()
		first := h.starts("a", "boot", "m").accepted(t)
		h.starts("b", "boot", "m", "a").accepted(t)
		if err := first.beats(t); !wire.SessionRefused(err) || h.session().Duplicated != nil {
			t.Errorf("a call that was on its way: %v, %+v", err, h.session().Duplicated)
		}
		time.Sleep(inFlight)
		h.starts("copy", "boot", "m", "a").refused(t, fault.Conflict) // it never acted: nothing is in doubt
		if err := first.beats(t); !wire.SessionRefused(err) || h.session().Duplicated == nil {
			t.Fatalf("the agent goes on: %v, %+v", err, h.session())
		}
		h.confirm(t, false, "two agents")
		if h.session().Duplicated != nil {
			t.Error("a person has chosen")
		}
		_, err := h.rebootConfirm(t.Context(), &wire.RebootConfirmRequest{Node: h.node, Reason: "again"})
		if !fault.Has(err, fault.Conflict) {
			t.Errorf("there is nothing to confirm: %v", err)
		}
		ears.silent = true
		h.confirm(t, true, "")
		h.starts("replacement", "boot 9", "m9").accepted(t)
		if now := h.session(); now.OtherBoot != nil || len(now.Confirmed) != 2 || now.Confirmed[0].By != "me" {
			t.Errorf("after a person's word: %+v", now)
		}
	})
}

func (h *claimed) confirm(t *testing.T, open bool, resolved string) {
	t.Helper()
	reply, err := h.rebootConfirm(t.Context(), &wire.RebootConfirmRequest{Node: h.node, Reason: "it burned", By: "me"})
	if err != nil || reply.Open != open || !strings.Contains(reply.Resolved, resolved) {
		t.Fatalf("confirmed: %+v, %v", reply, err)
	}
}

// TestClaimsOfABootThatMayLiveDoNotEndByTheWordOfAnother: a clone that has no mounts knows nothing of the first's.
func TestClaimsOfABootThatMayLiveDoNotEndByTheWordOfAnother(t *testing.T) {
	for machine, doubted := range map[string]bool{"m": false, "m2": true, "": true} {
		h, ears := withAgents(t)
		first := h.starts("a", "boot", "m").accepted(t)
		ask := func(a *agent) (*wire.GrantsReply, error) {
			return h.nodeGrants(t.Context(), &wire.GrantsRequest{NodeIdentity: a.who, Alloc: h.alloc})
		}
		if r, err := ask(first); err != nil || !r.Ready || r.Session != "a" {
			t.Fatalf("the first agent is granted %+v, %v", r, err)
		}
		ears.silent = true
		other := h.starts("b", "another boot", machine, "a").accepted(t)
		r, err := ask(other)
		if err != nil || r.Ready == doubted {
			t.Fatalf("machine %q is granted %+v, %v", machine, r, err)
		}
		h.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{h.node}, Status: node.StatusDown}) // its alloc is lost
		reply, err := h.nodeInventory(t.Context(), &wire.InventoryReport{NodeIdentity: other.who, Full: true,
			At: h.c.Store.Snapshot().Point(nil)})
		if err != nil || reply.Stale {
			t.Fatal(reply, err)
		}
		cl := h.c.Store.Snapshot().Claim(nil, h.key)
		if (cl != nil) != doubted || doubted && cl.State != volume.Releasing {
			t.Fatalf("machine %q reports nothing: the claim is %+v", machine, cl)
		}
		if !doubted {
			continue
		}
		ears.silent = false // the agent that reported beats
		h.confirm(t, false, "not proven dead")
		if cl := h.c.Store.Snapshot().Claim(nil, h.key); cl != nil {
			t.Errorf("a person has spoken: the claim is %+v", cl)
		}
	}
}

// TestAWordThatOpensTheChainEndsNoClaimByAnEarlierReport: the word is that the accepted agent runs no more. It was a
// clone, which had nothing; the original, whose tasks live, comes next, and says what it holds.
func TestAWordThatOpensTheChainEndsNoClaimByAnEarlierReport(t *testing.T) {
	h, ears := withAgents(t)
	h.starts("a", "boot", "m").accepted(t)
	h.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{h.node}, Status: node.StatusDown}) // its alloc is lost
	ears.silent = true
	h.starts("clone", "another boot", "m2", "a").accepted(t).reports(t)
	h.starts("b", "boot", "m", "a").refused(t, fault.Conflict, "reboot-confirm")
	h.confirm(t, true, "not proven dead")
	if cl := h.c.Store.Snapshot().Claim(nil, h.key); cl == nil {
		t.Fatal("the clone that is over has ended a claim of the original")
	}
	h.starts("b", "boot", "m", "a").accepted(t).reports(t)
	if cl := h.c.Store.Snapshot().Claim(nil, h.key); cl != nil {
		t.Errorf("the original holds nothing: the claim is %+v", cl)
	}
}

// TestASessionsSilenceSaysNothingBeforeItsOwnReport: and a report of an older one that was on its way is not taken
// over.
func TestASessionsSilenceSaysNothingBeforeItsOwnReport(t *testing.T) {
	h, _ := withAgents(t)
	h.starts("a", "boot", "m").accepted(t).reports(t)
	if head := h.c.Store.Snapshot().InventoryHead(nil, h.node); head == nil || head.FullIndex == 0 {
		t.Fatalf("reported: %+v", head)
	}
	late := h.c.Store.Snapshot().InventoryHead(nil, h.node).ModifyIndex
	h.starts("b", "boot", "m", "a").accepted(t)
	if head := h.c.Store.Snapshot().InventoryHead(nil, h.node); head.FullIndex != 0 {
		t.Errorf("the new session has reported nothing: %+v", head)
	}
	done := h.c.Must(t, &fsm.InventoryApply{Node: h.node, Full: true, Prev: late}).(*wire.InventoryReply)
	if !done.Stale {
		t.Errorf("a report that was on its way when the next session began: %+v", done)
	}
}

func (a *agent) reports(t *testing.T) {
	t.Helper()
	s := a.h.c.Store.Snapshot()
	r := &wire.InventoryReport{NodeIdentity: a.who, Full: true, At: s.Point(nil)}
	if head := s.InventoryHead(nil, a.who.Node); head != nil {
		r.Prev = head.ModifyIndex
	}
	if r, err := a.h.nodeInventory(t.Context(), r); err != nil || r.Stale {
		t.Fatal(r, err)
	}
}

// TestTheStreamsOfASupersededSessionEnd: nothing more is pushed to it.
func TestTheStreamsOfASupersededSessionEnd(t *testing.T) {
	h, _ := withAgents(t)
	conn := served(t, h.Endpoints)
	first := h.starts("a", "boot", "m").accepted(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := wire.NodeAllocs.Open(ctx, conn, &wire.NodeAllocsRequest{NodeIdentity: first.who})
	if err != nil {
		t.Fatal(err)
	}
	if set, err := stream.Recv(); err != nil || !set.Full {
		t.Fatal(set, err)
	}
	calls, err := wire.NodeControllerCalls.Open(t.Context(), conn,
		&wire.ControllerCallsRequest{NodeIdentity: first.who})
	if err != nil {
		t.Fatal(err)
	}
	connected := func(want bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; {
			changed := h.cfg.Controllers.Changed()
			if h.cfg.Controllers.Connected(h.node) == want {
				return
			}
			select {
			case <-changed:
			case <-time.After(time.Until(deadline)):
				t.Fatalf("controller calls are handed over: %t", !want)
			}
		}
	}
	connected(true)
	h.starts("b", "boot", "m", "a").accepted(t)
	connected(false)
	for err == nil {
		_, err = stream.Recv()
	}
	if !wire.SessionRefused(err) {
		t.Errorf("the stream of allocs ended with %v", err)
	}
	if err := calls.Send(&wire.ControllerResult{Kind: wire.CallAttach}); err != nil {
		t.Fatal(err)
	}
	if _, err := calls.Recv(); !wire.SessionRefused(err) {
		t.Errorf("the stream of controller calls ended with %v", err)
	}
}
