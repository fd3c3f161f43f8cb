package gc

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// Given deployments, when they have been over for an age, then those of earlier versions are forgotten of which nothing
// runs; that of the present version stays, and one that is under way.
func TestDeploymentsOfEarlierVersionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		j := &job.Job{Namespace: ids.DefaultNamespace, ID: "web", Type: job.TypeService}
		c.Must(t, &fsm.JobRegister{Job: j, Seed: ids.New()})
		j = c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web")
		write := func(fn func(tx *state.Tx) error) {
			t.Helper()
			if err := c.Store.Write(c.Store.Snapshot().Stamp(), fn); err != nil {
				t.Fatal(err)
			}
		}
		put := func(version uint64, status string) ids.Deployment {
			d := &deployment.Deployment{
				ID:             deployment.IDOf(j.Namespace, j.ID, j.CreateIndex, version),
				Namespace:      j.Namespace,
				Job:            j.ID,
				JobVersion:     version,
				JobCreateIndex: j.CreateIndex,
				Status:         status,
			}
			write(func(tx *state.Tx) error {
				tx.PutDeployment(d)
				return nil
			})
			return d.ID
		}
		present, old := put(j.Version, deployment.Failed), put(j.Version+1, deployment.Successful)
		runs, pinned := put(j.Version+2, deployment.Running), put(j.Version+3, deployment.Cancelled)
		write(func(tx *state.Tx) error {
			tx.PutAlloc(&alloc.Alloc{ID: "a", Namespace: j.Namespace, Job: j.ID, Deployment: pinned})
			return nil
		})
		gc := New(c.Store, c, Hold(Ages{}), slog.New(slog.DiscardHandler))
		collect := func(age time.Duration, gone bool) {
			t.Helper()
			if err := gc.collectDeployments(t.Context(), age); err != nil {
				t.Fatal(err)
			}
			s := c.Store.Snapshot()
			for id, want := range map[ids.Deployment]bool{present: true, runs: true, pinned: true, old: !gone} {
				if there := s.Deployment(nil, id) != nil; there != want {
					t.Errorf("after %s, %s: there %v", age, id, there)
				}
			}
		}
		time.Sleep(time.Hour)
		collect(time.Hour+time.Second, false)
		collect(time.Hour, true)
	})
}
