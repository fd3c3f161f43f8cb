package replacement_test

import (
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/replacement"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/testkit/localstate"
)

// captive is a state in which a volume is used on an honest node, beside a node that says what it likes. Both have an
// instance of the volume's plugin that counts.
type captive struct {
	*localstate.Cluster
	t             *testing.T
	honest, liar  ids.Node
	volume        volume.ID
	key           volume.StagingKey
	alloc         ids.Alloc // that uses the volume, on the honest node
	mode          volume.AccessMode
	plugins, used *job.Job
}

// held is a captive world whose volume is attached and claimed.
func held(t *testing.T, mode volume.AccessMode) *captive {
	w := &captive{
		Cluster: localstate.New(t),
		t:       t,
		honest:  "1" + ids.Node(ids.New()),
		liar:    "0" + ids.Node(ids.New()), // what goes by the order of nodes goes its way
		volume:  volume.ID{Namespace: ids.DefaultNamespace, ID: "vol"},
		key:     volume.StagingKey{Plugin: "p", ExternalID: "x"},
		mode:    mode,
	}
	w.plugins = w.job("plugins", &job.CSIPluginConfig{ID: "p", Type: job.PluginMonolith})
	w.used = w.job("db", nil)
	for _, id := range []ids.Node{w.honest, w.liar} {
		w.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: id, SecretHash: "h"}, Seed: "r"})
		on := w.placed(w.plugins, id)
		w.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{on}})
		// Either is called alike by the provider: one of them is not what it says.
		w.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: id, SecretHash: "h", CSI: []*plugin.Instance{{
			Plugin:      "p",
			Role:        plugin.RoleNode,
			Alloc:       on.ID,
			Node:        id,
			State:       plugin.Ready,
			StorageNode: "storage of the honest node",
		}}}, Seed: "r2"})
	}
	w.write(func(tx *state.Tx) {
		tx.PutPlugin(&plugin.Record{ID: "p", Negotiated: true, NodeNegotiated: true, NeedsAttach: true})
		tx.PutVolume(&volume.Volume{
			ID:  w.volume,
			UID: "u",
			Spec: volume.Spec{Plugin: "p", Capabilities: []volume.Capability{
				{AccessMode: mode, AttachmentMode: volume.FileSystem},
			}},
			Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x"},
		})
	})
	w.alloc = w.claims(w.honest)
	a := attaching.Record(w.Store.Snapshot(), w.key, w.record(), w.honest)
	if a == nil {
		t.Fatal("the honest node has no name at the provider")
	}
	a.Presence = volume.Present
	w.Must(t, &fsm.AttachmentPut{Attachment: a})
	return w
}

func (w *captive) record() *plugin.Record { return w.Store.Snapshot().Plugin(nil, "p") }

func (w *captive) job(id ids.Job, runs *job.CSIPluginConfig) *job.Job {
	w.Must(w.t, &fsm.JobRegister{Seed: string(id), Job: &job.Job{
		Namespace: ids.DefaultNamespace,
		ID:        id,
		Type:      job.TypeService,
		TaskGroups: []*job.TaskGroup{{
			Name:  "g",
			Count: 1,
			Tasks: []*job.Task{{Name: "t", Driver: "exec", CSIPluginConfig: runs}},
		}},
	}})
	return w.Store.Snapshot().Job(nil, ids.DefaultNamespace, id)
}

func (w *captive) placed(j *job.Job, on ids.Node) *alloc.Alloc {
	return &alloc.Alloc{
		ID:             ids.Alloc(ids.New()),
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobCreateIndex: j.CreateIndex,
		JobVersion:     j.Version,
		TaskGroup:      "g",
		Name:           string(j.ID) + ".g[0]",
		Node:           on,
	}
}

