package operator

import (
	"log/slog"
	"slices"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm/recovery"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// Given nodes that show other histories, when a person says that the servers' state was put back, then it goes on from
// what they have seen; not from what a person has dismissed.
func TestARecoveryGoesOnFromWhatNodesShow(t *testing.T) {
	c := localstate.New(t)
	e := New(Config{
		Base:     serving.Base{Store: c.Store, Cluster: leader.Alone{}},
		Proposer: c,
		Log:      slog.New(slog.DiscardHandler),
	})
	wrong := ids.Node(ids.New())
	for id, incarnation := range map[ids.Node]string{
		ids.Node(ids.New()): "of a restore",
		ids.Node(ids.New()): "of a second restore",
		wrong:               "of another cluster",
	} {
		c.Must(t, &recovery.Evidence{
			Node:     id,
			Seen:     lineage.Point{Incarnation: incarnation, Mark: "m", Index: 7},
			Relation: lineage.Foreign,
		})
	}
	c.Must(t, &recovery.Dismiss{Node: wrong, Reason: "its disk is another's"})
	before := c.Store.Snapshot().Meta(nil).Incarnation
	if _, err := e.begin(t.Context(), &wire.RecoveryWord{Reason: "server/ was put back"}); err != nil {
		t.Fatal(err)
	}
	want := []string{before, "of a restore", "of a second restore"}
	got := slices.Clone(c.Store.Snapshot().Meta(nil).Parents)
	slices.Sort(got[1:]) // of the nodes, in any order
	if !slices.Equal(got, want) {
		t.Errorf("the state goes on from %q, want %q", got, want)
	}
}
