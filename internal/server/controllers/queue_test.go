package controllers

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
)

// TestACallWaitsForTheUnknownEndOfAnotherOfItsVolume: given a call whose executor was lost, then another call of the
// volume waits until that node is down and the call has had its time, counted from when this leader began; the call's
// own repetition does not wait here, nor does another volume.
func TestACallWaitsForTheUnknownEndOfAnotherOfItsVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "gone", Name: "gone", SecretHash: "h"}})
		x := volume.StagingKey{Plugin: "p", ExternalID: "x"}
		of := func(ext string) volume.StagingKey { return volume.StagingKey{Plugin: "p", ExternalID: ext} }
		v, source := volume.ID{Namespace: ids.DefaultNamespace, ID: "v"}, volume.ID{Namespace: "default", ID: "source"}
		c.Must(t, &fsm.VolumePut{Volume: &volume.Volume{
			ID:     source,
			UID:    "source",
			Spec:   volume.Spec{Plugin: "p"},
			Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "cut"},
		}})
		for ext, cmd := range map[string]fsm.Command{
			"attached": &fsm.AttachmentPut{Attachment: &volume.Attachment{
				Volume:     v,
				Node:       "n",
				Plugin:     "p",
				ExternalID: "attached",
				Presence:   volume.Uncertain,
				Executor:   "gone",
			}},
			"expanded": &fsm.VolumePut{Volume: &volume.Volume{
				ID:     v,
				UID:    "u",
				Spec:   volume.Spec{Plugin: "p"},
				Status: volume.Status{Phase: volume.PhaseExpanding, ExternalID: "expanded", Executor: "gone"},
			}},
			"cut": &fsm.SnapshotPut{Snapshot: &volume.Snapshot{
				ID:               "s",
				Plugin:           "p",
				Namespace:        source.Namespace,
				Source:           source.ID,
				SourceExternalID: "cut",
				Phase:            volume.PhaseCreating,
				Executor:         "gone",
			}},
		} {
			c.Must(t, cmd)
			d := New()
			said := func(subject string) string { return d.Queue(c.Store.Snapshot(), of(ext), subject, "other") }
			if said("another") == "" {
				t.Errorf("%s: its executor was lost a moment ago, and the next call goes on", ext)
			}
			for other, subject := range map[string]string{
				"attached": "default/v@n",
				"expanded": "default/v",
				"cut":      "snapshot s",
			} {
				if why := said(subject); (why == "") != (other == ext) {
					t.Errorf("%s: the call of %s waits: %q", ext, subject, why)
				}
			}
			if why := d.Queue(c.Store.Snapshot(), x, "another", "other"); why != "" {
				t.Errorf("%s: another volume waits: %s", ext, why)
			}
			time.Sleep(time.Hour)
			if said("another") == "" {
				t.Errorf("%s: nobody has found the executor dead, and the next call goes on", ext)
			}
			down := func(is string) {
				c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{"gone"}, Status: is, Seed: ids.New()})
			}
			down(node.StatusDown)
			if why := said("another"); why != "" {
				t.Errorf("%s: the call has had its time: %s", ext, why)
			}
			d.Lead()
			time.Sleep(attaching.Timeout)
			if said("another") == "" {
				t.Errorf("%s: this leader has not waited for as long as the call may take", ext)
			}
			time.Sleep(grace)
			if why := said("another"); why != "" {
				t.Errorf("%s: the call has had its time under this leader: %s", ext, why)
			}
			down(node.StatusInit)
		}
	})
}
