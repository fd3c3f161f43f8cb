package reports_test

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/reports"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

var (
	id    = volume.ID{Namespace: ids.DefaultNamespace, ID: "db"}
	key   = volume.StagingKey{Plugin: "p", ExternalID: "x"}
	at    = volume.AttachmentKey{StagingKey: key, Node: "n"}
	epoch = volume.Epoch{Incarnation: "i", Index: 1}
)

func claimOf(a ids.Alloc, st volume.ClaimState) *volume.Claim {
	return &volume.Claim{
		Volume:         id,
		UID:            "u",
		Plugin:         key.Plugin,
		ExternalID:     key.ExternalID,
		Alloc:          a,
		Node:           "n",
		AccessMode:     volume.SingleNodeWriter,
		AttachmentMode: volume.FileSystem,
		State:          st,
		Epoch:          epoch,
	}
}

// inUse is a state in which alloc a has the volume, attached and published on its node, and is to stop.
func inUse(t *testing.T, tune ...func(*state.Tx)) *localstate.Cluster {
	t.Helper()
	c := localstate.New(t)
	if err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		m := *tx.Meta(nil)
		m.Incarnation = epoch.Incarnation
		tx.PutMeta(&m)
		tx.PutVolume(&volume.Volume{ID: id, UID: "u", Spec: volume.Spec{Plugin: key.Plugin}, Status: volume.Status{
			Phase:      volume.PhaseReady,
			ExternalID: key.ExternalID,
			AccessMode: volume.SingleNodeWriter,
			Provider:   "p.io",
		}})
		tx.PutPlugin(&plugin.Record{ID: key.Plugin, Provider: "p.io", Negotiated: true, NeedsAttach: true})
		tx.PutJob(&job.Job{Namespace: ids.DefaultNamespace, ID: "j", Stop: true})
		tx.PutAlloc(&alloc.Alloc{
			ID:            "a",
			Namespace:     ids.DefaultNamespace,
			Job:           "j",
			Node:          "n",
			DesiredStatus: alloc.DesiredStop,
			ClientStatus:  alloc.ClientRunning,
		})
		tx.PutClaim(claimOf("a", volume.Held))
		tx.PutAttachment(&volume.Attachment{
			Volume:     id,
			UID:        "u",
			Node:       "n",
			Plugin:     key.Plugin,
			ExternalID: key.ExternalID,
			Presence:   volume.Present,
		})
		tx.PutInventoryHead(&state.InventoryHead{Node: "n", AllocIndex: 1, FullIndex: 1})
		tx.PutInventoryEntry("n", volume.InventoryEntry{StagingKey: key, Volume: id, Staging: volume.Present})
		for _, fn := range tune {
			fn(tx)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

// released is what the node reports when the alloc has ended and let its volume go.
func released(c *localstate.Cluster) *reports.NodeReport {
	return &reports.NodeReport{
		Allocs: &fsm.AllocClientUpdate{
			Seed:   "s",
			Allocs: []*alloc.Alloc{{ID: "a", Node: "n", ClientStatus: alloc.ClientComplete}},
		},
		Inventory: &fsm.InventoryApply{
			Node:       "n",
			AllocIndex: 1,
			Prev:       c.Store.Snapshot().InventoryHead(nil, "n").ModifyIndex,
			Entries:    []volume.InventoryEntry{{StagingKey: key, Volume: id, Staging: volume.Absent}},
		},
		Executors: []reports.Executor{{StagingKey: key, Node: "controller"}},
	}
}

// TestAnEndAndItsReleaseAreOneStep: one entry ends the alloc and its claim, and says before the call that the volume
// may have been detached, by whom.
func TestAnEndAndItsReleaseAreOneStep(t *testing.T) {
	c := inUse(t)
	done := c.Must(t, released(c)).(*reports.NodeReported)
	s := c.Store.Snapshot()
	if len(done.Inventory.Acked) != 1 || done.Inventory.Stale {
		t.Errorf("the node was answered %+v", done.Inventory)
	}
	if s.Claim(nil, volume.ClaimKey{Volume: id, Alloc: "a"}) != nil {
		t.Error("the claim has not ended")
	}
	a := s.Attachment(nil, at)
	if a == nil || a.Presence != volume.Uncertain || !a.Detaching || a.Executor != "controller" ||
		a.Generation != s.Index() {
		t.Errorf("the attachment is %+v", a)
	}
}

// TestADetachIsIntendedOnlyWhereItIsNext: whoever still needs the attachment, or whatever has to be looked at first,
// keeps the command from noting a detach: then the keeper decides.
func TestADetachIsIntendedOnlyWhereItIsNext(t *testing.T) {
	for name, test := range map[string]struct {
		tune   func(*state.Tx)
		report func(*reports.NodeReport)
	}{
		"its successor is on the same node": {tune: func(tx *state.Tx) {
			tx.PutClaim(claimOf("b", volume.Queued))
		}},
		"the last call on it failed": {tune: func(tx *state.Tx) {
			a := *tx.Attachment(nil, at)
			a.LastError = "no"
			tx.PutAttachment(&a)
		}},
		"another provider serves the plugin": {tune: func(tx *state.Tx) {
			tx.PutPlugin(&plugin.Record{ID: key.Plugin, Provider: "other.io", Negotiated: true, NeedsAttach: true})
		}},
		"nobody could make the call": {report: func(r *reports.NodeReport) { r.Executors = nil }},
		"the node still has it": {report: func(r *reports.NodeReport) {
			r.Inventory.Entries[0].Staging = volume.Uncertain
		}},
		"the alloc goes on": {report: func(r *reports.NodeReport) {
			r.Allocs.Allocs[0].ClientStatus = alloc.ClientRunning
		}},
		"the report is not the newest": {report: func(r *reports.NodeReport) { r.Inventory.Prev = 99 }},
	} {
		t.Run(name, func(t *testing.T) {
			var tune []func(*state.Tx)
			if test.tune != nil {
				tune = append(tune, test.tune)
			}
			c := inUse(t, tune...)
			r := released(c)
			if test.report != nil {
				test.report(r)
			}
			c.Must(t, r)
			if a := c.Store.Snapshot().Attachment(nil, at); a == nil || a.Presence != volume.Present || a.Detaching {
				t.Errorf("the attachment is %+v", a)
			}
		})
	}
}
