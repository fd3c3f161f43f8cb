package views

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/wire"
)

// house is a state in which plugin "p" runs a controller on one node and its node part on three, and has a volume.
type house struct {
	*localstate.Cluster
	t *testing.T
}

var data = volume.ID{Namespace: ids.DefaultNamespace, ID: "data"}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{Cluster: localstate.New(t), t: t}
	instance := func(r plugin.Role, is plugin.State) *plugin.Instance {
		return &plugin.Instance{Plugin: "p", Role: r, State: is}
	}
	h.write(func(tx *state.Tx) {
		tx.PutPlugin(&plugin.Record{
			ID:         "p",
			Negotiated: true,
			Controller: plugin.Capabilities{ControllerService: true},
		})
		pluginjobs.Put(tx, &node.Node{ID: "a", Status: node.StatusReady, CSI: []*plugin.Instance{
			instance(plugin.RoleController, plugin.Ready), instance(plugin.RoleNode, plugin.Ready),
		}})
		pluginjobs.Put(tx, &node.Node{ID: "b", Status: node.StatusReady, CSI: []*plugin.Instance{
			instance(plugin.RoleNode, plugin.Ready),
		}})
		pluginjobs.Put(tx, &node.Node{ID: "sick", Status: node.StatusReady, CSI: []*plugin.Instance{
			instance(plugin.RoleNode, plugin.Failing),
		}})
		pluginjobs.Put(tx, &node.Node{ID: "down", Status: node.StatusDown, CSI: []*plugin.Instance{
			instance(plugin.RoleNode, plugin.Ready), instance(plugin.RoleController, plugin.Ready),
		}})
		for id, stop := range map[ids.Job]bool{"plugin": false, "stopped": true} {
			tx.PutJob(&job.Job{
				Namespace: ids.DefaultNamespace,
				ID:        id,
				Type:      job.TypeSystem,
				Stop:      stop,
				TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1, Tasks: []*job.Task{{
					Name:            "t",
					CSIPluginConfig: &job.CSIPluginConfig{ID: "p", Type: job.PluginNode},
				}}}},
			})
			for _, status := range []string{alloc.ClientRunning, alloc.ClientRunning, alloc.ClientComplete} {
				tx.PutAlloc(&alloc.Alloc{
					ID:            ids.Alloc(ids.New()),
					Namespace:     ids.DefaultNamespace,
					Job:           id,
					TaskGroup:     "g",
					DesiredStatus: alloc.DesiredRun,
					ClientStatus:  status,
				})
			}
		}
		tx.PutVolume(&volume.Volume{
			ID:  data,
			UID: "u",
			Spec: volume.Spec{Plugin: "p", Capabilities: []volume.Capability{
				{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem},
			}},
			Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x"},
		})
	})
	return h
}

func (h *house) write(fn func(tx *state.Tx)) {
	h.t.Helper()
	stamp := h.Store.Snapshot().Stamp()
	stamp.Index++
	if err := h.Store.Write(stamp, func(tx *state.Tx) error { fn(tx); return nil }); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) view() *wire.VolumeView {
	h.t.Helper()
	s := h.Store.Snapshot()
	return Of(s, nil).Volume(s.Volume(nil, data))
}

// Given instances that are ready, not ready, and on a node that is down, and jobs that run the plugin or did, then the
// plugin is shown with those that work, and with as many as should.
func TestAPluginIsWhatItsInstancesAre(t *testing.T) {
	h := newHouse(t)
	p := Of(h.Store.Snapshot(), nil).Plugin("p")
	if p.NodesHealthy != 2 || p.ControllersHealthy != 1 || len(p.Instances) != 6 {
		t.Errorf("%d nodes and %d controllers healthy, %d instances", p.NodesHealthy, p.ControllersHealthy,
			len(p.Instances))
	}
	if p.NodesExpected != 2 || p.ControllersExpected != 0 || !p.ControllerRequired {
		t.Errorf("%+v", p)
	}
	if Of(h.Store.Snapshot(), nil).Plugin("none") != nil {
		t.Error("a plugin of which nothing is known is shown")
	}
}

