package validate

import (
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/server/state"
)

// Given a job with the id of one that another job would launch, when it is new, then it is refused; when it is there,
// it may be registered anew.
func TestNobodySubmitsWhatAJobLaunches(t *testing.T) {
	store := state.New()
	there := &job.Job{Namespace: ids.DefaultNamespace, ID: "p/periodic-600"}
	if err := store.Write(state.Stamp{Index: 1}, func(tx *state.Tx) error {
		tx.PutJob(there)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for id, refused := range map[ids.Job]bool{
		"p/periodic-600":   false,
		"p/periodic-660":   true,
		"p/dispatch-1-abc": true,
		"p/nightly":        false,
		"periodic-1":       false,
	} {
		_, err := Job(store.Snapshot(), &job.Job{Namespace: ids.DefaultNamespace, ID: id})
		if got := err != nil && strings.Contains(err.Error(), "another one has launched"); got != refused {
			t.Errorf("%s is refused: %t: %v", id, got, err)
		}
	}
}

// Given meta and env that fill more than an environment holds, when the job is submitted, then it is refused, by the
// task and the variable.
func TestWhatNoEnvironmentHoldsIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		meta map[string]string
		env  map[string]string
		says string
	}{
		"as people write it": {map[string]string{"a": "b"}, map[string]string{"c": strings.Repeat("x", 1<<10)}, ""},
		"a large value": {map[string]string{"a": strings.Repeat("x", job.MaxVariable)}, nil,
			`group "g": task "t": "a" has 122881 bytes`},
		"many values": {map[string]string{"a": strings.Repeat("x", 100<<10), "b": strings.Repeat("x", 100<<10)},
			map[string]string{
				"c": strings.Repeat("x", 110<<10),
				"d": strings.Repeat("x", 110<<10),
				"e": strings.Repeat("x", 110<<10),
			}, "meta and env have 542725 bytes, and may have 524288 together"},
	} {
		j := &job.Job{Namespace: ids.DefaultNamespace, ID: "j", Meta: c.meta, TaskGroups: []*job.TaskGroup{{
			Name:  "g",
			Tasks: []*job.Task{{Name: "t", Driver: "exec", Env: c.env}},
		}}}
		_, err := Job(state.New().Snapshot(), j)
		heavy := err != nil && (strings.Contains(err.Error(), " bytes"))
		if heavy != (c.says != "") || heavy && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
