package endpoint

import (
	"fmt"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// BenchmarkPages reads pages of lists that go by creation, of tables that hold ever more.
func BenchmarkPages(b *testing.B) {
	for _, count := range []int{2_000, 12_700} {
		e, c := endpoints(b)
		created(b, c, count)
		for _, page := range []wire.Page{
			{PerPage: 20},
			{PerPage: 20, Reverse: true},
			{PerPage: 20, NextToken: wire.KeyOfEval(evalAt(c, count/2))},
		} {
			q := &wire.Query{Namespace: wire.AllNamespaces, Page: page}
			name := fmt.Sprintf("%d/reverse=%v/token=%v", count, page.Reverse, page.NextToken != "")
			b.Run("evals/"+name, func(b *testing.B) {
				for b.Loop() {
					if got, err := e.evalList(b.Context(), q); err != nil || len(got.Items) != 20 {
						b.Fatalf("%d evaluations, %v", len(got.Items), err)
					}
				}
			})
			b.Run("allocs/"+name, func(b *testing.B) {
				for b.Loop() {
					if got, err := e.allocList(b.Context(), q); err != nil || len(got.Items) != 20 {
						b.Fatalf("%d allocs, %v", len(got.Items), err)
					}
				}
			})
		}
	}
}

// created fills a state with as many evaluations as allocs, one after another, ten by each command.
func created(t testing.TB, c *localstate.Cluster, count int) {
	t.Helper()
	stamp := c.Store.Snapshot().Stamp()
	for from := 0; from < count; from += 10 {
		stamp.Index++
		err := c.Store.Write(stamp, func(tx *state.Tx) error {
			if from == 0 {
				tx.PutJob(&job.Job{Namespace: ids.DefaultNamespace, ID: "j", Type: job.TypeService})
			}
			j := tx.Job(nil, ids.DefaultNamespace, "j")
			for range min(10, count-from) {
				id := ids.New()
				tx.PutEval(&eval.Eval{ID: ids.Eval(id), Namespace: j.Namespace, Job: j.ID, Status: eval.StatusComplete})
				tx.PutAlloc(&alloc.Alloc{
					ID:             ids.Alloc(id),
					Namespace:      j.Namespace,
					Job:            j.ID,
					JobCreateIndex: j.CreateIndex,
					Node:           "n",
				})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// evalAt is the evaluation at a place of the list.
func evalAt(c *localstate.Cluster, at int) *eval.Eval {
	var all []*eval.Eval
	for e := range c.Store.Snapshot().Evals(nil, "") {
		all = append(all, e)
	}
	sortEvals(all)
	return all[at]
}
