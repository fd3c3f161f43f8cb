package worker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/scheduler"
	"berth/internal/server/fsm"
	"berth/internal/server/planner"
	"berth/internal/wire"
)

func TestARegisteredJobIsPlacedInTwoEntriesOfTheLog(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		n := h.node("n1")
		h.settle()
		before := h.Store.Snapshot().Index()
		e := h.register(service("web", 1))
		a := h.one("web")
		s := h.Store.Snapshot()
		if got := s.Index() - before; got != 2 {
			t.Errorf("placing a job took %d entries, want 2: the registration and the plan", got)
		}
		done := s.Eval(nil, e.ID)
		if done.Status != eval.StatusComplete || done.SnapshotIndex == 0 || a.Node != n || a.Eval != e.ID ||
			a.Name != "web.g[0]" {
			t.Errorf("evaluation %+v, alloc %+v", done, a)
		}
		// A second look finds nothing to do and says so.
		h.Must(t, &fsm.JobEvaluate{Namespace: ids.DefaultNamespace, Job: "web", Seed: ids.New()})
		if again := h.one("web"); again.ID != a.ID {
			t.Errorf("the alloc was replaced by %s", again.ID)
		}
		h.deregister("web")
		if got := live(h.settle(), "web"); len(got) != 0 {
			t.Errorf("a stopped job has %d allocs", len(got))
		}
	})
}

func TestOfTwoJobsOneGetsTheVolumeAndTheOtherGetsItNext(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.node("n1", withPlugin(0))
		h.node("n2", withPlugin(0))
		h.volume("data", volume.PhaseReady)
		h.stop() // both are registered before anybody looks
		h.register(onVolume(service("a", 1), "data"))
		h.register(onVolume(service("b", 1), "data"))
		h.lead(h.Cluster)
		s := h.settle()
		a, b := live(s, "a"), live(s, "b")
		if len(a)+len(b) != 1 {
			t.Fatalf("%d allocs of a and %d of b hold one volume", len(a), len(b))
		}
		winner, loser := "a", "b"
		if len(b) == 1 {
			winner, loser = loser, winner
		}
		if why := h.why(loser); !strings.Contains(why, "holds it on node") ||
			!strings.Contains(why, fmt.Sprintf("of job %q", winner)) {
			t.Errorf("the other does not say who holds the volume: %s", why)
		}
		h.deregister(winner)
		next := h.one(loser)
		claim := h.Store.Snapshot().Claim(nil,
			volume.ClaimKey{Volume: volume.ID{Namespace: ids.DefaultNamespace, ID: "data"}, Alloc: next.ID})
		if claim == nil || claim.State != volume.Queued {
			t.Fatalf("the next one's claim is %+v, want it queued behind the holder", claim)
		}
		for _, old := range append(a, b...) {
			h.report(old, alloc.ClientComplete)
			h.release(old)
		}
		if claim = h.settle().Claim(nil, claim.Key()); claim.State != volume.Held {
			t.Errorf("after the end of the holder the claim is %s", claim.State)
		}
	})
}

func TestEveryMissingThingThatComesLetsTheJobGoOn(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.register(onVolume(service("db", 1), "data"))
		waiting := func(step, reason string) {
			t.Helper()
			s := h.settle()
			if got := blocked(s, "db"); len(got) != 1 || len(live(s, "db")) != 0 {
				t.Fatalf("%s: %d blocked evaluations, %d allocs", step, len(got), len(live(s, "db")))
			}
			if why := h.why("db"); !strings.Contains(why, reason) {
				t.Fatalf("%s: it says %q, want %q", step, why, reason)
			}
		}
		waiting("no node", "does not exist")
		h.volume("data", volume.PhaseCreating)
		waiting("a volume in the making", `volume \"data\" is being made`)
		h.volume("data", volume.PhaseReady)
		h.node("n1")
		waiting("a node without plugin", "does not run on this node")
		h.node("n1", withPlugin(1))
		began := time.Now()
		a := h.one("db")
		if took := time.Since(began); took > 0 {
			t.Errorf("the plugin's coming was noticed after %s", took)
		}
		if len(blocked(h.Store.Snapshot(), "db")) != 0 {
			t.Error("a blocked evaluation is left")
		}

		// The only attach slot, and the only capacity: both come back when they are given back.
		h.volume("other", volume.PhaseReady)
		h.register(onVolume(service("slot", 1), "other"))
		big := service("big", 1)
		big.TaskGroups[0].Tasks[0].Resources.CPU = 950
		h.register(big)
		s := h.settle()
		if len(blocked(s, "slot")) != 1 || len(blocked(s, "big")) != 1 {
			t.Fatalf("slot: %s; big: %s", h.why("slot"), h.why("big"))
		}
		h.deregister("db")
		h.report(a, alloc.ClientComplete)
		h.settle()
		h.release(a)
		s = h.settle()
		if len(live(s, "slot"))+len(live(s, "big")) == 0 {
			t.Fatalf("what was given back was not noticed: slot: %s; big: %s", h.why("slot"), h.why("big"))
		}
	})
}

