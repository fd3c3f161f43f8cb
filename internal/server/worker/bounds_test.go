package worker

import (
	"runtime"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/server/fsm"
	"berth/internal/server/views"
	"berth/internal/wire"
)

// A count that a version without bounds accepted is in the log and comes back at every start.
func TestACountBeyondTheBoundEndsNoServer(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.node("n1")
		h.register(service("big", 3))
		was := live(h.settle(), "big")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		h.register(service("big", 2_000_000_000))
		h.register(service("fresh", 2_000_000_000))
		h.settle()
		h.stop()
		h.lead(h.Cluster) // as after a restart
		s := h.settle()
		if _, err := h.s.DryRun(t.Context(), &wire.JobPlanRequest{Job: service("dry", 2_000_000_000)}); err != nil {
			t.Errorf("dry run: %v", err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("it took %d MB", used>>20)
		}
		for job, runs := range map[string]int{"big": len(was), "fresh": 0} {
			if got := live(s, job); len(got) != runs {
				t.Errorf("job %s has %d allocs, had %d", job, len(got), runs)
			}
			b := blocked(s, job)
			if len(b) != 1 ||
				!strings.Contains(b[0].StatusDescription, "count 2000000000 exceeds the bound of 100000") ||
				!strings.Contains(h.why(job), "count 2000000000 exceeds") {
				t.Errorf("job %s: %s", job, h.why(job))
			}
			v, _ := views.JobView(s, nil, s.Job(nil, ids.DefaultNamespace, ids.Job(job)))
			if v.Summary["g"].Queued != 1 {
				t.Errorf("job %s: summary %+v", job, v.Summary)
			}
		}
		h.register(service("big", 4))
		if got := live(h.settle(), "big"); len(got) != 4 {
			t.Errorf("with less it has %d allocs: %s", len(got), h.why("big"))
		}
		h.Must(t, &fsm.JobDeregister{Namespace: ids.DefaultNamespace, Job: "fresh", Purge: true, Seed: ids.New()})
		s = h.settle()
		if s.Job(nil, ids.DefaultNamespace, "fresh") != nil {
			t.Error("it cannot be purged")
		}
		for e := range s.EvalsByJob(nil, ids.DefaultNamespace, "fresh") {
			if e.Status == eval.StatusBlocked || e.Status == eval.StatusPending {
				t.Errorf("a purged job has an evaluation %s", e.Status)
			}
		}
		if len(live(s, "big")) != 4 {
			t.Error("the other job was disturbed")
		}
	})
}
