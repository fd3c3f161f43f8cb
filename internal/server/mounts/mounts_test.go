package mounts_test

import (
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	model "berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/purge"
	"berth/internal/server/fsm/recovery"
	"berth/internal/server/fsm/sessions"
	"berth/internal/server/holders"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/server/views"
	"berth/internal/testkit/localstate"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/wire"
)

// world is a cluster with a volume that has to be attached, an owner of it and a captured node that never had it.
type world struct {
	*testing.T
	*localstate.Cluster
	key      volume.StagingKey
	vol      volume.ID
	captured ids.Node
}

func newWorld(t *testing.T) *world {
	w := &world{
		T:       t,
		Cluster: localstate.New(t),
		key:     volume.StagingKey{Plugin: "p", ExternalID: "x"},
		vol:     volume.ID{Namespace: ids.DefaultNamespace, ID: "v"},
	}
	w.Must(t, &fsm.LineageMark{Mark: "one"})
	w.captured = w.joins(false)
	w.write(func(tx *state.Tx) {
		tx.PutPlugin(&plugin.Record{ID: "p", Negotiated: true, NodeNegotiated: true, NeedsAttach: true})
		n := *tx.Node(nil, w.captured)
		n.CSI = []*plugin.Instance{{Plugin: "p", Role: plugin.RoleNode, Node: n.ID, StorageNode: "at-n"}}
		pluginjobs.Put(tx, &n)
	})
	w.reports() // it is no newcomer
	return w
}

// registers makes the volume known.
func (w *world) registers(change func(*volume.Volume)) {
	v := &volume.Volume{ID: w.vol, UID: "u", Spec: volume.Spec{Plugin: "p",
		Capabilities: []volume.Capability{{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}},
	}, Status: volume.Status{
		Phase:      volume.PhaseReady,
		ExternalID: w.key.ExternalID,
		Capacity:   10,

		NodeExpandPending: true,
	}}
	change(v)
	w.write(func(tx *state.Tx) { tx.PutVolume(v) })
}

func (w *world) snap() *state.Snap { return w.Store.Snapshot() }

// write changes the state at an index of its own.
func (w *world) write(fn func(tx *state.Tx)) {
	w.Helper()
	w.Must(w.T, &fsm.LineageMark{Mark: ids.New()})
	if err := w.Store.Write(w.snap().Stamp(), func(tx *state.Tx) error { fn(tx); return nil }); err != nil {
		w.Fatal(err)
	}
}

func (w *world) joins(inProcess bool) ids.Node {
	w.Helper()
	id := ids.Node(ids.New())
	w.starts(id, "a-"+string(id), inProcess, "")
	return id
}

// starts is an agent start that is let in.
func (w *world) starts(id ids.Node, epoch string, inProcess bool, previous ...string) {
	w.Helper()
	w.Must(w.T, &sessions.Register{
		Node:   fsm.NodeRegister{Node: &node.Node{ID: id, Name: "n", SecretHash: "h"}, Seed: ids.New()},
		Silent: true,
		Start: wire.AgentStart{At: w.snap().Point(nil), Registration: node.Registration{
			Previous:  previous,
			Next:      epoch,
			Machine:   node.Machine{Boot: "b", Product: "m", ID: "m"},
			InProcess: inProcess,
		}},
	})
}

// reports is a whole report of the captured node.
func (w *world) reports(entries ...volume.InventoryEntry) {
	w.Helper()
	w.says(&fsm.InventoryApply{Entries: entries})
}

func (w *world) says(cmd *fsm.InventoryApply) {
	w.Helper()
	cmd.Node, cmd.Full = w.captured, true
	cmd.AllocIndex = w.snap().Index()
	cmd.Incarnation = w.snap().Meta(nil).Incarnation
	if h := w.snap().InventoryHead(nil, w.captured); h != nil {
		cmd.Prev = h.ModifyIndex
	}
	if reply := w.Must(w.T, cmd).(*wire.InventoryReply); reply.Stale {
		w.Fatal("the report is refused as late")
	}
}

func (w *world) mounted() volume.InventoryEntry {
	return volume.InventoryEntry{
		StagingKey: w.key,
		Volume:     w.vol,
		Staging:    volume.Present,
		Generation: 3,
		Publications: []volume.InventoryPublication{
			{Alloc: "made-up", Epoch: volume.Epoch{Index: 1}, Presence: volume.Present, Wanted: true},
		},
	}
}