func TestABlockedEvaluationThatIsWokenInVainWritesNothing(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.node("n1")
		big := service("big", 1)
		big.TaskGroups[0].Tasks[0].Resources.CPU = 5000
		h.register(big)
		h.settle()
		for i := range 5 {
			h.node("n1", func(n *node.Node) { n.Meta["x"] = fmt.Sprint(i) })
			before := h.Store.Snapshot().Index()
			if after := h.settle().Index(); after != before {
				t.Fatalf("a change that does not help caused %d entries", after-before)
			}
		}
		h.node("n2", func(n *node.Node) { n.Resources.CPUShares = 6000 })
		h.one("big")
	})
}

func TestAFailedAllocIsReplacedWhenItsPauseIsOver(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.node("n1")
		h.register(service("web", 1))
		first := h.one("web")
		h.report(first, alloc.ClientFailed)
		failedAt := time.Now()
		s := h.settle()
		if f := s.Alloc(nil, first.ID).FollowupEval; f == "" || s.Eval(nil, f).Status != eval.StatusPending {
			t.Fatalf("the failed alloc names evaluation %q: %s", f, h.why("web"))
		}
		time.Sleep(29 * time.Second)
		if got := live(h.settle(), "web"); len(got) != 0 {
			t.Fatal("it was replaced before its pause was over")
		}
		time.Sleep(2 * time.Second)
		next := h.one("web")
		if next.PreviousAlloc != first.ID || len(next.Reschedule) != 1 || next.Reschedule[0].PrevNode != first.Node {
			t.Errorf("the successor is %+v", next)
		}
		if took := time.Since(failedAt); took > 32*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestALostNodesAllocsAreReplacedAndItsVolumeWaitsForProof(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.node("n1", withPlugin(0))
		h.volume("data", volume.PhaseReady)
		h.register(onVolume(service("db", 1), "data"))
		old := h.one("db")
		h.report(old, alloc.ClientRunning)
		h.node("n2", withPlugin(0))
		h.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{"n1"}, Status: node.StatusDown, Seed: ids.New()})
		next := h.one("db")
		s := h.Store.Snapshot()
		claim := s.Claim(nil,
			volume.ClaimKey{Volume: volume.ID{Namespace: ids.DefaultNamespace, ID: "data"}, Alloc: next.ID})
		if next.Node != "n2" || next.PreviousAlloc != old.ID || claim == nil || claim.State != volume.Queued {
			t.Fatalf("the successor is on %s after %s, its claim is %+v", next.Node, next.PreviousAlloc, claim)
		}
		if was := s.Alloc(nil, old.ID); was.ClientStatus != alloc.ClientLost || was.NextAlloc != next.ID {
			t.Errorf("the lost one is %+v", was)
		}
		h.release(old)
		if claim = h.settle().Claim(nil, claim.Key()); claim.State != volume.Held {
			t.Errorf("with the proof the claim is %s", claim.State)
		}
	})
}

func TestARollingUpdateGoesFromHealthyToHealthy(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.node("n1")
		h.register(service("web", 3))
		for _, a := range live(h.settle(), "web") {
			h.runsWell(a)
		}
		v2 := service("web", 3)
		v2.TaskGroups[0].Tasks[0].Env = map[string]string{"A": "2"}
		h.register(v2)
		for step := 1; step <= 3; step++ {
			fresh := 0
			for _, a := range live(h.settle(), "web") {
				if a.JobVersion == 1 {
					fresh++
					if a.Health == nil {
						h.runsWell(a)
					}
				}
			}
			if fresh != step {
				t.Fatalf("after step %d there are %d new allocs: %s", step, fresh, h.why("web"))
			}
		}
		if got := live(h.settle(), "web"); len(got) != 3 {
			t.Errorf("%d allocs", len(got))
		}
	})
}

