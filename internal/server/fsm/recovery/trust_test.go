package recovery_test

import (
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/fsm/recovery"
	"berth/internal/server/state"
)

// begun is a state of a cluster.
func begun(t *testing.T, cluster string, change func(tx *state.Tx)) *state.Store {
	t.Helper()
	s := state.New()
	st := state.Stamp{Index: 1, Time: time.Now()}
	if err := s.Write(st, func(tx *state.Tx) error {
		b := &fsm.Bootstrap{ClusterID: cluster, Incarnation: ids.New(), Schema: joining.Schema}
		if _, err := b.Apply(tx, st); err != nil {
			return err
		}
		change(tx)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestARestoredStateKeepsWhoIsTrustedNow: who has joined since it was saved stays in, and join tokens are those of now:
// one that was revoked lets nobody in again. Into another cluster nobody is taken over but the servers that take it up.
func TestARestoredStateKeepsWhoIsTrustedNow(t *testing.T) {
	cluster := ids.New()
	for _, same := range []bool{true, false} {
		saved := begun(t, cluster, func(tx *state.Tx) {
			tx.PutMember(&trust.Member{Role: trust.Node, ID: "old", Key: "ko"})
			tx.PutAdmission(&trust.Admission{ID: "revoked"})
			tx.PutMember(&trust.Member{Role: trust.Server, ID: "gone", Key: "kg"})
			tx.PutMember(&trust.Member{Role: trust.Server, ID: "leads", Key: "of the lost machine"})
			tx.PutAuthority(&state.Authority{Root: []byte("root")})
		})
		id := cluster
		if !same {
			id = ids.New()
		}
		present := begun(t, id, func(tx *state.Tx) {
			tx.PutMember(&trust.Member{Role: trust.Node, ID: "old", Key: "ko"})
			tx.PutMember(&trust.Member{Role: trust.Node, ID: "new", Key: "kn"})
			tx.PutMember(&trust.Member{Role: trust.Server, ID: "gone", Key: "kg", Removed: time.Unix(1, 0)})
			tx.PutMember(&trust.Member{Role: trust.Server, ID: "leads", Key: "kl", Address: "10.0.0.1:4647"})
			tx.PutAdmission(&trust.Admission{ID: "made since"})
		})
		_, err := recovery.Restored(saved, present.Snapshot(), 9, &recovery.Begin{
			Incarnation: ids.New(),
			Mark:        "m",
			Cause:       "a restore",
			Schema:      joining.Schema,
		})
		if err != nil {
			t.Fatal(err)
		}
		s := saved.Snapshot()
		if got := s.Member(nil, trust.Node, "new") != nil; got != same {
			t.Errorf("same cluster: %t: who joined since is in: %t", same, got)
		}
		if got := s.Member(nil, trust.Server, "gone").Gone(); got != same {
			t.Errorf("same cluster: %t: the server that was removed since is gone: %t", same, got)
		}
		if got := s.Member(nil, trust.Server, "leads"); got.Key != "kl" || got.Address == "" {
			t.Errorf("same cluster: %t: the server that takes up the state is listed as %+v", same, got)
		}
		if got := s.Admission(nil, "made since") != nil; got != same {
			t.Errorf("same cluster: %t: the token of since is there: %t", same, got)
		}
		if s.Admission(nil, "revoked") != nil || s.Member(nil, trust.Node, "old") == nil {
			t.Errorf("same cluster: %t: a revoked token is back, or a member is gone", same)
		}
	}
}
