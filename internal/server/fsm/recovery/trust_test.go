package recovery_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/model/datakey"
	"berth/internal/model/lineage"
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

// TestARestoredStateKeepsWhoIsDeniedInEither: who was denied since the state was saved is out, and so is who was denied
// then; of both, the later reason stays.
func TestARestoredStateKeepsWhoIsDeniedInEither(t *testing.T) {
	cluster := ids.New()
	now, then := &trust.Denial{Reason: "now"}, &trust.Denial{Reason: "then"}
	members := func(denied map[string]*trust.Denial) func(*state.Tx) {
		return func(tx *state.Tx) {
			for _, id := range []string{"both", "since", "then", "never"} {
				tx.PutMember(&trust.Member{Role: trust.Node, ID: id, Key: trust.KeyID("k-" + id), Denied: denied[id]})
			}
		}
	}
	saved := begun(t, cluster, members(map[string]*trust.Denial{"both": then, "then": then}))
	present := begun(t, cluster, members(map[string]*trust.Denial{"both": now, "since": now}))
	restored(t, saved, present)
	for id, want := range map[string]string{"both": "now", "since": "now", "then": "then", "never": ""} {
		got := ""
		if d := saved.Snapshot().Member(nil, trust.Node, id).Denied; d != nil {
			got = d.Reason
		}
		refused := joining.Refuses(saved.Snapshot(), trust.Peer{Key: trust.KeyID("k-" + id)})
		if got != want || refused != (want != "") {
			t.Errorf("%s: %q, refused: %t", id, got, refused)
		}
	}
}

// TestARestoredStateUnitesKeys: data keys, signing keys and the authority of the living cluster are there beside those
// that were saved; into a state of another cluster none comes.
func TestARestoredStateUnitesKeys(t *testing.T) {
	cluster := ids.New()
	for _, same := range []bool{true, false} {
		saved := begun(t, cluster, func(tx *state.Tx) {
			tx.PutDataKey(&datakey.Key{ID: "old", State: datakey.Active})
			tx.PutSigningKey(&state.SigningKey{ID: "old"})
		})
		id := cluster
		if !same {
			id = ids.New()
		}
		present := begun(t, id, func(tx *state.Tx) {
			tx.PutDataKey(&datakey.Key{ID: "new", State: datakey.Active})
			tx.PutSigningKey(&state.SigningKey{ID: "new"})
			tx.PutAuthority(&state.Authority{Root: []byte("root")})
		})
		restored(t, saved, present)
		s := saved.Snapshot()
		if k := s.DataKey(nil, "new"); (k != nil) != same || k != nil && k.State != datakey.Inactive {
			t.Errorf("same cluster: %t: the data key that came since is %+v", same, k)
		}
		if got := s.SigningKey(nil, "new") != nil; got != same {
			t.Errorf("same cluster: %t: the signing key that came since is there: %t", same, got)
		}
		if got := s.Authority(nil) != nil; got != same {
			t.Errorf("same cluster: %t: the authority that came since is there: %t", same, got)
		}
		if s.ActiveDataKey(nil).ID != "old" || s.SigningKey(nil, "old") == nil {
			t.Errorf("same cluster: %t: a key that was saved is gone", same)
		}
	}
}

