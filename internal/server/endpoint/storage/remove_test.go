package storage

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/holders"
	"berth/internal/server/state"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// rig are endpoints over a state with a volume, and with a node that has reported that it holds nothing.
type rig struct {
	*Endpoints
	c    *localstate.Cluster
	node ids.Node
	vol  volume.ID
}

func newRig(t *testing.T) *rig {
	t.Helper()
	c := localstate.New(t)
	e := New(Config{
		Base:     serving.Base{Store: c.Store, Cluster: leader.Alone{}},
		Proposer: c,
		Log:      slog.New(slog.DiscardHandler),
	})
	r := &rig{Endpoints: e, c: c, vol: volume.ID{Namespace: ids.DefaultNamespace, ID: "v"}}
	c.Must(t, &fsm.LineageMark{Mark: "one"})
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.PutVolume(&volume.Volume{ID: r.vol, UID: "u", Spec: volume.Spec{Plugin: "p"},
			Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x"}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.node = r.joins(t)
	r.reports(t, r.node)
	return r
}

func (r *rig) joins(t *testing.T) ids.Node {
	t.Helper()
	id := ids.Node(ids.New())
	r.c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: id, Name: "n", SecretHash: "h"}})
	return id
}

// reports sends the whole inventory of a node.
func (r *rig) reports(t *testing.T, id ids.Node, entries ...volume.InventoryEntry) {
	t.Helper()
	s := r.c.Store.Snapshot()
	cmd := &fsm.InventoryApply{Node: id, Full: true, AllocIndex: s.Index(), Entries: entries}
	if h := s.InventoryHead(nil, id); h != nil {
		cmd.Prev = h.ModifyIndex
	}
	if reply := r.c.Must(t, cmd).(*wire.InventoryReply); reply.Stale {
		t.Fatalf("the report is refused as late: %+v", reply)
	}
}

// claims places an alloc that holds the volume.
func (r *rig) claims(t *testing.T) ids.Alloc {
	t.Helper()
	r.c.Must(t, &fsm.JobRegister{Seed: ids.New(),
		Job: &job.Job{
			Namespace:  ids.DefaultNamespace,
			ID:         "db",
			Type:       job.TypeService,
			Priority:   50,
			TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1, Tasks: []*job.Task{{Name: "t", Driver: "exec"}}}},
		}})
	j := r.c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "db")
	id := ids.Alloc(ids.New())
	r.c.Must(t, &fsm.PlanApply{
		Place: []*alloc.Alloc{{
			ID:             id,
			Namespace:      j.Namespace,
			Job:            j.ID,
			JobVersion:     j.Version,
			JobCreateIndex: j.CreateIndex,
			JobType:        j.Type,
			TaskGroup:      "g",
			Name:           "db.g[0]",
			Node:           r.node,
		}},
		Claims: []*volume.Claim{{
			Volume:         r.vol,
			Alloc:          id,
			Node:           r.node,
			Job:            j.ID,
			AccessMode:     volume.SingleNodeWriter,
			AttachmentMode: volume.FileSystem,
			State:          volume.Held,
		}}})
	return id
}

func (r *rig) ends(t *testing.T, id ids.Alloc) {
	t.Helper()
	r.c.Must(t, &fsm.AllocClientUpdate{Seed: ids.New(),
		Allocs: []*alloc.Alloc{{ID: id, Node: r.node, ClientStatus: alloc.ClientComplete}}})
}

func (r *rig) mounted(name volume.ID, a ids.Alloc) volume.InventoryEntry {
	return volume.InventoryEntry{StagingKey: volume.StagingKey{Plugin: "p", ExternalID: "x"}, Volume: name,
		Staging: volume.Present, Publications: []volume.InventoryPublication{{Alloc: a, Presence: volume.Present}}}
}

func (r *rig) forget(t *testing.T, force bool) error {
	t.Helper()
	_, err := r.volumeDeregister(t.Context(),
		&wire.VolumeDeleteRequest{Volume: r.vol, Force: force, Reason: "it must go"})
	return err
}

