package fsm

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/server/state"
)

// endOfSilence asks for a look at a job when its allocs of a silent node count as lost.
func endOfSilence(tx *state.Tx, st Stamp, seed string, j *job.Job, within time.Duration) []ids.Eval {
	e := NewEval(seed+within.String(), eval.TriggerMaxDisconnect, j)
	if within == 0 || tx.Eval(nil, e.ID) != nil {
		return nil
	}
	e.WaitUntil = st.Time.Add(within)
	tx.PutEval(e)
	return []ids.Eval{e.ID}
}

// loseUnknown gives up an alloc of which nothing is known when its claim ends for certain: what it wrote with it may go
// on elsewhere, and when its node comes back it is to end.
func loseUnknown(tx *state.Tx, st Stamp, cl *volume.Claim) {
	a := tx.Alloc(nil, cl.Alloc)
	if a == nil || a.ClientStatus != alloc.ClientUnknown {
		return
	}
	stopAlloc(tx, st, a, AllocStop{Alloc: a.ID, Description: lostText, ClientStatus: alloc.ClientLost})
	if j := tx.Job(nil, a.Namespace, a.Job); !j.Stopped() {
		followUp(tx, string(a.ID), eval.TriggerNodeUpdate, j)
	}
}