func TestAVolumeSaysWhyItCannotBeGiven(t *testing.T) {
	for what, c := range map[string]struct {
		given func(h *house, tx *state.Tx)
		says  string
	}{
		"all is well": {given: func(*house, *state.Tx) {}},
		"it is being deleted": {
			given: func(h *house, tx *state.Tx) {
				v := *h.Store.Snapshot().Volume(nil, data)
				v.Status.Phase = volume.PhaseDeleting
				tx.PutVolume(&v)
			},
			says: "while it is " + string(volume.PhaseDeleting),
		},
		"no node has the plugin": {
			given: func(h *house, tx *state.Tx) {
				for _, id := range []ids.Node{"a", "b"} {
					n := *h.Store.Snapshot().Node(nil, id)
					n.Status = node.StatusDown
					tx.PutNode(&n)
				}
			},
			says: "no node runs a healthy instance",
		},
		"the controller is away": {
			given: func(h *house, tx *state.Tx) {
				n := *h.Store.Snapshot().Node(nil, "a")
				n.Status = node.StatusDown
				tx.PutNode(&n)
			},
			says: "no controller",
		},
	} {
		h := newHouse(t)
		h.write(func(tx *state.Tx) { c.given(h, tx) })
		v := h.view()
		if v.Schedulable != (c.says == "") || !strings.Contains(v.Unschedulable, c.says) {
			t.Errorf("%s: schedulable %v: %q", what, v.Schedulable, v.Unschedulable)
		}
	}
}

// Given a volume that may be in use by somebody whom the state does not know, then its sentences say what may not be
// done with it and what ends that, and its index grows with it.
func TestAVolumeSaysThatItIsSuspendedAndWhatEndsThat(t *testing.T) {
	oak := recovery.Node{ID: "b", Name: "oak"}
	awaited := &recovery.Record{Index: 1, Incarnation: "i", Whole: true, Nodes: []recovery.Node{oak}}
	for what, c := range map[string]struct {
		given func(h *house, tx *state.Tx)
		says  []string
		free  bool // it is given to allocs
	}{
		"a recovery": {
			given: func(_ *house, tx *state.Tx) { tx.PutRecovery(awaited) },
			says:  []string{"nothing is begun with it", "oak", "berth operator recovery status"},
		},
		"evidence": {
			given: func(h *house, tx *state.Tx) {
				tx.PutEvidence(&recovery.Evidence{Node: "b", Name: "oak", At: h.Store.Snapshot().Point(nil)})
			},
			says: []string{"neither deleted", "oak", "berth operator recovery begin", "recovery dismiss"},
			free: true,
		},
		"an orphan": {
			given: func(_ *house, tx *state.Tx) {
				tx.PutInventoryEntry("a", volume.InventoryEntry{
					StagingKey:   volume.StagingKey{Plugin: "p", ExternalID: "x"},
					Staging:      volume.Present,
					Publications: []volume.InventoryPublication{{Alloc: "orphan", Presence: volume.Present}},
				})
			},
			says: []string{"given to nobody", "orphan", "berth node orphans end"},
		},
		"a deletion of before the restore": {
			given: func(h *house, tx *state.Tx) {
				v := *h.Store.Snapshot().Volume(nil, data)
				v.Status.Phase, v.Status.Suspended = volume.PhaseDeleting, true
				tx.PutVolume(&v)
			},
			says: []string{"suspended for good", "berth volume delete data"},
		},
	} {
		h := newHouse(t)
		before := VolumeIndex(h.Store.Snapshot(), h.view())
		h.write(func(tx *state.Tx) { c.given(h, tx) })
		v := h.view()
		for _, text := range c.says {
			if len(v.State) == 0 || !strings.Contains(v.State[0], text) {
				t.Errorf("%s: %q does not begin with %q", what, v.State, text)
			}
		}
		if v.Schedulable != c.free || VolumeIndex(h.Store.Snapshot(), v) <= before {
			t.Errorf("%s: schedulable %v, index %d after %d", what, v.Schedulable,
				VolumeIndex(h.Store.Snapshot(), v), before)
		}
		h.write(func(tx *state.Tx) {
			tx.PutRecovery(awaited.With("b", "", time.Unix(9, 0), func(n *recovery.Node) { n.Reported = 5 }))
		})
		if after := h.view().State; what == "a recovery" && len(after) > 0 {
			t.Errorf("after the recovery: %q", after)
		}
	}
}

