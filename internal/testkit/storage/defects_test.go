package storage

import (
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// These scenarios show what is known to be broken. Each names the defect that the oracle must see: once it is cured the
// test fails, and the defect's line is taken out.

// TestAStageThatIsUndoneIsMadeAgainAfterAPause: ALREADY_EXISTS asks for the undo first, and the pauses hold over both.
func TestAStageThatIsUndoneIsMadeAgainAfterAPause(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{}, "(NodeStage * before AlreadyExists x3)")
	p.Tell(func(f *oracle.Facts) { f.MinPause = 300 * time.Millisecond }) // the node's least pause is longer
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	c.running("web")
	c.stopJob("web")
	c.atRest(p)
}

// TestASnapshotWhoseAnswerIsLostIsMadeOnce: given a snapshot of which the provider's answer is lost, and servers that
// end before they ask again, when the next leader goes on, and whoever asked for a name asks again, then the provider
// has made one. A person who asks for another without a name gets another.
func TestASnapshotWhoseAnswerIsLostIsMadeOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cut", ""} {
		t.Run("name "+name, func(t *testing.T) {
			t.Parallel()
			c, _, p := one(t, csitest.Fake{}, "(CreateSnapshot * after-effect DeadlineExceeded once)")
			c.mustCreate("db", p, volume.SingleNodeWriter)
			ask := func(wait time.Duration) (*wire.SnapshotReply, error) {
				return wire.SnapshotCreate.Call(t.Context(), c.conn,
					&wire.SnapshotCreateRequest{Volume: volID("db"), Name: name, Wait: wait})
			}
			if reply, err := ask(time.Millisecond); err != nil || reply.Outcome != wire.Accepted {
				t.Fatalf("%+v, %v", reply, err)
			}
			eventually(t, "the provider was asked", func() bool { return count(p, "CreateSnapshot") > 0 })
			c.end()
			c.serve()
			ready := func() (names []string) {
				for sn := range c.s.Store().Snapshot().VolumeSnapshots(nil) {
					if sn.Phase == volume.PhaseReady {
						names = append(names, sn.ExternalID)
					}
				}
				return names
			}
			eventually(t, "the snapshot is there", func() bool { return len(ready()) == 1 })
			if n := len(kept(t, p, "snapshots")); n != 1 || count(p, "CreateSnapshot") < 2 {
				t.Errorf("the provider has %d snapshots, after the calls %v", n, p.Calls())
			}
			again, err := ask(time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if other := again.Snapshot.ExternalID != ready()[0] || len(ready()) > 1; other != (name == "") {
				t.Errorf("asked for again, it is another one: %t", other)
			}
			for _, id := range ready() {
				if _, err := wire.SnapshotDelete.Call(t.Context(), c.conn, &wire.SnapshotDeleteRequest{
					Namespace:  ids.DefaultNamespace,
					Plugin:     ids.Plugin(p.ID),
					SnapshotID: id,
					Wait:       time.Minute,
				}); err != nil {
					t.Error(err)
				}
			}
			c.atRest(p)
		})
	}
}

// TestASnapshotWhoseAnswerWasLostIsNotForgotten: a refusal that follows an unknown end does not say that nothing is
// there.
func TestASnapshotWhoseAnswerWasLostIsNotForgotten(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{}, "(CreateSnapshot * after-effect DeadlineExceeded once)",
		"(CreateSnapshot * before InvalidArgument from 2 once)")
	c.mustCreate("db", p, volume.SingleNodeWriter)
	if r, err := wire.SnapshotCreate.Call(t.Context(), c.conn,
		&wire.SnapshotCreateRequest{Volume: volID("db"), Name: "cut", Wait: 2 * time.Second}); err == nil &&
		r.Outcome != wire.Accepted {
		t.Error("the refused snapshot was made")
	}
	var record string
	for sn := range c.s.Store().Snapshot().VolumeSnapshots(nil) {
		record = sn.ID
	}
	if record == "" {
		t.Fatal("a snapshot that may be there is forgotten")
	}
	// Its id is learned by asking for it once more; then it is deleted.
	if _, err := wire.SnapshotDelete.Call(t.Context(), c.conn, &wire.SnapshotDeleteRequest{
		Namespace:  ids.DefaultNamespace,
		Plugin:     ids.Plugin(p.ID),
		SnapshotID: record,
		Wait:       time.Minute,
	}); err != nil {
		t.Error(err)
	}
	c.atRest(p)
}
