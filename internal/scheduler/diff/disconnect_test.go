package diff

import (
	"testing"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// TestTheBetterPlaceIsKept: given two allocs of an index that both run, one of them on a node that was silent, then the
// one is kept whose node scored higher when it was placed; of equal ones, that which was there first.
func TestTheBetterPlaceIsKept(t *testing.T) {
	scored := func(id string, score float64, silence *alloc.Silence) *alloc.Alloc {
		return &alloc.Alloc{
			Node:         "n",
			Name:         id,
			ClientStatus: alloc.ClientRunning,
			Silence:      silence,
			Metrics:      &alloc.Metric{ScoreMetaData: []*alloc.NodeScore{{NodeID: "n", NormScore: score}}},
		}
	}
	for _, c := range []struct {
		first, second float64
		want          string
	}{{0.9, 0.1, "first"}, {0.1, 0.9, "second"}, {0.5, 0.5, "first"}} {
		in := &Input{Group: &job.TaskGroup{Disconnect: &job.Disconnect{Reconcile: job.KeepBestScore}}}
		live := []*alloc.Alloc{
			scored("second", c.second, nil),
			scored("first", c.first, &alloc.Silence{Back: 1}),
		}
		if back := in.reunite(live); !back || live[0].Name != c.want {
			t.Errorf("of scores %v and %v the %s is kept; a node came back: %v", c.first, c.second, live[0].Name, back)
		}
	}
}
