package policies_test

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/server/policies"
	"berth/internal/server/state"
)

// TestAPolicyIsFoundByItsId: among those of several jobs and groups each is found by its own id, and by no other.
func TestAPolicyIsFoundByItsId(t *testing.T) {
	store, all := state.New(), map[ids.Scaling]job.Policy{}
	if err := store.Write(state.Stamp{Index: 1}, func(tx *state.Tx) error {
		for _, ns := range []ids.Namespace{"app", "apps"} {
			for _, id := range []ids.Job{"a", "b"} {
				j := &job.Job{Namespace: ns, ID: id}
				for _, g := range []string{"x", "y", "none"} {
					group := &job.TaskGroup{Name: g}
					if g != "none" {
						group.Scaling = &job.ScalingPolicy{Type: job.ScalingHorizontal, Max: 3, Enabled: true}
					}
					j.TaskGroups = append(j.TaskGroups, group)
				}
				tx.PutJob(j)
				for p := range j.Policies() {
					all[p.ID()] = p
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(all) != 8 {
		t.Fatalf("%d policies have ids of their own", len(all))
	}
	s := store.Snapshot()
	for id, want := range all {
		got, there := policies.Find(s, nil, id)
		if !there || got.ID() != id || got.Job.Namespace != want.Job.Namespace || got.Job.ID != want.Job.ID ||
			got.Group != want.Group {
			t.Errorf("%s: found %t: %+v", id, there, got)
		}
	}
	if got, there := policies.Find(s, nil, ids.Scaling(ids.New())); there {
		t.Errorf("an id that there is not: %+v", got)
	}
}