func TestAPluginsSuccessorComesWhenItsProcessesAreGone(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.node("n1")
		h.node("n2")
		plug := func(arg string) *job.Job {
			j := service("plug", 1)
			j.Type = job.TypeSystem
			g := j.TaskGroups[0]
			g.ReschedulePolicy, g.Update = nil, nil
			g.Tasks[0].CSIPluginConfig = &job.CSIPluginConfig{ID: "p"}
			g.Tasks[0].Env = map[string]string{"A": arg}
			return j
		}
		h.register(plug("1"))
		old := live(h.settle(), "plug")
		if len(old) != 2 {
			t.Fatalf("%d allocs on two nodes: %s", len(old), h.why("plug"))
		}
		h.register(plug("2"))
		if got := live(h.settle(), "plug"); len(got) != 0 {
			t.Fatalf("%d successors beside their predecessors", len(got))
		}
		h.report(old[0], alloc.ClientComplete)
		if got := h.one("plug"); got.Node != old[0].Node {
			t.Errorf("the successor is on %s", got.Node)
		}
		h.report(old[1], alloc.ClientComplete)
		if got := live(h.settle(), "plug"); len(got) != 2 {
			t.Errorf("%d successors: %s", len(got), h.why("plug"))
		}
	})
}

func TestASystemJobComesToANodeThatJoins(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		j := service("sys", 1)
		j.Type = job.TypeSystem
		j.TaskGroups[0].ReschedulePolicy = nil
		h.register(j)
		if why := h.settle(); len(blocked(why, "sys")) != 1 {
			t.Errorf("without any node: %s", h.why("sys"))
		}
		h.node("n1")
		h.node("n2")
		if got := live(h.settle(), "sys"); len(got) != 2 {
			t.Errorf("%d allocs on two nodes: %s", len(got), h.why("sys"))
		}
		if got := blocked(h.Store.Snapshot(), "sys"); len(got) != 0 {
			t.Errorf("%d blocked evaluations are left", len(got))
		}
	})
}

func TestManyJobsAtOnceNeverTakeMoreThanThereIs(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		for i := range 3 {
			h.node(fmt.Sprintf("n%d", i))
		}
		h.stop()
		for i := range 60 {
			j := service(fmt.Sprintf("j%02d", i), 1)
			j.TaskGroups[0].Networks = []*job.NetworkResource{{Mode: "host", DynamicPorts: []job.Port{{Label: "http"}}}}
			h.register(j)
		}
		h.lead(&slowly{h.Cluster})
		time.Sleep(time.Minute)
		s := h.settle()
		placed := 0
		for i := range 60 {
			placed += len(live(s, fmt.Sprintf("j%02d", i)))
		}
		if placed != 30 {
			t.Errorf("%d allocs of 100 MHz on three nodes of 1000 MHz, want 30", placed)
		}
	})
}

// slowly is a log that takes a while to write: plans are checked while others are on their way.
type slowly struct{ fsm.Proposer }

func (s *slowly) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	time.Sleep(5 * time.Millisecond)
	return s.Proposer.Propose(ctx, cmd)
}

func TestPlansAreWrittenBesideEachOther(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.node("n1", func(n *node.Node) { n.Resources.CPUShares, n.Resources.MemoryMB = 100000, 100000 })
		h.stop()
		for i := range 20 {
			h.register(service(fmt.Sprintf("j%02d", i), 1))
		}
		c := &crowd{Proposer: h.Cluster}
		h.lead(c)
		time.Sleep(time.Minute)
		h.settle()
		if c.most.Load() < 2 {
			t.Errorf("at most %d plans were on their way at once", c.most.Load())
		}
	})
}

// crowd counts how many commands are on their way at once.
type crowd struct {
	fsm.Proposer
	now, most atomic.Int64
}

func (c *crowd) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	if n := c.now.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	defer c.now.Add(-1)
	time.Sleep(10 * time.Millisecond)
	return c.Proposer.Propose(ctx, cmd)
}