// claim is the plan that places an alloc with a claim of the volume.
func (w *captive) claim(on ids.Node) *fsm.PlanApply {
	a := w.placed(w.used, on)
	return &fsm.PlanApply{Place: []*alloc.Alloc{a}, Claims: []*volume.Claim{{
		Volume:         w.volume,
		Alloc:          a.ID,
		Node:           on,
		Job:            w.used.ID,
		AccessMode:     w.mode,
		AttachmentMode: volume.FileSystem,
		State:          volume.Held,
	}}}
}

func (w *captive) claims(on ids.Node) ids.Alloc {
	w.t.Helper()
	plan := w.claim(on)
	w.Must(w.t, plan)
	if w.Store.Snapshot().Claim(nil, volume.ClaimKey{Volume: w.volume, Alloc: plan.Place[0].ID}) == nil {
		w.t.Fatal("the volume is not given")
	}
	return plan.Place[0].ID
}

func (w *captive) write(fn func(tx *state.Tx)) {
	w.t.Helper()
	if err := w.Store.Write(w.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		fn(tx)
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

// lies has the liar report an inventory, as often as it likes.
func (w *captive) lies(unknown []volume.UnknownMount, entries ...volume.InventoryEntry) {
	w.t.Helper()
	var prev uint64
	if h := w.Store.Snapshot().InventoryHead(nil, w.liar); h != nil {
		prev = h.ModifyIndex
	}
	w.Must(w.t, &fsm.InventoryApply{
		Node:       w.liar,
		Full:       true,
		AllocIndex: w.Store.Snapshot().Index(),
		Prev:       prev,
		Entries:    entries,
		Unknown:    unknown,
	})
}

// entry is what a node says of the volume.
func (w *captive) entry(is volume.Presence, pubs ...volume.InventoryPublication) volume.InventoryEntry {
	return volume.InventoryEntry{
		StagingKey:   w.key,
		Volume:       w.volume,
		Staging:      is,
		Generation:   7,
		Publications: pubs,
	}
}

// undisturbed fails the test unless the honest node's claim and attachment are as they were, and no call is due that
// takes the volume from it.
func (w *captive) undisturbed(when string) {
	w.t.Helper()
	s := w.Store.Snapshot()
	c := s.Claim(nil, volume.ClaimKey{Volume: w.volume, Alloc: w.alloc})
	a := s.Attachment(nil, volume.AttachmentKey{StagingKey: w.key, Node: w.honest})
	if c == nil || c.State != volume.Held || a == nil || a.Presence != volume.Present || a.Detaching {
		w.t.Errorf("%s: claim %+v, attachment %+v", when, c, a)
	}
	f, _ := attaching.Facts(s, w.key)
	steps, _ := volume.NextAttachments(f)
	for _, step := range steps {
		there := s.Attachment(nil, volume.AttachmentKey{StagingKey: w.key, Node: step.Node})
		if step.Verb == volume.Detach && there.StorageNode == a.StorageNode {
			w.t.Errorf("%s: the provider is asked to detach the volume from %q, where it is used", when,
				there.StorageNode)
		}
	}
}

var everyMode = []volume.AccessMode{
	volume.SingleNodeWriter, volume.MultiNodeReader, volume.MultiNodeSingleWriter, volume.MultiNodeMultiWriter,
}

// TestACapturedNodeTakesNothingFromOthers: given a node in the hands of an attacker, beside one that uses a volume,
// when it says whatever it likes about that volume, also under the honest node's name at the provider, then the claim
// stays, no call takes the volume from where it is used, and what it says to have stands as its own word alone.
func TestACapturedNodeTakesNothingFromOthers(t *testing.T) {
	for _, mode := range everyMode {
		w := held(t, mode)
		own := s(w).Claim(nil, volume.ClaimKey{Volume: w.volume, Alloc: w.alloc}).Epoch
		theirs := volume.InventoryPublication{Alloc: w.alloc, Epoch: own, Presence: volume.Present, Wanted: true}
		forged := volume.InventoryPublication{Alloc: "forged", Presence: volume.Present, Wanted: true}
		gone := volume.InventoryPublication{Alloc: w.alloc, Epoch: own, Presence: volume.Absent}
		path := []volume.UnknownMount{{
			Path: "/d/csi/" + ids.Segment("p") + "/" + volume.StagingTail("x") + "/m",
			Dir:  ids.Segment("p"),
		}}
		for _, lie := range []struct {
			name    string
			unknown []volume.UnknownMount
			entries []volume.InventoryEntry
		}{
			{"nothing", nil, nil},
			{"it is staged", nil, []volume.InventoryEntry{w.entry(volume.Present)}},
			{"it is unmounted", nil, []volume.InventoryEntry{w.entry(volume.Absent)}},
			{"the other's alloc has it here", nil, []volume.InventoryEntry{w.entry(volume.Present, theirs)}},
			{"the other's alloc has unmounted it", nil, []volume.InventoryEntry{w.entry(volume.Absent, gone)}},
			{"an alloc that nobody knows has it", nil, []volume.InventoryEntry{w.entry(volume.Present, forged)}},
			{"that is unmounted", nil, []volume.InventoryEntry{w.entry(volume.Absent)}},
			{"a mount without a name", path, nil},
			{"nothing any more", nil, nil},
		} {
			w.lies(lie.unknown, lie.entries...)
			w.undisturbed(string(mode) + ": " + lie.name)
		}
	}
}

func s(w *captive) *state.Snap { return w.Store.Snapshot() }

// TestACapturedNodeConfirmsNoEpochOfOthers: what another node knows of its claim from before an adoption stays until
// that node has said that it knows better; else its own, right report would be void, and the volume unmounted there.
func TestACapturedNodeConfirmsNoEpochOfOthers(t *testing.T) {
	w := held(t, volume.SingleNodeWriter)
	key := volume.ClaimKey{Volume: w.volume, Alloc: w.alloc}
	before := volume.Epoch{Incarnation: "of before", Index: 3}
	w.write(func(tx *state.Tx) {
		c := *tx.Claim(nil, key)
		c.Before = &before
		tx.PutClaim(&c)
	})
	now := s(w).Claim(nil, key).Epoch
	forged := volume.InventoryPublication{Alloc: w.alloc, Epoch: now, Presence: volume.Present, Wanted: true}
	w.lies(nil, w.entry(volume.Present, forged))
	if c := s(w).Claim(nil, key); c.Before == nil || *c.Before != before {
		t.Error("the word of another node makes the report of the one that has the claim void")
	}
	w.Must(t, &fsm.InventoryApply{
		Node:    w.honest,
		Full:    true,
		Entries: []volume.InventoryEntry{w.entry(volume.Present, forged)},
	})
	if s(w).Claim(nil, key).Before != nil {
		t.Error("the node's own word does not count")
	}
}

// TestACapturedNodeGrowsNoVolumeOfOthers: that a volume has its size on nodes is said by those that were given it.
func TestACapturedNodeGrowsNoVolumeOfOthers(t *testing.T) {
	w := held(t, volume.MultiNodeMultiWriter)
	w.write(func(tx *state.Tx) {
		v := *tx.Volume(nil, w.volume)
		v.Status.NodeExpandPending, v.Status.Capacity = true, 100
		tx.PutVolume(&v)
	})
	grown := w.entry(volume.Present)
	grown.ExpandedTo = 100
	w.lies(nil, grown)
	if !s(w).Volume(nil, w.volume).Status.NodeExpandPending {
		t.Error("the volume stays small where it is used")
	}
	w.Must(t, &fsm.InventoryApply{Node: w.honest, Full: true, Entries: []volume.InventoryEntry{grown}})
	if s(w).Volume(nil, w.volume).Status.NodeExpandPending {
		t.Error("the word of the node that has it does not count")
	}
}

// TestWhatACapturedNodeHoldsUpAPersonEnds: given that the honest node has released a volume, and a captured one says to
// hold it, by whichever of its words, then nobody gets the volume on that node's word alone, the reason names the node
// and the way out, and the node shows it; when it was denied, has gone down, and is replaced, then the volume is given.
func TestWhatACapturedNodeHoldsUpAPersonEnds(t *testing.T) {
	for _, name := range []string{"staged", "mounted", "a path"} {
		w := held(t, volume.SingleNodeWriter)
		w.Must(t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{{
			ID:           w.alloc,
			Node:         w.honest,
			ClientStatus: alloc.ClientComplete,
		}}})
		w.Must(t, &fsm.InventoryApply{Node: w.honest, Full: true, AllocIndex: s(w).Index()})
		old := s(w).Attachment(nil, volume.AttachmentKey{StagingKey: w.key, Node: w.honest})
		w.Must(t, &fsm.AttachmentForget{Key: fsm.RefTo(old), Seen: old.ModifyIndex})
		var unknown []volume.UnknownMount
		var entries []volume.InventoryEntry
		switch name {
		case "staged":
			entries = append(entries, w.entry(volume.Present))
		case "mounted":
			entries = append(entries, w.entry(volume.Present,
				volume.InventoryPublication{Alloc: "forged", Presence: volume.Present, Wanted: true}))
		default:
			unknown = append(unknown, volume.UnknownMount{
				Path: "/d/csi/" + ids.Segment("p") + "/" + volume.StagingTail("x") + "/m",
				Dir:  ids.Segment("p"),
			})
		}
		w.lies(unknown, entries...)
		w.heldUp(name, len(entries))
		if _, _, err := w.Propose(t.Context(), w.claim(w.honest)); err == nil {
			t.Errorf("%s: a volume is given that somebody may write to", name)
		}
		w.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{w.liar}, Status: node.StatusDown, Seed: "d"})
		w.Must(t, &replacement.NodeReplace{Old: w.liar, New: w.honest, Reason: "captured", By: "ann"})
		if got := suspension.Unclaimed(s(w), nil, w.liar); len(got) != 0 {
			t.Errorf("%s: it is shown still: %v", name, got)
		}
		w.claims(w.honest)
		w.attaches(name)
	}
}

