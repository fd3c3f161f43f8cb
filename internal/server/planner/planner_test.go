package planner

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/scheduler"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
	"berth/internal/testkit/pluginjobs"
)

// bench is a planner over a state, in a bubble with its own time.
type bench struct {
	*localstate.Cluster
	t   *testing.T
	p   *Planner
	log fsm.Proposer
}

func atBench(t *testing.T, log func(fsm.Proposer) fsm.Proposer, story func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{Cluster: localstate.New(t), t: t}
		b.log = b.Cluster
		if log != nil {
			b.log = log(b.Cluster)
		}
		b.p = New(b.Store, b.log, slog.New(slog.DiscardHandler))
		for _, id := range []ids.Node{"n1", "n2"} {
			n := &node.Node{
				ID:         id,
				Name:       string(id),
				SecretHash: "h",
				Resources:  node.Resources{CPUShares: 1000, MemoryMB: 1000},
				CSI: []*plugin.Instance{{
					Plugin:     "p",
					Role:       plugin.RoleNode,
					State:      plugin.Ready,
					MaxVolumes: 2,
				}},
			}
			pluginjobs.Name(n)
			b.Must(t, &fsm.NodeRegister{Seed: ids.New(), Node: n})
			pluginjobs.Place(t, b.Cluster, b.Store.Snapshot, id, n.CSI)
		}
		b.Must(t, &fsm.JobRegister{
			Seed: ids.New(),
			Job: &job.Job{Namespace: ids.DefaultNamespace, ID: "j", Type: job.TypeService,
				TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1}}},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.p.Run(ctx) }()
		story(t, b)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the planner ended with %v", err)
		}
	})
}

func (b *bench) alloc(id, on string, cpu int64, ports ...int) *alloc.Alloc {
	j := b.Store.Snapshot().Job(nil, ids.DefaultNamespace, "j")
	a := &alloc.Alloc{
		ID:             ids.Alloc(id),
		Namespace:      ids.DefaultNamespace,
		Job:            "j",
		JobCreateIndex: j.CreateIndex,
		JobVersion:     j.Version,
		TaskGroup:      "g",
		Name:           "j.g[0]",
		Node:           ids.Node(on),
		DesiredStatus:  alloc.DesiredRun,
		ClientStatus:   alloc.ClientPending,
		Resources:      alloc.Resources{Tasks: map[string]alloc.TaskResources{"t": {CPUShares: cpu}}},
	}
	for _, p := range ports {
		a.Resources.Ports = append(a.Resources.Ports, alloc.PortMapping{Label: "p", Value: p})
	}
	return a
}

func place(a *alloc.Alloc, claims ...*volume.Claim) *scheduler.Placement {
	for _, c := range claims {
		c.Alloc, c.Node = a.ID, a.Node
	}
	return &scheduler.Placement{Alloc: a, Claims: claims}
}

func plan(pl ...*scheduler.Placement) *scheduler.Plan {
	return &scheduler.Plan{
		Place: pl,
		Eval: &eval.Eval{
			ID:        ids.Eval(ids.New()),
			Namespace: ids.DefaultNamespace,
			Job:       "j",
			Status:    eval.StatusComplete,
		},
	}
}

func (b *bench) volume(id string) volume.ID {
	v := &volume.Volume{ID: volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(id)}, UID: ids.New(),
		Spec: volume.Spec{
			Plugin:       "p",
			Capabilities: []volume.Capability{{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}},
		},
		Status: volume.Status{Phase: volume.PhaseReady, ExternalID: id}}
	b.Must(b.t, &fsm.VolumePut{Volume: v})
	return v.ID
}

func claim(id volume.ID, st volume.ClaimState) *volume.Claim {
	return &volume.Claim{
		Volume:         id,
		AccessMode:     volume.SingleNodeWriter,
		AttachmentMode: volume.FileSystem,
		State:          st,
		Job:            "j",
	}
}

func (b *bench) submit(p *scheduler.Plan) Result {
	b.t.Helper()
	r, err := b.p.Submit(b.t.Context(), p)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) rejected(r Result, id ids.Alloc, says string) {
	b.t.Helper()
	for _, x := range r.Rejected {
		if x.Alloc == id {
			if !strings.Contains(x.Reason, says) {
				b.t.Errorf("%s was rejected because %q, want %q", id, x.Reason, says)
			}
			return
		}
	}
	b.t.Errorf("%s was not rejected: %+v", id, r)
}

