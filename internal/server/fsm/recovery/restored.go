package recovery

import (
	model "berth/internal/model/recovery"
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
		out, err := begin.Apply(tx, st)
		if err != nil {
			return err
		}
		rec = out.(*model.Record)
		tx.TouchAll()
		return nil
	})
	return rec, err
}
