package adoption_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/adoption"
	"berth/internal/server/fsm/recovery"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/wire"
)

// world is a state that knows nothing of what one of its nodes holds.
type world struct {
	t      *testing.T
	c      *localstate.Cluster
	node   ids.Node
	vol    volume.ID
	key    volume.StagingKey
	before volume.Epoch
	cmd    *adoption.OrphanAdopt
}

func aNode(name string) *node.Node {
	id := ids.Node(ids.New())
	return &node.Node{ID: id, Name: name, SecretHash: "h", CSI: []*plugin.Instance{{
		Plugin:      "p",
		Role:        plugin.RoleNode,
		Node:        id,
		State:       plugin.Ready,
		StorageNode: "at-" + name,
	}}}
}

func aJob(mode volume.AccessMode) *job.Job {
	return &job.Job{
		Namespace:   ids.DefaultNamespace,
		ID:          "db",
		Name:        "db",
		Type:        job.TypeService,
		Priority:    50,
		CreateIndex: 500,
		TaskGroups: []*job.TaskGroup{{
			Name:  "g",
			Count: 1,
			Tasks: []*job.Task{{Name: "t", Driver: "exec"}},
			Volumes: map[string]*job.VolumeRequest{"data": {
				Name:           "data",
				Type:           job.VolumeTypeCSI,
				Source:         "vol",
				AccessMode:     string(mode),
				AttachmentMode: string(volume.FileSystem),
			}},
		}},
	}
}

func newWorld(t *testing.T, mode volume.AccessMode) *world {
	t.Helper()
	n := aNode("n")
	w := &world{
		t:      t,
		c:      localstate.New(t),
		node:   n.ID,
		vol:    volume.ID{Namespace: ids.DefaultNamespace, ID: "vol"},
		key:    volume.StagingKey{Plugin: "p", ExternalID: "x"},
		before: volume.Epoch{Incarnation: "older", Index: 501},
	}
	pluginjobs.Name(n)
	w.c.Must(t, &fsm.NodeRegister{Node: n})
	pluginjobs.Place(t, w.c, w.c.Store.Snapshot, n.ID, n.CSI)
	w.write(func(tx *state.Tx) {
		tx.PutPlugin(&plugin.Record{ID: "p", Negotiated: true, NodeNegotiated: true, NeedsAttach: true})
		tx.PutVolume(&volume.Volume{
			ID:  w.vol,
			UID: "u",
			Spec: volume.Spec{Plugin: "p", Capabilities: []volume.Capability{
				{AccessMode: mode, AttachmentMode: volume.FileSystem},
			}},
			Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x"},
		})
	})
	a := &alloc.Alloc{
		ID:             ids.Alloc(ids.New()),
		Namespace:      ids.DefaultNamespace,
		Name:           "db.g[0]",
		Job:            "db",
		JobCreateIndex: 500,
		TaskGroup:      "g",
		Node:           n.ID,
	}
	w.cmd = &adoption.OrphanAdopt{Job: aJob(mode), Seed: "s", Orphans: []adoption.Orphan{{
		Alloc:       a,
		Incarnation: "older",
		Volumes: []wire.HeldVolume{{
			StagingKey:     w.key,
			Volume:         w.vol,
			Alias:          "data",
			Epoch:          w.before,
			Generation:     77,
			AccessMode:     mode,
			AttachmentMode: volume.FileSystem,
			PublishContext: map[string]string{"device": "/dev/x"},
		}},
	}}}
	w.reports(n.ID, w.mounted(a.ID, w.before))
	return w
}

func (w *world) alloc() ids.Alloc { return w.cmd.Orphans[0].Alloc.ID }

func (w *world) snap() *state.Snap { return w.c.Store.Snapshot() }