func TestWhatFitsIsCommittedAndTheRestIsNamed(t *testing.T) {
	atBench(t, nil, func(t *testing.T, b *bench) {
		p := plan(place(b.alloc("a", "n1", 600)), place(b.alloc("b", "n1", 600)), place(b.alloc("c", "n2", 600, 80)),
			place(b.alloc("d", "n2", 100, 80)), place(b.alloc("e", "gone", 1)))
		r := b.submit(p)
		if len(r.Rejected) != 3 || r.Index == 0 || r.Refresh < r.Index {
			t.Fatalf("%+v", r)
		}
		b.rejected(r, "b", "not enough left: cpu")
		b.rejected(r, "d", "port collision")
		b.rejected(r, "e", "not ready any more")
		s := b.Store.Snapshot()
		if s.Alloc(nil, "a") == nil || s.Alloc(nil, "c") == nil || s.Alloc(nil, "b") != nil {
			t.Error("the wrong ones were committed")
		}
		if s.Eval(nil, p.Eval.ID) != nil {
			t.Error("the evaluation ended although a part of its plan was rejected")
		}
		if r = b.submit(plan(place(b.alloc("a", "n2", 1)))); len(r.Rejected) != 1 {
			t.Errorf("an alloc was placed twice: %+v", r)
		}
	})
}

func TestAllAtOnceMeansAllOrNothing(t *testing.T) {
	atBench(t, nil, func(t *testing.T, b *bench) {
		p := plan(place(b.alloc("a", "n1", 600)), place(b.alloc("b", "n1", 600)))
		p.AllAtOnce = true
		if r := b.submit(p); len(r.Rejected) != 2 || r.Index != 0 || b.Store.Snapshot().Alloc(nil, "a") != nil {
			t.Errorf("%+v", r)
		}
	})
}

func TestAPredecessorStaysWhenItsSuccessorIsRejected(t *testing.T) {
	atBench(t, nil, func(t *testing.T, b *bench) {
		b.submit(plan(place(b.alloc("old1", "n1", 500)), place(b.alloc("old2", "n1", 500))))
		// Each successor counts on the capacity of its predecessor; the first is too big for that, and then the other
		// one's capacity is not taken either.
		first, second := place(b.alloc("new1", "n1", 1100)), place(b.alloc("new2", "n1", 500))
		first.Ends, second.Ends = &scheduler.Stop{Alloc: "old1", Node: "n1"}, &scheduler.Stop{Alloc: "old2", Node: "n1"}
		r := b.submit(plan(first, second))
		b.rejected(r, "new1", "cpu")
		s := b.Store.Snapshot()
		if s.Alloc(nil, "old1").ServerTerminal() || !s.Alloc(nil, "old2").ServerTerminal() ||
			s.Alloc(nil, "new2") == nil {
			t.Errorf("old1 is %s, old2 is %s", s.Alloc(nil, "old1").DesiredStatus, s.Alloc(nil, "old2").DesiredStatus)
		}
		// A successor that fits only in the capacity of a predecessor whose own successor is rejected is rejected with
		// it.
		third, fourth := place(b.alloc("new3", "n1", 2000)), place(b.alloc("new4", "n1", 500))
		third.Ends = &scheduler.Stop{Alloc: "old1", Node: "n1"}
		r = b.submit(plan(fourth, third))
		b.rejected(r, "new3", "cpu")
		b.rejected(r, "new4", "cpu")
	})
}

func TestClaimsAreDecidedAtTheSerialPoint(t *testing.T) {
	atBench(t, nil, func(t *testing.T, b *bench) {
		v := b.volume("v")
		if r := b.submit(plan(place(b.alloc("a", "n1", 1), claim(v, volume.Held)))); len(r.Rejected) > 0 {
			t.Fatalf("%+v", r)
		}
		b.rejected(b.submit(plan(place(b.alloc("b", "n2", 1), claim(v, volume.Held)))), "b", "holds it on node n1")
		// The scheduler saw a holder that is ending; meanwhile it is gone: what was to be queued is held at once.
		b.Must(t, &fsm.PlanApply{Stop: []fsm.AllocStop{{Alloc: "a"}}})
		b.Must(t, &fsm.AllocClientUpdate{
			Seed:   "s",
			Allocs: []*alloc.Alloc{{ID: "a", Node: "n1", ClientStatus: alloc.ClientComplete}},
		})
		was := b.Store.Snapshot().Claim(nil, volume.ClaimKey{Volume: v, Alloc: "a"})
		b.Must(t, &fsm.ClaimProof{Claim: was.Key(), Epoch: was.Epoch, Proof: volume.ProofReleased})
		b.submit(plan(place(b.alloc("c", "n2", 1), claim(v, volume.Queued))))
		if got := b.Store.Snapshot().Claim(nil, volume.ClaimKey{Volume: v, Alloc: "c"}); got == nil ||
			got.State != volume.Held {
			t.Errorf("the claim is %+v", got)
		}
		// Slots are counted too: two of two are taken by c's volume and this one.
		if r := b.submit(plan(place(b.alloc("d", "n2", 1), claim(b.volume("w"), volume.Held)))); len(r.Rejected) > 0 {
			t.Fatalf("%+v", r)
		}
		b.rejected(b.submit(plan(place(b.alloc("e", "n2", 1), claim(b.volume("x"), volume.Held)))), "e",
			"maximum number of volumes")
	})
}

