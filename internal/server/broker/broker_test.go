package broker

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
)

// desk is a broker over a state, in a bubble with its own time.
type desk struct {
	*localstate.Cluster
	b *Broker
	t *testing.T
}

func atDesk(t *testing.T, story func(t *testing.T, d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{Cluster: localstate.New(t), t: t}
		d.b = New(d.Store, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.b.Run(ctx) }()
		story(t, d)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the broker ended with %v", err)
		}
	})
}

func (d *desk) put(id, of string, edit ...func(*eval.Eval)) {
	e := &eval.Eval{
		ID:        ids.Eval(id),
		Namespace: ids.DefaultNamespace,
		Job:       ids.Job(of),
		Priority:  50,
		Status:    eval.StatusPending,
	}
	for _, f := range edit {
		f(e)
	}
	d.Must(d.t, &fsm.EvalUpdate{Evals: []*eval.Eval{e}})
}

func priority(n int) func(*eval.Eval) { return func(e *eval.Eval) { e.Priority = n } }
func blocked(seen uint64) func(*eval.Eval) {
	return func(e *eval.Eval) { e.Status, e.SnapshotIndex = eval.StatusBlocked, seen }
}

// next returns the id of the evaluation that is handed out now, or "nothing".
func (d *desk) next() ids.Eval {
	synctest.Wait()
	if it := d.b.take(); it != nil {
		return it.Eval.ID
	}
	return "nothing"
}

func (d *desk) want(ids ...ids.Eval) {
	d.t.Helper()
	for _, id := range ids {
		if got := d.next(); got != id {
			d.t.Fatalf("handed out %s, want %s; %+v", got, id, d.b.Stats())
		}
	}
}

func (d *desk) finish(id ids.Eval) {
	e := *d.Store.Snapshot().Eval(nil, id)
	e.Status = eval.StatusComplete
	_, index, err := d.Propose(d.t.Context(), &fsm.EvalUpdate{Evals: []*eval.Eval{&e}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.b.Ack(id, index)
}

func TestTheMostUrgentComesFirstThenTheOldest(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.put("e1", "a")
		d.put("e2", "b")
		d.put("e3", "c", priority(90))
		d.want("e3", "e1", "e2", "nothing")
	})
}

func TestOfAJobOneEvaluationIsWithAWorkerAtATime(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.put("e1", "a")
		d.put("e2", "a")
		d.put("e3", "a", priority(90))
		d.put("e4", "b")
		d.want("e1", "e4", "nothing") // e1 was ready before the others came
		d.finish("e1")
		d.want("e3", "nothing")
		d.finish("e3")
		d.want("e2", "nothing")
		d.finish("e2")
		d.want("nothing")
		if s := d.b.Stats(); s != (Stats{Working: 1}) {
			t.Errorf("left: %+v", s)
		}
	})
}

func TestADelayedEvaluationComesAtItsTime(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		at := time.Now().Add(time.Minute)
		d.put("late", "a", func(e *eval.Eval) { e.WaitUntil = at.Add(time.Minute) })
		d.put("soon", "b", func(e *eval.Eval) { e.WaitUntil = at })
		time.Sleep(59 * time.Second)
		d.want("nothing")
		time.Sleep(time.Second)
		d.want("soon", "nothing")
		time.Sleep(time.Minute)
		d.want("late")
	})
}

func TestWhatIsGivenBackComesAgainEverMoreSlowly(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.put("e1", "a")
		d.put("e2", "a")
		d.want("e1")
		d.b.Nack("e1")
		d.want("e2", "nothing") // the job is not held up by it
		d.finish("e2")
		pause := firstPause
		for range 10 {
			time.Sleep(pause - time.Millisecond)
			d.want("nothing")
			time.Sleep(time.Millisecond)
			d.want("e1")
			d.b.Nack("e1")
			pause = min(2*pause, lastPause)
		}
	})
}

func TestAnEvaluationThatEndsElsewhereIsForgotten(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.put("e1", "a")
		synctest.Wait()
		d.put("e1", "a", func(e *eval.Eval) { e.Status = eval.StatusCanceled })
		d.want("nothing")
		if s := d.b.Stats(); s != (Stats{}) {
			t.Errorf("left: %+v", s)
		}
	})
}