func (w *world) write(fn func(tx *state.Tx)) {
	w.t.Helper()
	err := w.c.Store.Write(w.snap().Stamp(), func(tx *state.Tx) error {
		fn(tx)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mounted(id ids.Alloc, e volume.Epoch) volume.InventoryEntry {
	return volume.InventoryEntry{
		StagingKey: w.key,
		Volume:     w.vol,
		Staging:    volume.Present,
		Generation: 77,
		Publications: []volume.InventoryPublication{
			{Alloc: id, Epoch: e, Presence: volume.Present, Wanted: true},
		},
	}
}

// reports is a whole inventory of a node.
func (w *world) reports(id ids.Node, entries ...volume.InventoryEntry) *wire.InventoryReply {
	w.t.Helper()
	cmd := &fsm.InventoryApply{Node: id, Full: true, Entries: entries, AllocIndex: w.snap().Index()}
	if h := w.snap().InventoryHead(nil, id); h != nil {
		cmd.Prev = h.ModifyIndex
	}
	return w.c.Must(w.t, cmd).(*wire.InventoryReply)
}

func (w *world) adopt() error {
	_, _, err := w.c.Propose(w.t.Context(), w.cmd)
	return err
}

// Given an orphan that a state does not know, when it is adopted, then alloc, claim and attachment are there under the
// ids and with the arguments that the node has, its node's reports are believed under the old epoch until it has the
// new one, and its end releases the volume.
func TestAnOrphanBecomesAnAllocLikeAnyOther(t *testing.T) {
	w := newWorld(t, volume.SingleNodeWriter)
	if err := w.adopt(); err != nil {
		t.Fatal(err)
	}
	s := w.snap()
	a, j := s.Alloc(nil, w.alloc()), s.Job(nil, ids.DefaultNamespace, "db")
	if a == nil || j == nil || a.Adopted == 0 || a.Node != w.node || a.JobCreateIndex != j.CreateIndex ||
		s.JobOf(nil, a) == nil || a.Terminal() || a.AllocModifyIndex != a.Adopted || s.Eval(nil, a.Eval) == nil {
		t.Fatalf("alloc %+v of job %+v", a, j)
	}
	cl := s.Claim(nil, volume.ClaimKey{Volume: w.vol, Alloc: a.ID})
	if cl == nil || cl.State != volume.Held || cl.Epoch.Index != a.Adopted || !slices.Contains(cl.Epochs(), w.before) ||
		cl.UID != "u" {
		t.Fatalf("claim %+v", cl)
	}
	at := s.Attachment(nil, volume.AttachmentKey{StagingKey: w.key, Node: w.node})
	if at == nil || at.Presence != volume.Present || at.Generation != 77 || at.PublishContext["device"] != "/dev/x" ||
		at.StorageNode != "at-n" {
		t.Fatalf("attachment %+v", at)
	}
	if v := s.Volume(nil, w.vol); v.Status.AccessMode != volume.SingleNodeWriter {
		t.Errorf("the volume is in use as %q", v.Status.AccessMode)
	}
	if r := w.reports(w.node, w.mounted(a.ID, w.before)); len(r.Void) > 0 {
		t.Errorf("under the old epoch it is void: %+v", r.Void)
	}
	if r := w.reports(w.node, w.mounted(a.ID, cl.Epoch)); len(r.Void) > 0 {
		t.Errorf("under the new epoch it is void: %+v", r.Void)
	}
	if cl = w.snap().Claim(nil, cl.Key()); cl == nil || slices.Contains(cl.Epochs(), w.before) {
		t.Errorf("the node knows the new epoch, and the old one still counts: %+v", cl)
	}
	w.c.Must(t, &fsm.AllocClientUpdate{Seed: "e", Allocs: []*alloc.Alloc{
		{ID: a.ID, Node: w.node, ClientStatus: alloc.ClientComplete},
	}})
	w.reports(w.node)
	if cl := w.snap().Claim(nil, cl.Key()); cl != nil {
		t.Errorf("its node holds nothing, and the claim is %+v", cl)
	}
}

// A person's word that the node is dead ends the claim under the epoch, too, by which its node knows it still.
func TestAProofEndsAnAdoptedClaimUnderBothEpochs(t *testing.T) {
	w := newWorld(t, volume.SingleNodeWriter)
	if err := w.adopt(); err != nil {
		t.Fatal(err)
	}
	cl := w.snap().Claim(nil, volume.ClaimKey{Volume: w.vol, Alloc: w.alloc()})
	w.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{w.node}, Status: node.StatusDown, Seed: "d"})
	w.c.Must(t, &fsm.ClaimProof{Claim: cl.Key(), Epoch: cl.Epoch, Proof: volume.ProofAttested, Reason: "burnt"})
	r := w.reports(w.node, w.mounted(w.alloc(), w.before))
	if len(r.Void) != 1 || r.Void[0].Epoch != w.before {
		t.Errorf("void: %+v", r.Void)
	}
}

// An alloc that the state knows is only given back to its node.
func TestAKnownAllocIsGivenBackToItsNode(t *testing.T) {
	w := newWorld(t, volume.SingleNodeWriter)
	if err := w.adopt(); err != nil {
		t.Fatal(err)
	}
	was := w.snap().Alloc(nil, w.alloc())
	epoch := w.snap().Claim(nil, volume.ClaimKey{Volume: w.vol, Alloc: w.alloc()}).Epoch
	w.cmd.Job = aJob(volume.SingleNodeWriter)
	if err := w.adopt(); err != nil {
		t.Fatal(err)
	}
	now := w.snap().Alloc(nil, w.alloc())
	if now.Adopted <= was.Adopted || now.AllocModifyIndex != now.Adopted || now.JobVersion != was.JobVersion {
		t.Errorf("before %+v, now %+v", was, now)
	}
	if cl := w.snap().Claim(nil, volume.ClaimKey{Volume: w.vol, Alloc: w.alloc()}); cl.Epoch != epoch {
		t.Errorf("its claim has another epoch: %+v", cl)
	}
	w.c.Must(t, &fsm.JobDeregister{Namespace: ids.DefaultNamespace, Job: "db", Seed: "x"})
	w.c.Must(t, &fsm.PlanApply{Stop: []fsm.AllocStop{{Alloc: w.alloc()}}})
	if err := w.adopt(); !fault.Has(err, fault.Conflict) {
		t.Errorf("it was told to end: %v", err)
	}
}

// text is an error with its way out.
func text(err error) string {
	if f := (*fault.Error)(nil); errors.As(err, &f) {
		return err.Error() + " (" + f.Hint + ")"
	}
	return fmt.Sprint(err)
}

// Whatever stands in the way refuses the adoption as a whole, and is named.
func TestWhatStandsInTheWayOfAnAdoption(t *testing.T) {
	other := func(w *world) *alloc.Alloc {
		w.c.Must(t, &fsm.JobRegister{Job: &job.Job{
			Namespace:  ids.DefaultNamespace,
			ID:         "other",
			Type:       job.TypeService,
			TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1, Tasks: []*job.Task{{Name: "t", Driver: "exec"}}}},
		}, Seed: "o"})
		j := w.snap().Job(nil, ids.DefaultNamespace, "other")
		return &alloc.Alloc{
			ID:             ids.Alloc(ids.New()),
			Namespace:      j.Namespace,
			Job:            j.ID,
			JobCreateIndex: j.CreateIndex,
			TaskGroup:      "g",
			Name:           "other.g[0]",
			Node:           w.node,
		}
	}
	claimBy := func(w *world, on ids.Node, st volume.ClaimState) {
		a := other(w)
		a.Node = on
		w.c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
		w.write(func(tx *state.Tx) {
			tx.PutClaim(&volume.Claim{
				Volume:     w.vol,
				Plugin:     "p",
				ExternalID: "x",
				Alloc:      a.ID,
				Node:       on,
				Job:        a.Job,
				AccessMode: volume.SingleNodeWriter,
				State:      st,
			})
		})
	}
	another := func(w *world) ids.Node {
		n := aNode("m")
		w.c.Must(t, &fsm.NodeRegister{Node: n})
		return n.ID
	}
	for name, c := range map[string]struct {
		given func(w *world)
		says  string
	}{
		"another job of that id": {func(w *world) {
			w.c.Must(t, &fsm.JobRegister{Job: aJob(volume.SingleNodeWriter), Seed: "j"})
		}, "another job of this id"},
		"its name is taken": {func(w *world) {
			j := aJob(volume.SingleNodeWriter)
			w.c.Must(t, &fsm.JobRegister{Job: j, Seed: "j"})
			w.cmd.Job = aJob(volume.SingleNodeWriter)
			stored := w.snap().Job(nil, ids.DefaultNamespace, "db")
			w.cmd.Orphans[0].Alloc.JobCreateIndex, w.cmd.Orphans[0].Incarnation = stored.CreateIndex, ""
			a := other(w)
			a.Job, a.JobCreateIndex = stored.ID, stored.CreateIndex
			a.Name = "db.g[0]"
			w.c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
		}, "has its name"},
		"the volume has no record": {func(w *world) {
			w.write(func(tx *state.Tx) { tx.DeleteVolume(w.vol) })
		}, "register it first"},
		"the volume is another": {func(w *world) {
			w.cmd.Orphans[0].Volumes[0].ExternalID = "y"
		}, "is another now"},
		"it is used in another way": {func(w *world) {
			w.cmd.Orphans[0].Volumes[0].AccessMode = volume.MultiNodeMultiWriter
		}, "its job asks for"},
		"its node does not say": {func(w *world) { w.cmd.Orphans[0].Volumes = nil }, "does not say how it holds"},
		"another claim": {func(w *world) {
			claimBy(w, w.node, volume.Held)
		}, "berth job stop other"},
		"a claim that a restore brought back": {func(w *world) {
			claimBy(w, w.node, volume.Releasing)
		}, "it ends when node"},
		"such a claim on a node that is down": {func(w *world) {
			n := another(w)
			w.reports(n)
			claimBy(w, n, volume.Releasing)
			w.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{n}, Status: node.StatusDown, Seed: "d"})
		}, "-node-is-dead"},
		"a mount for another alloc": {func(w *world) {
			w.reports(another(w), w.mounted("b", w.before))
		}, "holds it for allocation"},
		"an attachment to another node": {func(w *world) {
			n := another(w)
			w.reports(n)
			w.write(func(tx *state.Tx) {
				tx.PutAttachment(&volume.Attachment{
					Volume:     w.vol,
					Node:       n,
					Plugin:     "p",
					ExternalID: "x",
					Presence:   volume.Present,
				})
			})
		}, "attached to node"},
		"a node that has not reported": {func(w *world) { another(w) }, "has not reported yet"},
		"a volume that is being deleted": {func(w *world) {
			w.write(func(tx *state.Tx) {
				v := *tx.Volume(nil, w.vol)
				v.Status.Phase = volume.PhaseDeleting
				tx.PutVolume(&v)
			})
		}, "is deleting"},
		"a claim that was ended by proof": {func(w *world) {
			w.write(func(tx *state.Tx) {
				tx.PutClaimProof(&volume.ClaimProof{
					Node:           w.node,
					PublicationKey: volume.PublicationKey{StagingKey: w.key, Alloc: w.alloc()},
					Epoch:          w.before,
				})
			})
		}, "ended by proof"},
		"a detach that is under way": {func(w *world) {
			w.write(func(tx *state.Tx) {
				tx.PutAttachment(&volume.Attachment{
					Volume:     w.vol,
					Node:       w.node,
					Plugin:     "p",
					ExternalID: "x",
					Presence:   volume.Uncertain,
					Detaching:  true,
				})
			})
		}, "being detached"},
		"a recovery that awaits another node": {func(w *world) {
			w.c.Must(t, &recovery.Begin{Incarnation: "new", Mark: "m", Replaced: &recovery.Replaced{
				Nodes: []recovery.Named{{ID: ids.Node(ids.New()), Name: "late"}},
			}})
			w.c.Must(t, &fsm.InventoryApply{
				Node:        w.node,
				Full:        true,
				Incarnation: "new",
				AllocIndex:  w.snap().Index(),
				Prev:        w.snap().InventoryHead(nil, w.node).ModifyIndex,
				Entries:     []volume.InventoryEntry{w.mounted(w.alloc(), w.before)},
			})
		}, "is suspended"},
		"a node that follows others": {func(w *world) {
			n := aNode("n")
			n.ID, n.Unfollowed = w.node, node.FollowsOthers
			w.c.Must(t, &fsm.NodeRegister{Node: n})
		}, "takes nothing from these servers"},
		"a node whose name at the provider is not known": {func(w *world) {
			n := aNode("n")
			n.ID, n.CSI = w.node, nil
			w.c.Must(t, &fsm.NodeRegister{Node: n})
		}, "adopt the orphan that runs the plugin first"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, volume.SingleNodeWriter)
			c.given(w)
			err := w.adopt()
			if err == nil || !strings.Contains(text(err), c.says) {
				t.Fatalf("got %q, want %q", text(err), c.says)
			}
			if w.snap().Alloc(nil, w.alloc()) != nil ||
				w.snap().Claim(nil, volume.ClaimKey{Volume: w.vol, Alloc: w.alloc()}) != nil {
				t.Error("half of it was stored")
			}
		})
	}
}