func (r *rig) volume() *volume.Volume { return r.c.Store.Snapshot().Volume(nil, r.vol) }

func (r *rig) known() bool { return r.c.Store.Snapshot().Volume(nil, r.vol) != nil }

// Force is for claims that nobody can use any more. A running alloc is never robbed of its volume.
func TestForceForgetsNoVolumeThatARunningAllocClaims(t *testing.T) {
	r := newRig(t)
	a := r.claims(t)
	for _, force := range []bool{false, true} {
		if err := r.forget(t, force); !fault.Has(err, fault.Busy) || !r.known() {
			t.Fatalf("force %v, while the alloc runs: %v, still known: %v", force, err, r.known())
		}
	}
	r.reports(t, r.node, r.mounted(r.vol, a))
	r.ends(t, a)
	if err := r.forget(t, false); !fault.Has(err, fault.Busy) || !r.known() {
		t.Fatalf("without force, while the node has it mounted: %v, still known: %v", err, r.known())
	}
	if err := r.forget(t, true); err != nil || r.known() {
		t.Errorf("with force, when no alloc can use its claim any more: %v, still known: %v", err, r.known())
	}
}

// A node that is down may never report: its claims, if it has any, stand in the way by themselves.
func TestANodeThatIsDownHoldsUpNoRemoval(t *testing.T) {
	for _, what := range []string{"deregister", "delete"} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			gone := r.joins(t)
			if n := holders.Unreported(r.c.Store.Snapshot(), nil); n == nil || n.ID != gone {
				t.Fatalf("a node that is up and never reported does not count: %+v", n)
			}
			r.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{gone}, Status: node.StatusDown})
			if what == "deregister" {
				if err := r.forget(t, false); err != nil || r.known() {
					t.Errorf("%v, still known: %v", err, r.known())
				}
				return
			}
			// No controller is there to do it: what counts is that the deletion was begun.
			_, err := r.volumeDelete(t.Context(), &wire.VolumeDeleteRequest{Volume: r.vol, Wait: time.Millisecond})
			if v := r.c.Store.Snapshot().Volume(nil, r.vol); v == nil || v.Status.Phase != volume.PhaseDeleting {
				t.Errorf("the deletion was not begun: %v, %+v", err, v)
			}
		})
	}
}

// What changes while a deregistration waits for nodes is no reason to refuse it.
func TestADeregistrationThatWaitedForgetsWhatThereIsThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		late := r.joins(t)
		ended := make(chan error, 1)
		go func() { ended <- r.forget(t, false) }()
		synctest.Wait()
		v := *r.c.Store.Snapshot().Volume(nil, r.vol)
		v.Status.Capacity = 1
		r.c.Must(t, &fsm.VolumePut{Volume: &v, Seen: v.ModifyIndex})
		r.reports(t, late)
		if err := <-ended; err != nil || r.known() {
			t.Errorf("%v, still known: %v", err, r.known())
		}
	})
}

// Given a volume with a step under way, like a creation that is tried again after a power loss, when that step is
// stored while the volume is told to go, then the deletion is begun on what there is then, and nobody hears of a
// conflict.
func TestADeletionBeginsOnWhatAStepUnderWayHasLeft(t *testing.T) {
	r := newRig(t)
	r.cfg.Proposer = &between{Proposer: r.c, first: func() {
		r.change(t, func(_ *state.Tx, v *volume.Volume) { v.Status.Capacity = 4096 })
	}}
	_, err := r.volumeDelete(t.Context(), &wire.VolumeDeleteRequest{Volume: r.vol, Wait: time.Millisecond})
	if fault.Has(err, fault.Conflict) {
		t.Error(err)
	}
	if v := r.volume(); v == nil || v.Status.Phase != volume.PhaseDeleting || v.Status.Capacity != 4096 {
		t.Errorf("the deletion was not begun, or took back what was stored: %v, %+v", err, v)
	}
}

