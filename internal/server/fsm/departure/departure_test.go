package departure_test

import (
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/recovery"
	"berth/internal/model/trust"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/collection"
	"berth/internal/server/fsm/departure"
	"berth/internal/server/fsm/sessions"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// rig is a state with a node that has joined.
type rig struct {
	*localstate.Cluster
	t    *testing.T
	node ids.Node
}

func joined(t *testing.T) *rig {
	r := &rig{Cluster: localstate.New(t), t: t, node: ids.Node(ids.New())}
	r.write(func(tx *state.Tx) {
		tx.PutMember(&trust.Member{Role: trust.Node, ID: string(r.node), Key: "k"})
	})
	if err := r.starts("one", "h", "boot"); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) write(fn func(tx *state.Tx)) {
	r.t.Helper()
	err := r.Store.Write(r.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		fn(tx)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// starts registers an agent start with a secret, on a boot, that follows earlier ones.
func (r *rig) starts(epoch, secret, boot string, previous ...string) error {
	_, _, err := r.Propose(r.t.Context(), &sessions.Register{
		Node: fsm.NodeRegister{Node: &node.Node{ID: r.node, Name: "ash", SecretHash: secret}, Seed: ids.New()},
		Start: wire.AgentStart{At: r.Store.Snapshot().Point(nil), Registration: node.Registration{
			Previous: previous,
			Next:     epoch,
			Machine:  node.Machine{Boot: boot, Product: "p", ID: "m"},
		}},
	})
	return err
}

func (r *rig) down() {
	r.t.Helper()
	r.Must(r.t, &fsm.NodeStatus{Nodes: []ids.Node{r.node}, Status: node.StatusDown, Seed: ids.New()})
}

func (r *rig) purge() error {
	_, _, err := r.Propose(r.t.Context(), &departure.Purge{Node: r.node, Seed: ids.New()})
	return err
}

// refused holds that the node is not purged, and that the refusal names what is in the way and the way out.
func (r *rig) refused(what string, says ...string) {
	r.t.Helper()
	err := r.purge()
	if err == nil || r.Store.Snapshot().Node(nil, r.node) == nil {
		r.t.Fatalf("%s: it is purged: %v", what, err)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			r.t.Errorf("%s: %v does not say %q", what, err, text)
		}
	}
}

// Given a node that is purged, or collected, when its agent comes back with its secret and follows its last start, then
// it is the node again; with another secret, or as a copy that follows nothing, it is not. The system jobs are asked.
func TestAForgottenNodeComesBackAsItself(t *testing.T) {
	for _, how := range []string{"purged", "collected"} {
		r := joined(t)
		r.Must(t, &fsm.JobRegister{Seed: "j", Job: &job.Job{
			Namespace: ids.DefaultNamespace,
			ID:        "everywhere",
			Type:      job.TypeSystem,
		}})
		r.refused("ready", "it is ready, not down", "stop its agent")
		r.down()
		if how == "collected" {
			r.Must(t, &collection.Collect{Nodes: []ids.Node{r.node}})
		} else {
			done, ok := r.Must(t, &departure.Purge{Node: r.node, Seed: ids.New()}).(*fsm.NodeChanged)
			if !ok || len(done.Evals) != 1 {
				t.Fatalf("evaluations %v", done)
			}
			e := r.Store.Snapshot().Eval(nil, done.Evals[0])
			if e == nil || e.Job != "everywhere" || e.Node != r.node {
				t.Errorf("%+v", e)
			}
		}
		s := r.Store.Snapshot()
		d := s.Departure(r.node)
		if s.Node(nil, r.node) != nil || d == nil || d.SecretHash != "h" || d.Name != "ash" ||
			s.Member(nil, trust.Node, string(r.node)) == nil || s.Session(nil, r.node).Epoch != "one" {
			t.Fatalf("%s: %+v is left", how, d)
		}
		if err := r.purge(); !fault.Has(err, fault.NotFound) {
			t.Errorf("%s: once more: %v", how, err)
		}
		if err := r.starts("two", "another", "boot", "one"); !fault.Has(err, fault.Denied) {
			t.Errorf("%s: with another secret: %v", how, err)
		}
		if err := r.starts("two", "h", "boot", "zero"); !wire.SessionRefused(err) {
			t.Errorf("%s: a copy: %v", how, err)
		}
		for _, epoch := range []string{"one", "two"} { // it goes on, or was started again
			if err := r.starts(epoch, "h", "boot", "one"); err != nil {
				t.Fatalf("%s: its own agent: %v", how, err)
			}
			s = r.Store.Snapshot()
			if s.Node(nil, r.node) == nil || s.Departure(r.node) != nil || s.Session(nil, r.node).Epoch != epoch {
				t.Errorf("%s: it is back as %+v", how, s.Session(nil, r.node))
			}
		}
	}
}

// Given servers of which one does not know yet what is kept of nodes, when a node is collected, then nothing is.
func TestServersOfAnOlderVersionStayEqual(t *testing.T) {
	r := joined(t)
	r.down()
	r.write(func(tx *state.Tx) {
		m := *tx.Meta(nil)
		m.Schema = departure.Schema - 1
		tx.PutMeta(&m)
		tx.PutVolume(&volume.Volume{
			ID:     volume.ID{Namespace: ids.DefaultNamespace, ID: "v"},
			UID:    "u",
			Status: volume.Status{HomeNode: r.node},
		})
	})
	r.Must(t, &collection.Collect{Nodes: []ids.Node{r.node}})
	for range r.Store.Snapshot().AllSessions() {
		t.Error("a session is kept")
	}
}

// Given a node that is down, when a person wants it forgotten, then what is bound to it is named, with the way out, and
// garbage collection leaves it for the same reasons; when the machine is replaced, its boot holds nothing up.
func TestWhatIsBoundToANodeKeepsIt(t *testing.T) {
	k := volume.StagingKey{Plugin: "p", ExternalID: "x"}
	id := volume.ID{Namespace: ids.DefaultNamespace, ID: "vol"}
	a := &alloc.Alloc{
		ID:           ids.Alloc(ids.New()),
		Namespace:    ids.DefaultNamespace,
		Job:          "db",
		ClientStatus: alloc.ClientLost,
	}
	for _, c := range []struct {
		what  string
		make  func(*rig, *state.Tx)
		binds bool // garbage collection waits for it, too
		says  []string
	}{
		{"an alloc that is lost", func(r *rig, tx *state.Tx) {
			a.Node = r.node
			tx.PutAlloc(a)
		}, false, []string{"1 allocation not known to have ended", ids.Short(a.ID), "berth node replace"}},
		{"a claim", func(r *rig, tx *state.Tx) {
			tx.PutClaim(&volume.Claim{
				Volume:     id,
				Alloc:      a.ID,
				Node:       r.node,
				Plugin:     k.Plugin,
				ExternalID: k.ExternalID,
			})
		}, true, []string{"1 claim (default/vol)", "berth node replace"}},
		{"an attachment", func(r *rig, tx *state.Tx) {
			tx.PutAttachment(&volume.Attachment{Node: r.node, Plugin: k.Plugin, ExternalID: k.ExternalID})
		}, true, []string{"1 attachment (x)", "berth volume status"}},
		{"a mount", func(r *rig, tx *state.Tx) {
			tx.PutInventoryEntry(r.node, volume.InventoryEntry{StagingKey: k, Volume: id, Staging: volume.Uncertain})
		}, true, []string{"1 mount that it reported (default/vol)"}},
		{"a volume of its own", func(r *rig, tx *state.Tx) {
			tx.PutVolume(&volume.Volume{ID: id, UID: "u", Status: volume.Status{HomeNode: r.node}})
		}, true, []string{"1 volume that lives on it alone (default/vol)", "berth volume deregister -force"}},
		{"a snapshot of its own", func(r *rig, tx *state.Tx) {
			tx.PutVolumeSnapshot(&volume.Snapshot{Plugin: "p", ExternalID: "s", Name: "nightly", HomeNode: r.node})
		}, true, []string{"snapshot nightly"}},
		{"orphans", func(r *rig, tx *state.Tx) {
			n := *tx.Node(nil, r.node)
			for range 5 {
				n.Orphans = append(n.Orphans, node.Orphan{Alloc: ids.Alloc(ids.New())})
			}
			tx.PutNode(&n)
		}, false, []string{"5 orphans (", "…)", "berth node orphans list"}},
		{"a mount that nobody knows", func(r *rig, tx *state.Tx) {
			tx.PutInventoryHead(&state.InventoryHead{Node: r.node, Unknown: []volume.UnknownMount{{Path: "/a/b"}}})
		}, false, []string{"1 mount that nobody knows (/a/b)", "berth node status"}},
		{"a doubt about its machine", func(r *rig, tx *state.Tx) {
			s := *tx.Session(nil, r.node)
			s.Duplicated = &node.Duplicate{Epoch: "other"}
			tx.PutSession(&s)
		}, false, []string{"two agents act as node", "berth node reboot-confirm"}},
		{"a recovery that awaits it", func(r *rig, tx *state.Tx) {
			tx.PutRecovery(&recovery.Record{Whole: true, Nodes: []recovery.Node{{ID: r.node}}})
		}, false, []string{"the state was restored", "berth operator recovery dismiss"}},
		{"evidence", func(r *rig, tx *state.Tx) {
			tx.PutEvidence(&recovery.Evidence{Node: r.node, At: tx.Point(nil)})
		}, false, []string{"speaks against the servers' state", "berth operator recovery dismiss"}},
	} {
		r := joined(t)
		r.down()
		r.write(func(tx *state.Tx) { c.make(r, tx) })
		r.refused(c.what, append(c.says, "in the way: ")...)
		r.Must(t, &collection.Collect{Nodes: []ids.Node{r.node}})
		if kept := r.Store.Snapshot().Node(nil, r.node) != nil; kept != c.binds {
			t.Errorf("%s: garbage collection leaves the node: %t", c.what, kept)
		}
	}
}

// Given a node whose machine a person said to be dead, then its lost allocs and its orphans are over; so is a recovery
// that awaits it when he said so there.
func TestAReplacedNodeCanBePurged(t *testing.T) {
	r := joined(t)
	r.down()
	r.write(func(tx *state.Tx) {
		n := *tx.Node(nil, r.node)
		n.ReplacedBy, n.Orphans = "other", []node.Orphan{{Alloc: "o"}}
		tx.PutNode(&n)
		tx.PutAlloc(&alloc.Alloc{ID: "a", Node: r.node, Job: "db", ClientStatus: alloc.ClientLost})
		tx.PutRecovery(&recovery.Record{
			Whole: true,
			Nodes: []recovery.Node{{ID: r.node, Dead: &recovery.Word{Reason: "burnt"}}, {ID: "zzz"}},
		})
	})
	if err := r.purge(); err != nil {
		t.Fatal(err)
	}
	if !r.Store.Snapshot().Recovery(nil).Ended.IsZero() {
		t.Error("the recovery awaits nobody any more")
	}
}

// Given a node that was forgotten, when what is kept of it is over, then its key lets it in no more without a token; a
// denial stays, and what is back is left alone.
func TestWhatIsKeptOfANodeEnds(t *testing.T) {
	for _, denied := range []bool{false, true} {
		r := joined(t)
		r.down()
		if err := r.purge(); err != nil {
			t.Fatal(err)
		}
		if denied {
			r.write(func(tx *state.Tx) {
				m := *tx.Member(nil, trust.Node, string(r.node))
				m.Denied = &trust.Denial{Since: time.Now(), Reason: "stolen"}
				tx.PutMember(&m)
			})
		}
		if n := r.Must(t, &departure.Expire{Nodes: []ids.Node{r.node, "nobody"}}); n != 1 {
			t.Errorf("%v are over", n)
		}
		s := r.Store.Snapshot()
		if s.Departure(r.node) != nil || (s.Member(nil, trust.Node, string(r.node)) != nil) != denied {
			t.Errorf("denied %t: %+v is left", denied, s.Member(nil, trust.Node, string(r.node)))
		}
	}
	r := joined(t)
	if n := r.Must(t, &departure.Expire{Nodes: []ids.Node{r.node}}); n != 0 ||
		r.Store.Snapshot().Session(nil, r.node) == nil {
		t.Error("a node that is there is taken for one that has left")
	}
}

// Given an agent that says good-bye, when an alloc was placed on its node a moment ago, then the node stays as it is:
// it is lost when it is silent, and the alloc with it. When nothing is there, then it is down.
func TestAGoodbyeLeavesNobodyBehind(t *testing.T) {
	for _, placed := range []bool{true, false} {
		r := joined(t)
		r.write(func(tx *state.Tx) {
			n := *tx.Node(nil, r.node)
			n.Status = node.StatusReady
			tx.PutNode(&n)
			if placed {
				tx.PutAlloc(&alloc.Alloc{
					ID:            "a",
					Namespace:     ids.DefaultNamespace,
					Node:          r.node,
					DesiredStatus: alloc.DesiredRun,
					ClientStatus:  alloc.ClientPending,
				})
			}
		})
		down, _, err := r.Propose(t.Context(), &departure.Goodbye{Node: r.node, Session: "one"})
		if err != nil {
			t.Fatal(err)
		}
		want := node.StatusDown
		if placed {
			want = node.StatusReady
		}
		if is := r.Store.Snapshot().Node(nil, r.node).Status; is != want || down != !placed {
			t.Errorf("with an alloc %v: it is %s, and down by it: %v", placed, is, down)
		}
	}
}