// TestEveryInputOfADecisionWakesWhoWaitsForIt changes one table after another.
func TestEveryInputOfADecisionWakesWhoWaitsForIt(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		v := &volume.Volume{
			ID:     volume.ID{Namespace: ids.DefaultNamespace, ID: "v"},
			UID:    "u",
			Spec:   volume.Spec{Plugin: "p"},
			Status: volume.Status{Phase: volume.PhaseReady},
		}
		d.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n", Name: "n", SecretHash: "h"}, Seed: "s"})
		d.Must(t, &fsm.JobRegister{
			Job: &job.Job{
				Namespace:  ids.DefaultNamespace,
				ID:         "other",
				Type:       job.TypeService,
				TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1}},
			},
			Seed: "s",
		})
		d.Must(t, &fsm.VolumePut{Volume: v})
		for d.next() != "nothing" { // the other job's own evaluation stays with its worker
		}
		other := d.Store.Snapshot().Job(nil, ids.DefaultNamespace, "other")
		a := &alloc.Alloc{
			ID:             "a",
			Namespace:      ids.DefaultNamespace,
			Job:            "other",
			JobCreateIndex: other.CreateIndex,
			Node:           "n",
			TaskGroup:      "g",
		}
		d.put("b", "blocked", blocked(d.Store.Snapshot().Index()+1))
		d.want("nothing")
		asleep := func() { d.b.Block("b", d.Store.Snapshot().Index(), true); d.want("nothing") }
		for _, step := range []struct {
			name  string
			cmd   fsm.Command
			wakes bool
		}{
			{"a node changes", &fsm.NodeRegister{Node: &node.Node{ID: "n", Name: "n2", SecretHash: "h"}, Seed: "s2"},
				true},
			{"a node is not eligible", &fsm.NodeEligibility{Node: "n", Eligibility: node.Ineligible}, true},
			{"another alloc is placed with a claim",
				&fsm.PlanApply{
					Place: []*alloc.Alloc{a},
					Claims: []*volume.Claim{{
						Volume:     v.ID,
						Alloc:      "a",
						Node:       "n",
						AccessMode: volume.SingleNodeWriter,
						State:      volume.Held,
					}},
				}, true},
			{"it runs", &fsm.AllocClientUpdate{
				Allocs: []*alloc.Alloc{{ID: "a", Node: "n", ClientStatus: alloc.ClientRunning}},
				Seed:   "s3",
			}, false},
			{"it is stopped", &fsm.PlanApply{Stop: []fsm.AllocStop{{Alloc: "a"}}}, true},
			{"its processes are gone",
				&fsm.AllocClientUpdate{
					Allocs: []*alloc.Alloc{{ID: "a", Node: "n", ClientStatus: alloc.ClientComplete}},
					Seed:   "s4",
				}, true},
			{"an evaluation is written",
				&fsm.EvalUpdate{
					Evals: []*eval.Eval{{
						ID:        "x",
						Namespace: ids.DefaultNamespace,
						Job:       "x",
						Status:    eval.StatusComplete,
					}},
				}, false},
			{"the node tells its inventory",
				&fsm.InventoryApply{
					Node: "n",
					Full: true,
					Entries: []volume.InventoryEntry{{
						StagingKey: volume.StagingKey{Plugin: "p", ExternalID: "x"},
						Staging:    volume.Present,
					}},
				}, true},
		} {
			d.Must(t, step.cmd)
			got := d.next() == "b"
			if got != step.wakes {
				t.Fatalf("%s: woken %t, want %t", step.name, got, step.wakes)
			}
			if got {
				asleep()
			}
		}
	})
}

func TestWhatChangesWhileAWorkerLooksIsNotMissed(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.put("b", "j", blocked(1))
		seen := d.Store.Snapshot().Index()
		d.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n1", Name: "n1", SecretHash: "h"}, Seed: "s1"})
		d.want("b")
		// The worker looked at the state before this node, and blocks only now.
		d.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n2", Name: "n2", SecretHash: "h"}, Seed: "s2"})
		synctest.Wait()
		d.b.Block("b", seen+1, false)
		d.want("b")
		d.b.Block("b", d.Store.Snapshot().Index(), false)
		d.want("nothing")
	})
}

func TestAnEvaluationThatStaysBlockedIsKeptInEveryOrder(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				d.put("b", "j", blocked(1))
				d.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n1", Name: "n1", SecretHash: "h"}, Seed: "s1"})
				d.want("b")
				// The worker writes that it is blocked still; the broker sees the state before or after it hears of
				// that.
				e := *d.Store.Snapshot().Eval(nil, "b")
				e.StatusDescription, e.SnapshotIndex = "still", d.Store.Snapshot().Index()
				_, index, err := d.Propose(t.Context(), &fsm.EvalUpdate{Evals: []*eval.Eval{&e}})
				if err != nil {
					t.Fatal(err)
				}
				if late {
					synctest.Wait()
				}
				d.b.Ack("b", index)
				d.want("nothing")
				if s := d.b.Stats(); s.Blocked != 1 {
					t.Fatalf("after the acknowledgement: %+v", s)
				}
				d.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n2", Name: "n2", SecretHash: "h"}, Seed: "s2"})
				d.want("b")
			})
		})
	}
}