func TestWhatOneLeaderBeganTheNextOneEnds(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.node("n1")
		big := service("big", 1)
		big.TaskGroups[0].Tasks[0].Resources.CPU = 5000
		h.register(big)
		h.settle()
		h.stop()
		e := h.register(service("web", 1))
		if h.settle().Eval(nil, e.ID).Status != eval.StatusPending {
			t.Fatal("somebody schedules without a leader")
		}
		h.node("n2", func(n *node.Node) { n.Resources.CPUShares = 6000 })
		h.lead(h.Cluster)
		h.one("web")
		h.one("big")
	})
}

// breaking is a log that refuses the first commands.
type breaking struct {
	fsm.Proposer
	left atomic.Int64
}

func (b *breaking) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	if b.left.Add(-1) >= 0 {
		return nil, 0, context.DeadlineExceeded
	}
	return b.Proposer.Propose(ctx, cmd)
}

func TestAnEvaluationThatCouldNotBeWrittenIsTriedAgain(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.node("n1")
		h.settle()
		h.stop()
		b := &breaking{Proposer: h.Cluster}
		b.left.Store(3)
		h.lead(b)
		h.register(service("web", 1))
		if got := live(h.settle(), "web"); len(got) != 0 {
			t.Fatal("a plan that was not written took effect")
		}
		time.Sleep(10 * time.Second)
		h.one("web")
	})
}

func TestADryRunTellsAndDoesNothing(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.node("n1")
		h.register(service("web", 2))
		h.settle()
		before := h.Store.Snapshot().Index()
		plan := func(j *job.Job) *wire.JobPlanReply {
			t.Helper()
			r, err := h.s.DryRun(t.Context(), &wire.JobPlanRequest{Job: j})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := plan(service("new", 3))
		if r.Old != nil || r.Index != 0 || r.Annotations["g"].Place != 3 {
			t.Errorf("a new job: %+v", r)
		}
		if r = plan(service("web", 2)); r.Annotations["g"] != (wire.GroupChanges{Ignore: 2}) || r.Old == nil ||
			r.JobModifyIndex == 0 {
			t.Errorf("the same job: %+v", r)
		}
		if r = plan(service("web", 4)); r.Annotations["g"] != (wire.GroupChanges{Place: 2, InPlaceUpdate: 2}) {
			t.Errorf("more of it: %+v", r.Annotations["g"])
		}
		changed := service("web", 2)
		changed.TaskGroups[0].Tasks[0].User = "nobody"
		changed.TaskGroups[0].Update = nil
		if r = plan(changed); r.Annotations["g"] != (wire.GroupChanges{DestructiveUpdate: 2}) {
			t.Errorf("a changed task: %+v", r.Annotations["g"])
		}
		r = plan(service("huge", 50))
		m := r.FailedTGAllocs["g"]
		if m == nil || m.DimensionExhausted["cpu"] != 1 || len(m.Reasons) != 1 || m.Reasons[0].Name != "n1" ||
			m.CoalescedFailures != 41 {
			t.Errorf("what does not fit: %+v", m)
		}
		if after := h.settle().Index(); after != before || len(live(h.Store.Snapshot(), "new")) != 0 {
			t.Errorf("dry runs wrote %d entries", after-before)
		}
	})
}

func TestThePlannerRejectsWhatTheStateNoLongerAllows(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.node("n1")
		h.node("n2")
		h.settle()
		stale := h.Store.Snapshot()
		e := h.register(service("later", 20)) // looked at by the workers too: they take all the capacity
		h.settle()
		view := planner.ViewOf(stale)
		view.Jobs = &asIf{Jobs: view.Jobs, job: h.Store.Snapshot().Job(nil, ids.DefaultNamespace, "later")}
		mine := *e
		mine.ID = ids.Eval(ids.New())
		plan, _ := scheduler.Schedule(view, &mine, time.Now())
		if len(plan.Place) != 20 {
			t.Fatalf("the stale plan places %d", len(plan.Place))
		}
		r, err := h.s.planner.Submit(t.Context(), &plan)
		if err != nil || r.Index != 0 || len(r.Rejected) != 20 ||
			!strings.Contains(r.Rejected[0].Reason, "not enough left: cpu") {
			t.Errorf("the planner answered %+v, %v", r, err)
		}
		if r.Refresh < h.Store.Snapshot().Index() {
			t.Errorf("the reason cannot be seen at index %d", r.Refresh)
		}
		synctest.Wait()
	})
}