// Given a volume about which a step is stored, such as what a look at its provider found, while it is told to be
// forgotten, then what there is then is forgotten, also by force, and nobody hears of a conflict.
func TestADeregistrationForgetsWhatAStepUnderWayHasLeft(t *testing.T) {
	for _, force := range []bool{false, true} {
		r := newRig(t)
		r.cfg.Proposer = &between{Proposer: r.c, first: func() {
			r.change(t, func(_ *state.Tx, v *volume.Volume) { v.Status.Capacity = 4096 })
		}}
		if err := r.forget(t, force); err != nil || r.known() {
			t.Errorf("by force %v: %v, still known: %v", force, err, r.known())
		}
	}
}

// Given a volume of which a step that is stored meanwhile begins an operation at its provider, when it is told to be
// forgotten, then that is refused: it is decided on what there is then.
func TestADeregistrationIsRefusedByWhatBeganMeanwhile(t *testing.T) {
	r := newRig(t)
	r.cfg.Proposer = &between{Proposer: r.c, first: func() {
		r.change(t, func(_ *state.Tx, v *volume.Volume) { v.Status.Phase = volume.PhaseExpanding })
	}}
	if err := r.forget(t, false); err == nil || !strings.Contains(err.Error(), "being expanded") || !r.known() {
		t.Errorf("%v, still known: %v", err, r.known())
	}
}

// A new leadership knows only what was reported since it began.
func TestAReportToAnEarlierLeadershipIsNone(t *testing.T) {
	r := newRig(t)
	r.c.Must(t, &fsm.LineageMark{Mark: "two"})
	if err := holders.InUse(r.c.Store.Snapshot(), nil, "delete", r.volume()); !fault.Has(err, fault.NotReady) ||
		!strings.Contains(err.Error(), ids.Short(r.node)) {
		t.Errorf("before the node reported again: %v", err)
	}
	r.reports(t, r.node)
	if err := holders.InUse(r.c.Store.Snapshot(), nil, "delete", r.volume()); err != nil {
		t.Errorf("after it did: %v", err)
	}
}

// A state that was emptied or restored knows a volume by another name than the node that has it mounted.
func TestAMountUnderAnotherNameOfTheVolumeStandsInTheWay(t *testing.T) {
	r := newRig(t)
	stranger := ids.Alloc(ids.New())
	for what, name := range map[string]volume.ID{"its own name": r.vol,
		"another name": {Namespace: ids.DefaultNamespace, ID: "former"}} {
		r.reports(t, r.node, r.mounted(name, stranger))
		err := r.forget(t, false)
		if !fault.Has(err, fault.Busy) || !r.known() {
			t.Fatalf("mounted under %s: %v, still known: %v", what, err, r.known())
		}
		for _, part := range []string{"which the servers do not know", ids.Short(r.node), ids.Short(stranger)} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("mounted under %s: the refusal does not say %q: %v", what, part, err)
			}
		}
		var f *fault.Error
		if !errors.As(err, &f) || !strings.Contains(f.Hint, "berth node orphans end "+ids.Short(stranger)) {
			t.Errorf("mounted under %s: the refusal tells no way out: %+v", what, f)
		}
	}
	r.reports(t, r.node)
	if err := r.forget(t, false); err != nil || r.known() {
		t.Errorf("after the node released it: %v, still known: %v", err, r.known())
	}
}

// A mount of an alloc that the servers know is on its way out: no person has to end it.
func TestAMountOfAKnownAllocIsNoOrphan(t *testing.T) {
	r := newRig(t)
	a := r.claims(t)
	entry := r.mounted(r.vol, a)
	entry.Step = "unmounts it"
	r.reports(t, r.node, entry)
	for i := range r.c.Store.Snapshot().InventoriesOf(nil, r.volume().Staging()) {
		text, hint := holders.OnNode(r.c.Store.Snapshot(), i)
		if !strings.Contains(text, "has not released it yet: unmounts it") || hint != "" {
			t.Errorf("%q, %q", text, hint)
		}
		return
	}
	t.Error("the node's entry is not found")
}
