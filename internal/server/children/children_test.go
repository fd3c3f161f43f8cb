package children_test

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/children"
	"berth/internal/server/state"
)

// TestHowALaunchedJobStands: it goes on while anything of it runs on a node, also what is to stop, and while an
// evaluation of it is under way; where nothing has a place for it, it is placeless; else it is over.
func TestHowALaunchedJobStands(t *testing.T) {
	j := &job.Job{Namespace: "app", ID: "child"}
	unplaced := map[string]*alloc.Metric{"g": {}}
	for name, c := range map[string]struct {
		allocs []alloc.Alloc
		evals  []eval.Eval
		want   children.Standing
	}{
		"nothing": {want: children.Over},
		"runs": {
			allocs: []alloc.Alloc{{DesiredStatus: alloc.DesiredRun, ClientStatus: alloc.ClientRunning}},
			want:   children.Going,
		},
		"is to stop, and runs": {
			allocs: []alloc.Alloc{{DesiredStatus: alloc.DesiredStop, ClientStatus: alloc.ClientRunning}},
			want:   children.Going,
		},
		"is wanted, and has ended": {
			allocs: []alloc.Alloc{{DesiredStatus: alloc.DesiredRun, ClientStatus: alloc.ClientComplete}},
			want:   children.Over,
		},
		"one of two has ended": {
			allocs: []alloc.Alloc{{ClientStatus: alloc.ClientFailed}, {ClientStatus: alloc.ClientPending}},
			want:   children.Going,
		},
		"is looked at": {
			evals: []eval.Eval{{Status: eval.StatusPending}},
			want:  children.Going,
		},
		"was looked at": {
			evals: []eval.Eval{{Status: eval.StatusComplete, FailedTGAllocs: unplaced}},
			want:  children.Over,
		},
		"has no place": {
			evals: []eval.Eval{{Status: eval.StatusBlocked, FailedTGAllocs: unplaced}},
			want:  children.Placeless,
		},
		"has no place, and is looked at": {
			evals: []eval.Eval{{Status: eval.StatusBlocked, FailedTGAllocs: unplaced}, {Status: eval.StatusPending}},
			want:  children.Going,
		},
		"waits for something else": {
			evals: []eval.Eval{{Status: eval.StatusBlocked}},
			want:  children.Going,
		},
	} {
		store := state.New()
		if err := store.Write(state.Stamp{Index: 1}, func(tx *state.Tx) error {
			tx.PutJob(j)
			for _, a := range c.allocs {
				a.ID = ids.Alloc(ids.New())
				a.Namespace, a.Job = j.Namespace, j.ID
				tx.PutAlloc(&a)
			}
			for _, e := range c.evals {
				e.ID = ids.Eval(ids.New())
				e.Namespace, e.Job = j.Namespace, j.ID
				tx.PutEval(&e)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got := children.StandingOf(store.Snapshot(), j); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
