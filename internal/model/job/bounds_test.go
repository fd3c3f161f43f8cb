package job

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

func fill[T any](n int) []*T {
	out := make([]*T, n)
	for i := range out {
		out[i] = new(T)
	}
	return out
}

func TestEveryBoundNamesPlaceValueAndLimit(t *testing.T) {
	for name, c := range map[string]struct {
		change func(j *Job, n int)
		bound  Bound
		word   string
	}{
		"count": {func(j *Job, n int) { j.TaskGroups[0].Count = n }, MaxAllocs, `group "g": count`},
		"sum of count": {func(j *Job, n int) {
			j.TaskGroups[0].Count, j.TaskGroups[1].Count = n/2, n-n/2
		}, MaxAllocs, "sum of the groups' count"},
		"groups": {func(j *Job, n int) { j.TaskGroups = fill[TaskGroup](n) }, MaxGroups, "groups"},
		"tasks": {func(j *Job, n int) {
			j.TaskGroups[0].Tasks = fill[Task](n)
		}, MaxTasks, `group "g": number of tasks`},
		"constraints": {func(j *Job, n int) {
			j.Constraints = fill[Constraint](1)
			j.TaskGroups[1].Constraints = fill[Constraint](1)
			j.TaskGroups[0].Tasks[0].Constraints = fill[Constraint](n - 2)
		}, MaxConstraints, "constraints"},
		"affinities": {func(j *Job, n int) {
			j.TaskGroups[0].Tasks[0].Affinities = fill[Affinity](n)
		}, MaxAffinities, "affinities"},
		"spreads": {func(j *Job, n int) { j.TaskGroups[0].Spreads = fill[Spread](n) }, MaxSpreads, "spreads"},
		"spread targets": {func(j *Job, n int) {
			j.Spreads = []*Spread{{SpreadTarget: fill[SpreadTarget](n - 1)}}
		}, MaxSpreads, "targets"},
		"datacenters": {func(j *Job, n int) { j.Datacenters = make([]string, n) }, MaxDatacenters, "datacenters"},
		"volumes": {func(j *Job, n int) {
			j.TaskGroups[0].Volumes = map[string]*VolumeRequest{}
			for i := range n {
				j.TaskGroups[0].Volumes[strconv.Itoa(i)] = &VolumeRequest{}
			}
		}, MaxVolumes, `group "g": number of volumes`},
		"ports": {func(j *Job, n int) {
			j.TaskGroups[0].Networks = []*NetworkResource{{
				ReservedPorts: make([]Port, 1),
				DynamicPorts:  make([]Port, n-1),
			}}
		}, MaxPorts, `group "g": number of ports`},
		"cpu": {func(j *Job, n int) {
			j.TaskGroups[0].Tasks[0].Resources = &Resources{CPU: n}
		}, MaxMHz, `group "g": task "": cpu`},
		"memory": {func(j *Job, n int) {
			j.TaskGroups[0].Tasks[0].Resources = &Resources{MemoryMB: n}
		}, MaxMiB, `group "g": task "": memory`},
		"memory_max": {func(j *Job, n int) {
			j.TaskGroups[0].Tasks[0].Resources = &Resources{MemoryMaxMB: n}
		}, MaxMiB, `group "g": task "": memory_max`},
		"disk": {func(j *Job, n int) {
			j.TaskGroups[0].EphemeralDisk = &EphemeralDisk{SizeMB: n}
		}, MaxMiB, `group "g": size of ephemeral_disk`},
		"files of logs": {func(j *Job, n int) {
			j.TaskGroups[0].Tasks[0].LogConfig = &LogConfig{MaxFiles: n}
		}, MaxLogFiles, `group "g": task "": max_files`},
		"size of logs": {func(j *Job, n int) {
			j.TaskGroups[0].Tasks[0].LogConfig = &LogConfig{MaxFileSizeMB: n}
		}, MaxMiB, `group "g": task "": max_file_size`},
	} {
		t.Run(name, func(t *testing.T) {
			with := func(n int) []*Excess {
				j := &Job{TaskGroups: []*TaskGroup{{Name: "g", Tasks: fill[Task](1)}, {Name: "h"}}}
				c.change(j, n)
				return j.Excesses()
			}
			if got := with(c.bound.Max); len(got) > 0 {
				t.Errorf("at the bound: %v", got)
			}
			got := with(c.bound.Max + 1)
			if len(got) != 1 || got[0].Bound != c.bound {
				t.Fatalf("beyond the bound: %v", got)
			}
			for _, word := range []string{c.word, strconv.Itoa(c.bound.Max), strconv.Itoa(c.bound.Max + 1),
				c.bound.Of} {
				if !strings.Contains(got[0].Error(), word) {
					t.Errorf("%q does not say %q", got[0], word)
				}
			}
		})
	}
}

func TestCountsThatOverflowAreBeyondTheBound(t *testing.T) {
	j := &Job{
		TaskGroups: []*TaskGroup{{Name: "a", Count: math.MaxInt}, {Name: "b", Count: math.MaxInt}, nil,
			{Name: "c", Count: math.MinInt}},
	}
	if got := j.Excesses(); len(got) != 2 || got[0].Group != "a" || got[1].Group != "b" {
		t.Errorf("%v", got)
	}
}
