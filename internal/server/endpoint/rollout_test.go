package endpoint

import (
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Given a job that was purged and came again under its name, when it is asked how far it is, then nothing of the one
// before is said; and who waits for news of one that is purged hears that there is none.
func TestHowFarAJobIsSaysNothingOfAnEarlierOne(t *testing.T) {
	e, c := endpoints(t)
	register := func() *job.Job {
		j := mounting("exec")
		j.TaskGroups[0].Volumes, j.TaskGroups[0].Tasks[0].VolumeMounts = nil, nil
		c.Must(t, &fsm.JobRegister{Job: j, Seed: ids.New()})
		return c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "db")
	}
	purge := func() {
		c.Must(t, &fsm.JobDeregister{Namespace: ids.DefaultNamespace, Job: "db", Purge: true, Seed: ids.New()})
	}
	has := func(of *job.Job) ids.Alloc {
		n, id := nodeWith(nil), ids.Alloc(ids.New())
		stamp := c.Store.Snapshot().Stamp()
		stamp.Index++
		err := c.Store.Write(stamp, func(tx *state.Tx) error {
			tx.PutAlloc(&alloc.Alloc{
				ID:             id,
				Namespace:      of.Namespace,
				Job:            of.ID,
				JobCreateIndex: of.CreateIndex,
				TaskGroup:      "data",
				Node:           n.ID,
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Must(t, &fsm.NodeRegister{Node: n}) // what is proposed from now on has a later index than that
		return id
	}
	ask := func(q wire.Query) *wire.JobRolloutReply {
		q.Namespace = ids.DefaultNamespace
		out, err := e.jobRollout(t.Context(), &wire.Ref[ids.Job]{Query: q, ID: "db"})
		if err != nil {
			t.Error(err)
		}
		return out
	}
	has(register())
	purge()
	own := has(register())
	first := ask(wire.Query{})
	if first.Job == nil || len(first.Allocs.Items) != 1 || first.Allocs.Items[0].Alloc.ID != own {
		t.Fatalf("with one allocation it is %+v with %+v", first.Job, first.Allocs.Items)
	}
	later := make(chan *wire.JobRolloutReply, 1)
	go func() { later <- ask(wire.Query{MinIndex: first.Index, Wait: time.Minute}) }()
	select {
	case out := <-later:
		t.Fatalf("without news there is an answer: %+v", out)
	case <-time.After(100 * time.Millisecond): // it has read by now, and waits
	}
	purge()
	select {
	case out := <-later:
		if out.Job != nil {
			t.Errorf("of a job that is purged it is said %+v", out.Job)
		}
	case <-time.After(30 * time.Second):
		t.Error("nobody hears of the purge")
	}
}
