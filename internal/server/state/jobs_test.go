package state

import (
	"slices"
	"testing"

	"berth/internal/model/job"
)

// TestAJobIsNotFoundByServicesThatItHasNoMore: a version that is stored again is found by the names of the services
// that it has then, each of them, and by no other.
func TestAJobIsNotFoundByServicesThatItHasNoMore(t *testing.T) {
	s := New()
	with := func(names ...string) *job.Job {
		g := &job.TaskGroup{Name: "g"}
		for _, name := range names {
			g.Services = append(g.Services, &job.Service{Name: name})
		}
		return &job.Job{ID: "j", Namespace: "d", TaskGroups: []*job.TaskGroup{g}}
	}
	found := func() (names []string) {
		for _, name := range []string{"a", "b", "c"} {
			for range s.Snapshot().JobsFound(nil, "d", name) {
				names = append(names, name)
			}
		}
		return names
	}
	for i, names := range [][]string{{"a", "b"}, {"b", "c"}, nil, {"c"}} {
		write(t, s, uint64(i+1), func(tx *Tx) { tx.PutJob(with(names...)) })
		if got := found(); !slices.Equal(got, names) {
			t.Errorf("with %q it is found by %q", names, got)
		}
	}
}