// Given a holder that is asked to stop, when a plan comes of a scheduler that believed the volume free, then its claim
// waits for the holder's end.
func TestAClaimThatWasPlannedAsHeldIsQueuedBehindWhoIsEnding(t *testing.T) {
	atBench(t, nil, func(t *testing.T, b *bench) {
		v := b.volume("v")
		if r := b.submit(plan(place(b.alloc("a", "n1", 1), claim(v, volume.Held)))); len(r.Rejected) > 0 {
			t.Fatalf("%+v", r)
		}
		b.Must(t, &fsm.PlanApply{Stop: []fsm.AllocStop{{Alloc: "a"}}})
		if r := b.submit(plan(place(b.alloc("c", "n2", 1), claim(v, volume.Held)))); len(r.Rejected) > 0 {
			t.Fatalf("%+v", r)
		}
		got := b.Store.Snapshot().Claim(nil, volume.ClaimKey{Volume: v, Alloc: "c"})
		if got == nil || got.State != volume.Queued {
			t.Errorf("beside the claim of who is ending: %+v", got)
		}
	})
}

// slow is a log that takes a second to write.
type slow struct{ fsm.Proposer }

func (s *slow) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	time.Sleep(time.Second)
	return s.Proposer.Propose(ctx, cmd)
}

func TestPlansInFlightCountAndARejectionWaitsForThem(t *testing.T) {
	atBench(t, func(p fsm.Proposer) fsm.Proposer { return &slow{p} }, func(t *testing.T, b *bench) {
		v := b.volume("v")
		began := time.Now()
		first := make(chan Result, 1)
		go func() { first <- b.submit(plan(place(b.alloc("a", "n1", 900, 80), claim(v, volume.Held)))) }()
		synctest.Wait()
		r := b.submit(plan(place(b.alloc("b", "n1", 900))))
		b.rejected(r, "b", "cpu")
		if took := time.Since(began); took != time.Second {
			t.Errorf("the answer came after %s, before the plan in flight could be seen or long after", took)
		}
		if b.Store.Snapshot().Alloc(nil, "a") == nil || r.Refresh < (<-first).Index {
			t.Error("the answer names a state in which the reason cannot be seen")
		}
		go func() { first <- b.submit(plan(place(b.alloc("c", "n2", 100), claim(b.volume("w"), volume.Held)))) }()
		synctest.Wait()
		b.rejected(b.submit(
			plan(place(b.alloc("d", "n1", 1),
				claim(volume.ID{Namespace: ids.DefaultNamespace, ID: "w"}, volume.Held)))), "d", "holds it on node n2")
		<-first
	})
}

// behind is a log in which something else comes first.
type behind struct {
	fsm.Proposer
	before func()
}

func (l *behind) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	if l.before != nil {
		l.before()
		l.before = nil
	}
	return l.Proposer.Propose(ctx, cmd)
}

func TestAPlanThatIsOvertakenInTheLogIsRejectedWhole(t *testing.T) {
	l := &behind{}
	atBench(t, func(p fsm.Proposer) fsm.Proposer { l.Proposer = p; return l }, func(t *testing.T, b *bench) {
		v := b.volume("v")
		l.before = func() {
			a := b.alloc("first", "n1", 1)
			c := claim(v, volume.Held)
			c.Alloc, c.Node = a.ID, a.Node
			b.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}, Claims: []*volume.Claim{c}})
		}
		r := b.submit(plan(place(b.alloc("late", "n2", 400), claim(v, volume.Held)),
			place(b.alloc("other", "n2", 600))))
		if len(r.Rejected) != 2 || b.Store.Snapshot().Alloc(nil, "other") != nil || r.Refresh == 0 {
			t.Errorf("%+v", r)
		}
		if r = b.submit(plan(place(b.alloc("third", "n2", 1000)))); len(r.Rejected) > 0 {
			t.Errorf("the refused plan takes room still: %+v", r)
		}
	})
}