// Given a volume, when something that refers to it comes or changes, then the view has it, and its index grows. What
// refers to another one is not shown.
func TestAViewHasWhatRefersToTheVolume(t *testing.T) {
	h := newHouse(t)
	for _, external := range []string{"x", "y"} {
		before := VolumeIndex(h.Store.Snapshot(), h.view())
		h.write(func(tx *state.Tx) {
			tx.PutClaim(&volume.Claim{
				Volume:     volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume("named-" + external)},
				Alloc:      "w",
				Node:       "a",
				Job:        "j",
				Plugin:     "p",
				ExternalID: external,
				State:      volume.Held,
			})
		})
		after := VolumeIndex(h.Store.Snapshot(), h.view())
		if mine := external == "x"; len(h.view().Claims) != 1 || mine != (after > before) {
			t.Errorf("with a claim of %q: %d claims, index %d after %d", external, len(h.view().Claims), after, before)
		}
	}
	entry := volume.InventoryEntry{
		StagingKey: volume.StagingKey{Plugin: "p", ExternalID: "x"},
		Volume:     data,
		Staging:    volume.Present,
	}
	before := VolumeIndex(h.Store.Snapshot(), h.view())
	h.write(func(tx *state.Tx) { tx.PutInventoryEntry("a", entry) })
	if after := VolumeIndex(h.Store.Snapshot(), h.view()); len(h.view().OnNodes) != 1 || after <= before {
		t.Errorf("with a report: %+v, index %d after %d", h.view().OnNodes, after, before)
	}
	if warned := Namesakes(h.Store.Snapshot(), data); len(warned) != 1 {
		t.Errorf("while a node holds one: %q", warned)
	}
	refusal := plugin.ShortageKey{Node: "a", Plugin: "p", ExternalID: "x"}
	for _, change := range []func(tx *state.Tx){
		func(tx *state.Tx) { tx.PutShortage(&plugin.Shortage{ShortageKey: refusal, Reason: "it is too old"}) },
		func(tx *state.Tx) { tx.DeleteShortage(refusal) },
	} {
		before := VolumeIndex(h.Store.Snapshot(), h.view())
		h.write(change)
		there := h.Store.Snapshot().Shortage(nil, refusal) != nil
		says := slices.ContainsFunc(h.view().State, func(text string) bool {
			return strings.Contains(text, "it is too old") && strings.Contains(text, "asked again when")
		})
		if after := VolumeIndex(h.Store.Snapshot(), h.view()); says != there || after <= before {
			t.Errorf("permanently refused %v: %q, index %d after %d", there, h.view().State, after, before)
		}
	}
	entry.Staging = volume.Absent
	h.write(func(tx *state.Tx) { tx.PutInventoryEntry("a", entry) })
	if warned := Namesakes(h.Store.Snapshot(), data); len(warned) != 0 {
		t.Errorf("when none holds one any more: %q", warned)
	}
}

// Given somebody who waits for a change of what a view says, then evidence of a node wakes them, and so does a mount
// without a name, the first of any node.
func TestWhoWaitsForAViewIsWoken(t *testing.T) {
	for name, change := range map[string]func(tx *state.Tx){
		"evidence": func(tx *state.Tx) {
			tx.PutEvidence(&recovery.Evidence{Node: "a", Relation: lineage.Foreign})
		},
		"a mount without a name": func(tx *state.Tx) {
			tx.PutInventoryHead(&state.InventoryHead{Node: "a", Unknown: []volume.UnknownMount{{Path: "/somewhere"}}})
		},
	} {
		h := newHouse(t)
		w := state.NewWatch()
		s := h.Store.Snapshot()
		Of(s, w).Volume(s.Volume(nil, data))
		h.write(change)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.Wait(ctx); err != nil {
			t.Errorf("%s wakes nobody: %v", name, err)
		}
	}
}

