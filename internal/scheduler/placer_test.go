package scheduler

import (
	"maps"
	"slices"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/scheduler/diff"
)

// Whose data is on its node stays there, unless it failed there.
func TestAFailedAllocLeavesItsNodeAndItsPredecessors(t *testing.T) {
	prev := &alloc.Alloc{ID: "a", Node: "n2", Reschedule: []alloc.RescheduleEvent{{PrevNode: "n1"}}}
	sticky := &job.TaskGroup{Name: "g", EphemeralDisk: &job.EphemeralDisk{Sticky: true}}
	for name, test := range map[string]struct {
		group *job.TaskGroup
		place diff.Place
		want  ids.Node
	}{
		"new":                 {sticky, diff.Place{}, ""},
		"replaced":            {sticky, diff.Place{Previous: prev}, "n2"},
		"failed":              {sticky, diff.Place{Previous: prev, Failed: true}, ""},
		"nothing to stay for": {&job.TaskGroup{Name: "g"}, diff.Place{Previous: prev}, ""},
	} {
		if got := (&placer{group: test.group}).attached(test.place); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if got := slices.Sorted(maps.Keys(penalised(prev))); !slices.Equal(got, []ids.Node{"n1", "n2"}) {
		t.Errorf("avoided: %v", got)
	}
}