// holdsUp says what the node's word stands in the way of.
func (w *world) holdsUp() string {
	s := w.snap()
	v := s.Volume(nil, w.vol)
	var out []string
	if why := suspension.Claims(s, nil, v); why != nil {
		out = append(out, "claims: "+why.Text)
	}
	if why := suspension.Destruction(s, nil, w.key); why != nil {
		out = append(out, "destruction: "+why.Text)
	}
	if err := holders.InUse(s, nil, "delete", v); err != nil {
		out = append(out, "deletion: "+err.Error())
	}
	if holders.Left(s, w.key) {
		out = append(out, "being forgotten")
	}
	for a := range s.AttachmentsOf(nil, w.key) {
		out = append(out, "an attachment to "+string(a.Node))
	}
	c := &volume.Claim{
		Volume:     w.vol,
		Plugin:     "p",
		ExternalID: "x",
		Alloc:      "a",
		Node:       "other",
		AccessMode: volume.SingleNodeWriter,
	}
	if err := holders.Against(s, c); err != nil {
		out = append(out, "adoption: "+err.Error())
	}
	return strings.Join(out, "; ")
}

// TestACapturedNodeHoldsUpNoVolumeOfOthersByItsWord: neither by a mount that it was never given, nor by one without a
// name; what it says is shown, with the way out, and goes with the node.
func TestACapturedNodeHoldsUpNoVolumeOfOthersByItsWord(t *testing.T) {
	unknown := volume.UnknownMount{Dir: ids.Segment("p"), Device: "8:1", FSType: "ext4"}
	for what, lie := range map[string]func(w *world) *fsm.InventoryApply{
		"a mount": func(w *world) *fsm.InventoryApply {
			return &fsm.InventoryApply{Entries: []volume.InventoryEntry{w.mounted()}}
		},
		"a staging": func(w *world) *fsm.InventoryApply {
			e := w.mounted()
			e.Publications = nil
			return &fsm.InventoryApply{Entries: []volume.InventoryEntry{e}}
		},
		"a mount without a name": func(w *world) *fsm.InventoryApply {
			u := unknown
			u.Path = "/data/csi/" + u.Dir + "/" + volume.StagingTail(w.key.ExternalID)
			return &fsm.InventoryApply{Unknown: []volume.UnknownMount{u}}
		},
	} {
		for kind, change := range map[string]func(*volume.Volume){
			"attached":  func(*volume.Volume) {},
			"elsewhere": func(v *volume.Volume) { v.Status.HomeNode = "home" },
		} {
			t.Run(what+", "+kind, func(t *testing.T) {
				w := newWorld(t)
				if kind == "elsewhere" {
					w.write(func(tx *state.Tx) { tx.PutPlugin(&plugin.Record{ID: "p", Negotiated: true}) })
				}
				w.registers(change)
				w.reports()
				w.says(lie(w))
				if got := w.holdsUp(); got != "" {
					t.Errorf("it holds up %s", got)
				}
				view := views.Of(w.snap(), nil).Volume(w.snap().Volume(nil, w.vol))
				if text := strings.Join(view.State, "\n"); !strings.Contains(text, "node "+ids.Short(w.captured)+
					" says that") || !strings.Contains(text, "berth system gc") {
					t.Errorf("what it says is not shown: %s", text)
				}
				w.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{w.captured}, Status: node.StatusDown})
				if _, _, err := w.Propose(t.Context(), &purge.NodePurge{Node: w.captured}); err != nil {
					t.Errorf("the way out does not go: %v", err)
				}
			})
		}
	}
}

// TestAnHonestNodeIsBelieved: wherever the state may lack what led to a mount, the node's word stands in the way as if
// nobody could lie.
func TestAnHonestNodeIsBelieved(t *testing.T) {
	same := func(*volume.Volume) {}
	for what, given := range map[string]func(w *world){
		"the volume was claimed there, once": func(w *world) {
			w.registers(same)
			w.write(func(tx *state.Tx) {
				tx.PutAlloc(&alloc.Alloc{ID: "a", Namespace: "default", Job: "j", Node: w.captured})
				tx.PutClaim(&volume.Claim{
					Volume:     w.vol,
					Plugin:     "p",
					ExternalID: "x",
					Alloc:      "a",
					Node:       w.captured,
				})
			})
			w.write(func(tx *state.Tx) { tx.DeleteClaim(volume.ClaimKey{Volume: w.vol, Alloc: "a"}) })
		},
		"it reported the volume before the state knew it": func(w *world) {
			w.reports(w.mounted())
			w.registers(same)
		},
		"a node shows another history": func(w *world) {
			w.registers(same)
			w.Must(w.T, &recovery.Evidence{Node: w.captured, Relation: lineage.Foreign,
				Seen: lineage.Point{Incarnation: "another", Mark: "m", Index: 7}})
		},
		"a restore waits for it": func(w *world) {
			w.registers(same)
			w.write(func(tx *state.Tx) {
				tx.PutRecovery(&model.Record{Incarnation: tx.Meta(nil).Incarnation, Whole: true,
					Nodes: []model.Node{{ID: w.captured}}})
			})
		},
		"a restore that did not know it is over": func(w *world) {
			w.registers(same)
			w.write(func(tx *state.Tx) {
				tx.PutRecovery(&model.Record{Ended: time.Now(), Finished: &model.Word{}})
			})
		},
		"its store was lost, and a person let it in": func(w *world) {
			w.registers(same)
			w.Must(w.T, &sessions.Confirm{Node: w.captured, Open: true})
			w.starts(w.captured, "b", false)
		},
		"its data lie beside a server's": func(w *world) {
			w.registers(same)
			w.starts(w.captured, "b", true, "a-"+string(w.captured))
		},
		"the volume is older than the memory": func(w *world) {
			w.registers(same)
			w.write(func(tx *state.Tx) {
				m := *tx.Meta(nil)
				m.NodesSince = tx.Volume(nil, w.vol).CreateIndex
				tx.PutMeta(&m)
			})
		},
		"nothing is needed to mount it": func(w *world) {
			w.registers(same)
			w.write(func(tx *state.Tx) { tx.PutPlugin(&plugin.Record{ID: "p", Negotiated: true}) })
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			given(w)
			w.reports(w.mounted())
			if got := w.holdsUp(); !strings.Contains(got, "claims: ") || !strings.Contains(got, "deletion: ") {
				t.Errorf("it holds up only: %q", got)
			}
		})
	}
}

