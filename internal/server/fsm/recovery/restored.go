package recovery

import (
	"bytes"
	"slices"
	"time"

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
		follows := present.Relate(then) == lineage.Continues
		keepTrust(tx, present, follows)
		if follows {
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
// it: whoever joins would refuse one that is not in the list. follows: the present state is what became of the saved
// one.
func keepTrust(tx *state.Tx, present *state.Snap, follows bool) {
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
	if now := present.Authority(nil); now != nil {
		kept := authority(tx.Authority(nil), now, follows, tx.Stamp().Time)
		tx.PutAuthority(&kept)
	}
	keys.Unite(tx, present)
}

// authority is that with which the cluster goes on: the present one, unless the saved one took its place. Every root
// that nodes may know is trusted besides, but what the present state has forgotten since stays forgotten.
func authority(saved, present *state.Authority, follows bool, at time.Time) state.Authority {
	if saved == nil || follows {
		return *present
	}
	kept, other := *present, saved
	if slices.ContainsFunc(saved.Former, func(f trust.Former) bool { return bytes.Equal(f.Root, present.Root) }) {
		kept, other = *saved, present
	}
	gone := trust.Former{Root: other.Root, Until: at.Add(trust.Overlap)}
	kept.Former = trust.Unite(kept.Root, kept.Former, append(slices.Clone(other.Former), gone))
	return kept
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
