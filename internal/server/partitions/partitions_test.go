package partitions_test

import (
	"strings"
	"testing"

	"berth/internal/model/job"
	"berth/internal/model/partition"
	"berth/internal/server/partitions"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// Given a namespace that says what its jobs may use, when a job uses something else, then all of it is named, with the
// group and the task; a job that names no pool is in that of the namespace.
func TestAJobUsesWhatItsNamespaceAllows(t *testing.T) {
	c := localstate.New(t)
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.PutNodePool(&partition.NodePool{Name: "gpu"})
		tx.PutNamespace(&partition.Namespace{
			Name: "app",
			Capabilities: &partition.Capabilities{
				EnabledDrivers:       []string{"exec"},
				DisabledNetworkModes: []string{"host"},
			},
			Pools: &partition.PoolRules{Default: "gpu", Allowed: []string{}},
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Store.Snapshot()
	j := &job.Job{Namespace: "app", ID: "web", NodePool: "default", TaskGroups: []*job.TaskGroup{{
		Name:     "g",
		Networks: []*job.NetworkResource{{}},
		Tasks:    []*job.Task{{Name: "a", Driver: "exec"}, {Name: "b", Driver: "raw_exec"}},
	}}}
	wants := []string{
		`node pool "default" is not allowed in namespace "app" (allowed are gpu)`,
		`group "g": network mode "host" is not allowed in namespace "app"`,
		`group "g": task "b": driver "raw_exec" is not allowed in namespace "app"`,
	}
	errs := partitions.Permits(s, j)
	for i, want := range wants {
		if len(errs) != len(wants) || !strings.Contains(errs[i].Error(), want) {
			t.Fatalf("%v, want %q", errs, wants)
		}
	}
	j.NodePool = ""
	partitions.Place(s, j)
	j.TaskGroups[0].Networks, j.TaskGroups[0].Tasks = nil, j.TaskGroups[0].Tasks[:1]
	if errs := partitions.Permits(s, j); j.NodePool != "gpu" || len(errs) > 0 {
		t.Errorf("in pool %q: %v", j.NodePool, errs)
	}
	other := &job.Job{Namespace: "default", ID: "web"}
	if partitions.Place(s, other); other.NodePool != "default" {
		t.Errorf("in the default namespace the pool is %q", other.NodePool)
	}
}