// Given a snapshot of a volume that is made or deleted, and fails, then the volume says so, with the next try; of one
// that is made it says nothing. Who waits for news of the volume hears of each.
func TestAVolumeSaysWhatItsSnapshotsWaitFor(t *testing.T) {
	h := newHouse(t)
	h.write(func(tx *state.Tx) {
		v := *tx.Volume(nil, data)
		v.UID = "uid"
		tx.PutVolume(&v)
	})
	v := h.Store.Snapshot().Volume(nil, data)
	id := volume.SnapshotID(v.UID, "nightly")
	for _, c := range []struct {
		change volume.Snapshot
		says   string // empty: nothing
	}{
		{volume.Snapshot{Phase: volume.PhaseCreating}, `its snapshot "nightly" is being made at the provider`},
		{volume.Snapshot{
			Phase:     volume.PhaseCreating,
			Tries:     2,
			LastError: "no capacity",
			NextTry:   time.Unix(0, 0),
		}, "try 2 failed: no capacity; next try at 1970-01-01T00:00:00Z"},
		{volume.Snapshot{Phase: volume.PhaseCreating, Suspended: true}, ""},
		{volume.Snapshot{Phase: volume.PhaseReady}, ""},
		{volume.Snapshot{Phase: volume.PhaseDeleting}, `its snapshot "nightly" is being deleted`},
	} {
		before := VolumeIndex(h.Store.Snapshot(), h.view())
		h.write(func(tx *state.Tx) {
			sn := c.change
			sn.ID, sn.Name = id, "nightly-"+id[:8]
			sn.Plugin, sn.SourceExternalID = v.Spec.Plugin, v.Status.ExternalID
			tx.PutVolumeSnapshot(&sn)
		})
		says := strings.Join(h.view().State, "\n")
		if after := VolumeIndex(h.Store.Snapshot(), h.view()); after <= before {
			t.Errorf("%+v is no news: index %d, %d before", c.change, after, before)
		}
		if !strings.Contains(says, c.says) || c.says == "" && strings.Contains(says, "snapshot") {
			t.Errorf("%+v: the volume says %q, want %q", c.change, says, c.says)
		}
	}
}

// Given a permanent refusal, then it is shown for the use that the volume is in, or for any while it is in none; and
// not for a volume that is attached.
func TestARefusalIsShownForTheUseThatItIsAbout(t *testing.T) {
	h := newHouse(t)
	key := volume.StagingKey{Plugin: "p", ExternalID: "x"}
	use := volume.Wish(volume.SingleNodeWriter, volume.FileSystem, nil)
	h.write(func(tx *state.Tx) {
		tx.PutShortage(&plugin.Shortage{
			ShortageKey: plugin.ShortageKey{Node: "a", Plugin: "p", ExternalID: "x"},
			Reason:      "it is too old",
			Use:         use,
		})
	})
	for _, c := range []struct {
		mode  volume.AccessMode
		is    bool
		other string
	}{
		{"", true, "it is in no use"},
		{volume.SingleNodeWriter, true, "it is in that use"},
		{volume.MultiNodeReader, false, "it is in another use"},
	} {
		h.write(func(tx *state.Tx) {
			v := *tx.Volume(nil, data)
			v.Status.AccessMode, v.Status.AttachmentMode = c.mode, volume.FileSystem
			tx.PutVolume(&v)
		})
		if got := Refusal(h.Store.Snapshot(), nil, key, "a"); (got != "") != c.is {
			t.Errorf("%s: %q", c.other, got)
		}
		attached := &volume.Attachment{
			Volume:     data,
			Node:       "a",
			Plugin:     "p",
			ExternalID: "x",
			Presence:   volume.Present,
		}
		if why, _ := Attaching(h.Store.Snapshot(), nil, key, "a", attached); strings.Contains(why, "too old") {
			t.Errorf("%s and attached: %q", c.other, why)
		}
	}
}

// Given an expansion that a restore suspended, when it is shown, then the command that asks for it again names the size
// to the byte: what was asked for last, or what the volume has where that was no more.
func TestASuspendedExpansionIsAskedForAgainWithItsSize(t *testing.T) {
	for _, c := range []struct {
		asked, has int64
		want       string
	}{
		{2 << 30, 1 << 30, "berth volume expand -size 2GiB data"},
		{3001, 2000, "berth volume expand -size 3001 data"},
		{1 << 30, 2 << 30, "berth volume expand -size 2GiB data"}, // it was cancelled
	} {
		v := &volume.Volume{ID: data}
		v.Spec.CapacityMin = c.asked
		v.Status.Capacity = c.has
		v.Status.Phase, v.Status.Suspended = volume.PhaseExpanding, true
		if got := suspendedVolume(v).Resume; got != c.want {
			t.Errorf("%d of %d bytes: %q, want %q", c.asked, c.has, got, c.want)
		}
	}
}
