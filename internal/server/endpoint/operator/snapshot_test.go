package operator

import (
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// Given new servers, then the saved state of another cluster takes the place of theirs, also when they run what Berth
// runs for itself; but not of servers that somebody uses.
func TestASavedStateReplacesNewServersAlone(t *testing.T) {
	saved := localstate.New(t).Store.Snapshot()
	for what, c := range map[string]struct {
		given func(*state.Tx)
		new   bool
	}{
		"nothing": {func(*state.Tx) {}, true},
		"the bundled plugin": {func(tx *state.Tx) {
			tx.PutJob(&job.Job{Namespace: ids.ReservedNamespace, ID: "local-csi"})
		}, true},
		"a job": {func(tx *state.Tx) {
			tx.PutJob(&job.Job{Namespace: ids.ReservedNamespace, ID: "local-csi"})
			tx.PutJob(&job.Job{Namespace: ids.DefaultNamespace, ID: "db"})
		}, false},
		"a volume": {func(tx *state.Tx) {
			tx.PutVolume(&volume.Volume{ID: volume.ID{Namespace: ids.DefaultNamespace, ID: "v"}, UID: "u"})
		}, false},
		"an attachment of a volume that was forgotten": {func(tx *state.Tx) {
			tx.PutAttachment(&volume.Attachment{
				Volume:     volume.ID{Namespace: ids.DefaultNamespace, ID: "v"},
				Node:       "n",
				Plugin:     "disk",
				ExternalID: "vol-1",
				Presence:   volume.Present,
			})
		}, false},
	} {
		present := localstate.New(t)
		err := present.Store.Write(present.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
			c.given(tx)
			m := *tx.Meta(nil)
			m.ClusterID = "another"
			tx.PutMeta(&m)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := replaceable(present.Store.Snapshot(), saved); (err == nil) != c.new ||
			err != nil && !fault.Has(err, fault.Conflict) {
			t.Errorf("servers with %s: %v", what, err)
		}
	}
}
