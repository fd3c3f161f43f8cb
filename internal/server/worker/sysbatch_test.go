package worker

import (
	"testing"
	"time"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// Given a job of type sysbatch, then it runs to its end once on each node, on one that joins later too; a failure is
// not tried elsewhere, nor again; and a change of what it does runs it anew on all.
func TestASysBatchJobRunsOnceOnEachNode(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		once := func(arg string) *job.Job {
			j := service("clean", 1)
			j.Type = job.TypeSysBatch
			g := j.TaskGroups[0]
			g.ReschedulePolicy, g.Update = nil, nil
			g.Tasks[0].Env = map[string]string{"A": arg}
			return j
		}
		h.node("n1")
		h.node("n2")
		h.register(once("1"))
		first := live(h.settle(), "clean")
		if len(first) != 2 || first[0].Node == first[1].Node {
			t.Fatalf("%d allocs on two nodes: %s", len(first), h.why("clean"))
		}
		h.report(first[0], alloc.ClientComplete)
		h.report(first[1], alloc.ClientFailed)
		time.Sleep(26 * time.Hour)
		if got := live(h.settle(), "clean"); len(got) != 0 {
			t.Fatalf("%d allocs run again where it ended: %s", len(got), h.why("clean"))
		}
		h.node("n3")
		joined := live(h.settle(), "clean")
		if len(joined) != 1 || joined[0].Node == first[0].Node || joined[0].Node == first[1].Node {
			t.Fatalf("%d allocs on the node that joined: %s", len(joined), h.why("clean"))
		}
		h.report(joined[0], alloc.ClientComplete)
		h.register(once("1"))
		if got := live(h.settle(), "clean"); len(got) != 0 {
			t.Errorf("the same job again runs %d", len(got))
		}
		h.register(once("2"))
		if got := live(h.settle(), "clean"); len(got) != 3 {
			t.Errorf("%d of three nodes run what changed: %s", len(got), h.why("clean"))
		}
	})
}
