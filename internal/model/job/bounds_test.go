package job

import (
	"math"
	"reflect"
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

// large is a job with n of something.
func large(change func(j *Job, n int), n int) *Job {
	j := &Job{TaskGroups: []*TaskGroup{{Name: "g", Tasks: fill[Task](1)}, {Name: "h"}}}
	change(j, n)
	return j
}

// cut is what is judged of such a job. That it is judged leaves the job as it is.
func cut(change func(j *Job, n int), n int) *Job {
	j := large(change, n)
	out := j.Within()
	if len(j.Excesses()) == 0 {
		panic("the job itself was changed")
	}
	return out
}

// TestWithinItsBoundsAJobIsItself: a job that passes no bound is judged as it is.
func TestWithinItsBoundsAJobIsItself(t *testing.T) {
	j := &Job{
		ID:          "j",
		Datacenters: []string{"*"},
		Constraints: fill[Constraint](2),
		Spreads:     []*Spread{{SpreadTarget: fill[SpreadTarget](3)}},
		TaskGroups: []*TaskGroup{{
			Name:          "g",
			Count:         -1,
			Affinities:    fill[Affinity](1),
			Networks:      []*NetworkResource{{ReservedPorts: make([]Port, 1), DynamicPorts: make([]Port, 2)}},
			Volumes:       map[string]*VolumeRequest{"v": {Source: "s"}},
			EphemeralDisk: &EphemeralDisk{SizeMB: 7},
			Tasks: []*Task{{
				Constraints: fill[Constraint](1),
				Resources:   &Resources{CPU: 1, MemoryMB: 2, MemoryMaxMB: -1},
				LogConfig:   &LogConfig{MaxFiles: 3, MaxFileSizeMB: 4},
			}},
		}},
	}
	if got := j.Within(); !reflect.DeepEqual(got, j) {
		t.Errorf("it becomes %+v", got)
	}
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
				return large(c.change, n).Excesses()
			}
			if got := with(c.bound.Max); len(got) > 0 {
				t.Errorf("at the bound: %v", got)
			}
			got := with(c.bound.Max + 1)
			if len(got) != 1 || got[0].Bound != c.bound {
				t.Fatalf("beyond the bound: %v", got)
			}
			if over := cut(c.change, c.bound.Max+1).Excesses(); len(over) > 0 {
				t.Errorf("what is within the bounds is beyond: %v", over)
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