// heldUp fails the test unless the volume waits for the liar, in words that lead out.
func (w *captive) heldUp(name string, shown int) {
	w.t.Helper()
	why := suspension.Claims(s(w), nil, s(w).Volume(nil, w.volume))
	if why == nil || !strings.Contains(why.Hint, "berth node deny -reason … "+ids.Short(w.liar)) ||
		!strings.Contains(why.Hint, "berth node replace -reason … "+ids.Short(w.liar)) {
		w.t.Errorf("%s: no way out: %v", name, why)
	}
	if got := suspension.Unclaimed(s(w), nil, w.liar); len(got) != shown {
		w.t.Errorf("%s: the node shows %d of %d", name, len(got), shown)
	}
	if got := suspension.Unclaimed(s(w), nil, w.honest); len(got) != 0 {
		w.t.Errorf("%s: the honest node shows %v", name, got)
	}
}

// attaches fails the test unless the volume can be attached to the honest node, after what the liar's word has made of
// it was undone.
func (w *captive) attaches(name string) {
	w.t.Helper()
	for range 3 {
		f, _ := attaching.Facts(s(w), w.key)
		steps, wait := volume.NextAttachments(f)
		if len(steps) == 0 {
			w.t.Fatalf("%s: nothing is done: %q", name, wait)
		}
		if steps[0] == (volume.AttachStep{Verb: volume.Attach, Node: w.honest}) {
			if attaching.Record(s(w), w.key, w.record(), w.honest) == nil {
				w.t.Errorf("%s: it cannot be attached", name)
			}
			return
		}
		a := s(w).Attachment(nil, volume.AttachmentKey{StagingKey: w.key, Node: steps[0].Node})
		if a.Node != w.liar {
			w.t.Fatalf("%s: %+v", name, steps[0])
		}
		w.Must(w.t, &fsm.AttachmentForget{Key: fsm.RefTo(a), Seen: a.ModifyIndex})
	}
	w.t.Errorf("%s: it is never attached", name)
}
