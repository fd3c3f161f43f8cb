package worker

import (
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/partition"
	"berth/internal/server/fsm/partitioning"
	"berth/internal/server/planner"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Given a job of a pool whose nodes do not suffice, then what explains it names that pool, in the evaluation that
// waits, in the one that failed and in a plan, also after the job is one of another pool; and where a server would not
// understand that, nothing of it is stored.
func TestAFailureNamesThePoolOfItsJob(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.Must(t, &partitioning.NodePoolPut{Pool: &partition.NodePool{Name: "gpu"}})
		poor := service("poor", 1)
		poor.NodePool = "gpu"
		h.register(poor)
		pools := func() (out []string) {
			for e := range h.settle().EvalsByJob(nil, ids.DefaultNamespace, "poor") {
				if m := e.FailedTGAllocs["g"]; m != nil {
					out = append(out, m.NodePool)
				}
			}
			return out
		}
		before := pools()
		if len(before) < 2 || before[0] != "gpu" || before[1] != "gpu" {
			t.Fatalf("the failures are of the pools %q", before)
		}
		moved := service("poor", 1)
		dry, err := h.s.DryRun(t.Context(), &wire.JobPlanRequest{Job: moved})
		if err != nil || dry.FailedTGAllocs["g"].NodePool != "default" {
			t.Errorf("a plan says %+v, %v", dry, err)
		}
		h.register(moved)
		count := map[string]int{}
		for _, p := range pools() {
			count[p]++
		}
		if count["gpu"] == 0 || count["default"] == 0 || len(count) != 2 {
			t.Errorf("once it is of another pool, the failures are of %v", count)
		}

		err = h.Store.Write(state.Stamp{Index: h.Store.Snapshot().Index() + 1, Time: time.Now()},
			func(tx *state.Tx) error {
				m := *tx.Meta(nil)
				m.Schema = planner.PoolSchema - 1
				tx.PutMeta(&m)
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		if view := planner.ViewOf(h.Store.Snapshot()); view.Pools {
			t.Error("it is stored where a server does not understand it")
		}
	})
}