// Uses that do not exclude each other do not stand in each other's way, and a job that has gone on is not mistaken for
// the one that the node has.
func TestAnOrphanBesideOthers(t *testing.T) {
	w := newWorld(t, volume.MultiNodeMultiWriter)
	n := aNode("m")
	w.c.Must(t, &fsm.NodeRegister{Node: n}) // has not reported: nothing that it may hold would exclude this
	if err := w.adopt(); err != nil {
		t.Fatal(err)
	}
	stored := w.snap().Job(nil, ids.DefaultNamespace, "db")
	late := *w.cmd.Orphans[0].Alloc
	late.ID, late.Index = ids.Alloc(ids.New()), 1
	late.JobCreateIndex = stored.CreateIndex
	w.cmd.Orphans[0].Alloc, w.cmd.Orphans[0].Incarnation = &late, ""
	w.cmd.Job = aJob(volume.MultiNodeMultiWriter)
	w.cmd.Job.Priority = 51
	if err := w.adopt(); err == nil || !strings.Contains(err.Error(), "is not what the node has") {
		t.Errorf("another version 0: %v", err)
	}
	w.cmd.Job = aJob(volume.MultiNodeMultiWriter)
	if err := w.adopt(); err != nil {
		t.Fatal(err)
	}
	if a := w.snap().Alloc(nil, late.ID); a == nil || a.JobVersion != stored.Version || a.Name != "db.g[1]" {
		t.Errorf("the second one: %+v", a)
	}
}
