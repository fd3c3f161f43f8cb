package scheduler

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// allocated is how many bytes a function asks of the heap.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func manyConstraints(j *job.Job) {
	for i := range 60_000 {
		j.Constraints = append(j.Constraints,
			&job.Constraint{LTarget: "${attr.kernel.name}", Operand: "regexp", RTarget: fmt.Sprintf("l.*%d", i)})
	}
}

// A job that was stored before there was a bound must not end the servers, again at each start.
func TestAStoredJobBeyondABoundIsHeld(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*job.Job)
		says   string
	}{
		"count": {func(j *job.Job) {
			j.TaskGroups[0].Count = 2_000_000_000
		}, "count 2000000000 exceeds the bound of 100000 allocs of one job"},
		"constraints": {manyConstraints, "constraints 60000 exceeds the bound of 1000 constraints of one job"},
		"system job":  {func(j *job.Job) { j.Type = job.TypeSystem; manyConstraints(j) }, "constraints 60000 exceeds"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.putNode(testNode("n1"))
			w.putNode(testNode("n2"))
			w.register(testJob("big", 4))
			w.schedule(w.newEval("big", eval.TriggerJobRegister))
			before := w.live("big")
			gone := before[0].Node
			j := testJob("big", 4)
			c.change(j)
			w.register(j)
			down := *w.nodes[gone]
			down.Status = node.StatusDown
			w.putNode(&down)
			var p Plan
			var x Explanation
			if used := allocated(func() {
				p, x = w.schedule(w.newEval("big", eval.TriggerJobRegister))
			}); used > 8<<20 {
				t.Errorf("it took %d MB", used>>20)
			}
			if len(p.Place)+len(p.InPlace) > 0 {
				t.Errorf("it places %d and updates %d", len(p.Place), len(p.InPlace))
			}
			if p.Eval.FailedTGAllocs["g"] == nil || len(p.Evals) != 1 || p.Evals[0].Status != eval.StatusBlocked {
				t.Fatalf("evaluation %+v, beside it %d", p.Eval, len(p.Evals))
			}
			for _, said := range []string{p.Eval.StatusDescription, p.Evals[0].StatusDescription,
				x.Failed["g"].Reasons[0].Reason} {
				if !strings.Contains(said, c.says) {
					t.Errorf("it says %q, want %q", said, c.says)
				}
			}
			for _, a := range before {
				now := w.allocs[a.ID]
				if a.Node == gone && now.ClientStatus != alloc.ClientLost ||
					a.Node != gone && now.DesiredStatus != alloc.DesiredRun {
					t.Errorf("%s on %s is %s, %s", a.Name, a.Node, now.DesiredStatus, now.ClientStatus)
				}
			}
			w.jobs["big"].Stop = true
			w.schedule(w.newEval("big", eval.TriggerJobDeregister))
			if left := w.live("big"); len(left) > 0 {
				t.Errorf("stopped, it has %d allocs", len(left))
			}
			if b := w.evals[p.Evals[0].ID]; b.Status != eval.StatusCanceled {
				t.Errorf("its blocked evaluation is %s", b.Status)
			}
		})
	}
}

// Given a job that waits for a place, and is then asked to be more than one evaluation places, then the rest is placed
// by the next one; nothing waits beside it.
func TestOneEvaluationPlacesSoManyAndTheNextGoesOn(t *testing.T) {
	w := newWorld()
	const left = 7
	j := testJob("many", job.MaxPlacements+left)
	j.TaskGroups = append(j.TaskGroups, testJob("other", 3).TaskGroups[0])
	j.TaskGroups[1].Name = "h"
	w.register(j)
	w.schedule(w.newEval("many", eval.TriggerJobRegister))
	if open := w.blocked("many"); len(open) != 1 {
		t.Fatalf("without a node %d evaluations wait", len(open))
	}
	for i := range 4 {
		n := testNode(fmt.Sprintf("n%d", i))
		n.Resources.CPUShares = 1 << 40
		n.Resources.MemoryMB = 1 << 40
		n.Resources.DiskMB = 1 << 40
		w.putNode(n)
	}
	first := w.newEval("many", eval.TriggerJobRegister)
	p, x := w.schedule(first)
	if len(p.Place) != job.MaxPlacements || x.Later != left+3 || p.Eval.QueuedAllocations["g"] != left ||
		p.Eval.QueuedAllocations["h"] != 3 {
		t.Fatalf("it places %d, leaves %d, queued %v", len(p.Place), x.Later, p.Eval.QueuedAllocations)
	}
	next := w.evals[p.Eval.NextEval]
	if p.Eval.Status != eval.StatusComplete || next == nil || next.Status != eval.StatusPending ||
		next.PreviousEval != first.ID {
		t.Fatalf("evaluation %+v, next %+v", p.Eval, next)
	}
	if open := w.blocked("many"); len(open) > 0 {
		t.Errorf("beside the evaluation that goes on at once another one waits: %+v", open[0])
	}
	if !strings.Contains(p.Eval.StatusDescription, "the next evaluation places 10 more") {
		t.Errorf("it says %q", p.Eval.StatusDescription)
	}
	p, _ = w.schedule(next)
	if len(p.Place) != left+3 || p.Eval.NextEval != "" || len(p.Evals) > 0 {
		t.Errorf("the next one places %d and goes on with %q", len(p.Place), p.Eval.NextEval)
	}
	names := map[string]ids.Alloc{}
	for _, a := range w.live("many") {
		if names[a.Name] != "" {
			t.Errorf("%s is there twice", a.Name)
		}
		names[a.Name] = a.ID
	}
	if len(names) != job.MaxPlacements+left+3 {
		t.Errorf("%d allocs", len(names))
	}
}