// TestARestoreBringsNoTokenBack: given a token that was deleted since the state was saved, then it lets nobody in after
// the restore; one of a state that does not follow the saved one was not deleted, and stays.
func TestARestoreBringsNoTokenBack(t *testing.T) {
	for _, follows := range []bool{true, false} {
		saved := begun(t, ids.New(), func(tx *state.Tx) {
			tx.PutACLToken(&acl.Token{Accessor: "kept"})
			tx.PutACLToken(&acl.Token{Accessor: "deleted"})
			mark(tx, "m1")
		})
		var data bytes.Buffer
		if err := saved.Snapshot().Persist(&data); err != nil {
			t.Fatal(err)
		}
		present := state.New()
		if err := present.Restore(&data); err != nil {
			t.Fatal(err)
		}
		if err := present.Write(state.Stamp{Index: 5, Time: time.Now()}, func(tx *state.Tx) error {
			tx.DeleteACLToken("deleted")
			if !follows {
				m := *tx.Meta(nil)
				m.Incarnation = ids.New()
				tx.PutMeta(&m)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		restored(t, saved, present)
		s := saved.Snapshot()
		if back := s.ACLToken(nil, "deleted") != nil; back == follows {
			t.Errorf("follows: %t: the token that was deleted is there: %t", follows, back)
		}
		if s.ACLToken(nil, "kept") == nil {
			t.Errorf("follows: %t: a token is gone", follows)
		}
	}
}

// mark has a leadership begin in a state.
func mark(tx *state.Tx, id string) {
	tx.PutLineageMark(&lineage.Mark{ID: id, Index: 1})
	m := *tx.Meta(nil)
	m.Mark = id
	tx.PutMeta(&m)
}

// restored has a saved state take the place of the present one.
func restored(t *testing.T, saved, present *state.Store) {
	t.Helper()
	_, err := recovery.Restored(saved, present.Snapshot(), 9, &recovery.Begin{
		Incarnation: ids.New(),
		Mark:        "m",
		Cause:       "a restore",
		Schema:      joining.Schema,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestARestoreForgetsNoRootThatNodesKnow: given states of one cluster before and after its root was replaced, when one
// takes the place of the other, then the later root issues, and the other one is trusted. One that was forgotten since
// the state was saved stays forgotten; with states of two histories both roots are trusted.
func TestARestoreForgetsNoRootThatNodesKnow(t *testing.T) {
	old := &state.Authority{Root: []byte("old"), Sealed: []byte("k1")}
	next := &state.Authority{
		Root:   []byte("next"),
		Sealed: []byte("k2"),
		Former: []trust.Former{{Root: []byte("old"), Cross: []byte("x"), Until: time.Now().Add(time.Hour)}},
	}
	finished := &state.Authority{Root: []byte("next"), Sealed: []byte("k2")}
	other := &state.Authority{Root: []byte("other"), Sealed: []byte("k3")}
	for what, c := range map[string]struct {
		saved, present *state.Authority
		follows        bool
		root           string
		former         string // with how it vouches
	}{
		"saved before":                      {old, next, true, "next", "old by x"},
		"saved before, and forgotten since": {old, finished, true, "next", ""},
		"saved before, in another history":  {old, next, false, "next", "old by x"},
		"forgotten, in another history":     {old, finished, false, "next", "old by "},
		"saved after":                       {next, old, false, "next", "old by x"},
		"saved after, of another history":   {next, other, false, "other", "old by , next by "},
		"the same root":                     {old, old, false, "old", ""},
		"none was saved":                    {nil, next, false, "next", "old by x"},
		"none is there":                     {next, nil, false, "next", "old by x"},
	} {
		saved := begun(t, ids.New(), func(tx *state.Tx) {
			if c.saved != nil {
				a := *c.saved
				tx.PutAuthority(&a)
			}
			mark(tx, "m1")
		})
		var data bytes.Buffer
		if err := saved.Snapshot().Persist(&data); err != nil {
			t.Fatal(err)
		}
		present := state.New()
		if err := present.Restore(&data); err != nil {
			t.Fatal(err)
		}
		err := present.Write(state.Stamp{Index: 5, Time: time.Now()}, func(tx *state.Tx) error {
			if c.present != nil {
				a := *c.present
				tx.PutAuthority(&a)
			}
			if !c.follows {
				m := *tx.Meta(nil)
				m.Incarnation = ids.New()
				tx.PutMeta(&m)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if c.present == nil { // a state that never had one
			id := saved.Snapshot().Meta(nil).ClusterID
			present = begun(t, id, func(*state.Tx) {})
		}
		restored(t, saved, present)
		a := saved.Snapshot().Authority(nil)
		var trusted []string
		for _, f := range a.Former {
			trusted = append(trusted, string(f.Root)+" by "+string(f.Cross))
		}
		former := strings.Join(trusted, ", ")
		if string(a.Root) != c.root || former != c.former {
			t.Errorf("%s: %s, and trusted %q; want %s and %q", what, a.Root, former, c.root, c.former)
		}
	}
}