// TestWhatWasBelievedInARecoveryIsBelievedAfterIt: its end does not turn what nodes reported into lies.
func TestWhatWasBelievedInARecoveryIsBelievedAfterIt(t *testing.T) {
	w := newWorld(t)
	w.registers(func(*volume.Volume) {})
	w.write(func(tx *state.Tx) {
		tx.PutRecovery(&model.Record{Incarnation: tx.Meta(nil).Incarnation, Whole: true,
			Nodes: []model.Node{{ID: w.captured}}})
	})
	w.reports(w.mounted())
	if r := w.snap().Recovery(nil); r.Ended.IsZero() {
		t.Fatalf("the recovery goes on: %+v", r)
	}
	w.write(func(tx *state.Tx) {
		tx.DeleteAttachment(volume.AttachmentKey{StagingKey: w.key, Node: w.captured})
	})
	if got := w.holdsUp(); !strings.Contains(got, "claims: ") {
		t.Errorf("it holds up only: %q", got)
	}
}

// TestWhatWasNotBelievedIsWhenTheStateIsOlder: a recovery that ended without the node, which was said to be dead, makes
// its earlier word count.
func TestWhatWasNotBelievedIsWhenTheStateIsOlder(t *testing.T) {
	w := newWorld(t)
	w.registers(func(*volume.Volume) {})
	w.reports(w.mounted())
	if got := w.holdsUp(); got != "" {
		t.Fatalf("it holds up %s", got)
	}
	w.write(func(tx *state.Tx) {
		tx.PutRecovery(&model.Record{
			Whole: true,
			Ended: time.Now(),
			Nodes: []model.Node{{ID: w.captured, Dead: &model.Word{}}},
		})
	})
	if got := w.holdsUp(); !strings.Contains(got, "claims: ") {
		t.Errorf("it holds up only: %q", got)
	}
}

// TestTheMemoryOfNodesGoesWithTheVolume: and not before, where something of it is left.
func TestTheMemoryOfNodesGoesWithTheVolume(t *testing.T) {
	w := newWorld(t)
	w.registers(func(*volume.Volume) {})
	w.write(func(tx *state.Tx) { tx.RememberNode(w.key, "once") })
	known := func() bool { return w.snap().VolumeNode(nil, w.key, "once") != nil }
	w.write(func(tx *state.Tx) {
		tx.PutTombstone(&volume.Tombstone{StagingKey: w.key})
		tx.DeleteVolume(w.vol)
	})
	if !known() {
		t.Error("it is forgotten with a volume of which something is left")
	}
	w.write(func(tx *state.Tx) { tx.Bury(w.key) })
	if known() {
		t.Error("it outlives the volume")
	}
}

// TestANewNodeIsNotWaitedFor: one that became known under this leadership has done nothing before it, and by not
// reporting it freezes no deletion; unless it may be one that the state has lost.
func TestANewNodeIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.registers(func(*volume.Volume) {})
	w.reports()
	w.joins(false)
	if n := holders.Unreported(w.snap(), nil); n != nil {
		t.Errorf("it is waited for: %+v", n)
	}
	beside := w.joins(true)
	if n := holders.Unreported(w.snap(), nil); n == nil || n.ID != beside {
		t.Errorf("one whose data lie beside a server's is not waited for: %+v", n)
	}
	w.write(func(*state.Tx) {}) // another leadership
	if n := holders.Unreported(w.snap(), nil); n == nil {
		t.Error("nodes of an earlier leadership are not waited for")
	}
}
