package recovery_test

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/recovery"
	"berth/internal/server/fsm/replacement"
	"berth/internal/server/fsm/sessions"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
)

// TestWhatEndsASuspensionLetsTheQueueGoOn: given an alloc that waits in the queue of a volume which nobody holds, only
// because of a suspension, when that ends, by a report or by a person's word about another node, then the alloc has the
// volume: nothing else would look at the queue.
func TestWhatEndsASuspensionLetsTheQueueGoOn(t *testing.T) {
	forked := func(r *rig) { // ash has seen another history of this state
		seen := r.snap().Point(nil)
		seen.Mark = "of another history"
		r.c.Must(r.t, &recovery.Evidence{Node: r.ash, Seen: seen, Relation: lineage.Forked})
	}
	foreign := func(r *rig) { // ash held what another state placed
		r.c.Must(r.t, &recovery.Evidence{Node: r.ash, Relation: lineage.Foreign,
			Seen: lineage.Point{Incarnation: "another", Mark: "m", Index: 7}})
	}
	doubted := func(r *rig) { // another boot of ash may live
		r.write(func(tx *state.Tx) {
			tx.PutSession(&node.Session{Node: r.ash, Epoch: "e", OtherBoot: &node.OtherBoot{Index: 1}})
		})
	}
	holds := func(r *rig) { // ash has the volume mounted for an alloc that the state does not know
		r.reports(r.ash, "", volume.InventoryEntry{StagingKey: disk, Volume: r.vol, Staging: volume.Present,
			Publications: []volume.InventoryPublication{{Alloc: "unknown", Presence: volume.Present}}})
	}
	unnamed := func(r *rig) { // ash has a mount in the volume's place, and no record of it
		r.write(func(tx *state.Tx) {
			dir := ids.Segment(string(disk.Plugin))
			tx.PutInventoryHead(&state.InventoryHead{Node: r.ash, Unknown: []volume.UnknownMount{{
				Path: "/data/csi/" + dir + "/" + volume.StagingTail(disk.ExternalID),
				Dir:  dir,
			}}})
		})
	}
	listed := func(r *rig) { r.begin(&recovery.Replaced{Whole: true, Incarnation: "replaced"}) }
	unlisted := func(r *rig) { r.begin(nil) }
	reports := func(id func(*rig) ids.Node) func(*rig) { return func(r *rig) { r.reports(id(r), "") } }
	ash := func(r *rig) ids.Node { return r.ash }
	oak := func(r *rig) ids.Node { return r.oak }
	confirm := func(r *rig) {
		r.c.Must(r.t, &sessions.Confirm{Node: r.ash, Reason: "nothing else of it runs"})
	}
	down := func(r *rig) {
		r.c.Must(r.t, &fsm.NodeStatus{Nodes: []ids.Node{r.ash}, Status: node.StatusDown})
	}
	for name, c := range map[string]struct {
		given []func(*rig)
		when  func(*rig)
	}{
		"the last node reports": {[]func(*rig){listed, reports(oak)}, reports(ash)},
		"a person says that no node is missing": {[]func(*rig){unlisted, reports(ash), reports(oak)},
			func(r *rig) { r.c.Must(r.t, &recovery.Finish{Reason: "these are all"}) }},
		"a person says that the last node is dead": {[]func(*rig){listed, reports(oak), down},
			func(r *rig) { r.c.Must(r.t, &recovery.Dismiss{Node: r.ash, Reason: "it burnt"}) }},
		"a person says that the dead node cannot write to it": {[]func(*rig){listed, reports(oak), down},
			func(r *rig) {
				r.c.Must(r.t, &recovery.Attest{StagingKey: disk, Node: r.ash, Reason: "it burnt"})
			}},
		"a person says that what a node shows is wrong": {[]func(*rig){forked, doubted},
			func(r *rig) { r.c.Must(r.t, &recovery.Dismiss{Node: r.ash, Reason: "its disk is another's"}) }},
		"a node has ended what another state placed": {[]func(*rig){foreign, holds},
			func(r *rig) {
				r.reports(r.ash, "")
				r.c.Must(r.t, &recovery.Evidence{Node: r.ash, Withdrawn: true})
			}},
		"a node has released what nothing claims any more": {[]func(*rig){holds}, reports(ash)},
		"a dead node that held it is replaced": {[]func(*rig){holds, down},
			func(r *rig) {
				r.c.Must(r.t, &replacement.NodeReplace{Old: r.ash, New: r.oak, Reason: "it burnt"})
			}},
		"a node has nothing mounted any more without a record": {[]func(*rig){unnamed}, reports(ash)},
		"a node with a mount without a record dies":            {[]func(*rig){unnamed}, down},
		"a person vouches for the node that a recovery waits for": {[]func(*rig){listed, reports(oak), doubted,
			reports(ash)}, confirm},
		"a person vouches for a node that held what another state placed": {[]func(*rig){foreign, doubted}, confirm},
		"a person vouches for a node that shows another history":          {[]func(*rig){forked, doubted}, confirm},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			cl := &volume.Claim{
				Volume:         r.vol,
				Alloc:          "a",
				Node:           r.oak,
				AccessMode:     volume.SingleNodeWriter,
				AttachmentMode: volume.FileSystem,
				State:          volume.Queued,
			}
			cl.Identify(r.snap().Volume(nil, r.vol))
			for _, given := range c.given {
				given(r)
			}
			r.write(func(tx *state.Tx) { tx.PutClaim(cl) })
			is := func() volume.ClaimState { return r.snap().Claim(nil, cl.Key()).State }
			r.write(func(tx *state.Tx) { fsm.Settle(tx, r.snap().Stamp(), disk) })
			if got := is(); got != volume.Queued {
				t.Fatalf("while the suspension lasts, the claim is %s", got)
			}
			c.when(r)
			if got := is(); got != volume.Held {
				t.Errorf("the claim is %s; in its way stands %q", got,
					suspension.Claims(r.snap(), nil, r.snap().Volume(nil, r.vol)))
			}
		})
	}
}
