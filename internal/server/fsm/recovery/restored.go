package recovery

import (
	"slices"

	"berth/internal/model/lineage"
	model "berth/internal/model/recovery"
	"berth/internal/model/trust"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/state"
)

// Restored makes of a saved state the one that takes the place of the present: its recovery has begun before anybody
// sees it. What it holds counts from index on, so that nobody who waits for news mistakes it for what was before.
func Restored(saved *state.Store, present *state.Snap, index uint64, begin *Begin) (*model.Record, error) {
	st := present.Stamp()
	if at := saved.Snapshot().Stamp(); at.Time.After(st.Time) {
		st.Time = at.Time
	}
	st.Index = max(index, present.Index()+1, saved.Snapshot().Index()+1)
	var rec *model.Record
	err := saved.Write(st, func(tx *state.Tx) error {
		then := tx.Point(nil)
		out, err := begin.Apply(tx, st)
		if err != nil {
			return err
		}
		rec = out.(*model.Record)
		keepTrust(tx, present)
		if present.Relate(then) == lineage.Continues {
			revoke(tx, present)
		}
		tx.TouchAll()
		return nil
	})
	return rec, err
}

// keepTrust keeps who has joined this cluster since the state was saved, and the join tokens as they are now: one that
// was revoked or used up lets nobody in again, nor is a server a member again that was removed, or found where it was.
// Who is denied in either state is, and the keys that secrets are sealed with and that the cluster signs with are those
// of both. A state of another cluster knows nobody of this one but the servers that take it up, which others find by
// it: whoever joins would refuse one that is not in the list.
func keepTrust(tx *state.Tx, present *state.Snap) {
	now, then := present.Meta(nil), tx.Meta(nil)
	for _, a := range slices.Collect(tx.Admissions(nil)) {
		tx.DeleteAdmission(a.ID)
	}
	if now == nil || then == nil || now.ClusterID != then.ClusterID {
		for m := range present.Members(nil, trust.Server) {
			if kept := *m; !m.Gone() {
				tx.PutMember(&kept)
			}
		}
		return
	}
	for a := range present.Admissions(nil) {
		kept := *a
		tx.PutAdmission(&kept)
	}
	for _, role := range []trust.Role{trust.Server, trust.Node} {
		for m := range present.Members(nil, role) {
			kept := *m
			if was := tx.Member(nil, role, m.ID); was != nil && kept.Denied == nil {
				kept.Denied = was.Denied
			}
			tx.PutMember(&kept)
		}
	}
	if a := present.Authority(nil); a != nil && tx.Authority(nil) == nil {
		kept := *a
		tx.PutAuthority(&kept)
	}
	keys.Unite(tx, present)
}

// revoke takes out the tokens of access control lists that the present state has no more, although it had them when the
// other one was saved: they were deleted, or have expired.
func revoke(tx *state.Tx, present *state.Snap) {
	for _, t := range slices.Collect(tx.ACLTokens(nil, "")) {
		if present.ACLToken(nil, t.Accessor) == nil {
			tx.DeleteACLToken(t.Accessor)
		}
	}
}
