package validate

import (
	"strings"
	"testing"

	"berth/internal/model/job"
	"berth/internal/model/volume"
)

// TestCanariesThatCouldNeverRun are refused, with the volume or the task that is in the way.
func TestCanariesThatCouldNeverRun(t *testing.T) {
	using := func(mode volume.AccessMode, readOnly, perAlloc bool) *job.TaskGroup {
		return &job.TaskGroup{Name: "g", Update: &job.UpdateStrategy{MaxParallel: 1, Canary: 1},
			Volumes: map[string]*job.VolumeRequest{"data": {
				Name:       "data",
				Type:       job.VolumeTypeCSI,
				AccessMode: string(mode),
				ReadOnly:   readOnly,
				PerAlloc:   perAlloc,
			}}}
	}
	runsPlugin := &job.TaskGroup{Name: "g", Update: &job.UpdateStrategy{MaxParallel: 1, Canary: 1},
		Tasks: []*job.Task{{Name: "p", CSIPluginConfig: &job.CSIPluginConfig{ID: "p"}}}}
	for name, c := range map[string]struct {
		group *job.TaskGroup
		want  string // empty: it is taken
	}{
		"one writer":              {using(volume.SingleNodeWriter, false, false), `volume "data"`},
		"one writer, per alloc":   {using(volume.SingleNodeWriter, false, true), `volume "data"`},
		"one writer of many":      {using(volume.MultiNodeSingleWriter, false, false), `volume "data"`},
		"a reader of many":        {using(volume.MultiNodeSingleWriter, true, false), ""},
		"many writers":            {using(volume.MultiNodeMultiWriter, false, false), ""},
		"readers":                 {using(volume.MultiNodeReader, true, false), ""},
		"a plugin":                {runsPlugin, `task "p"`},
		"no canary of a plugin":   {&job.TaskGroup{Name: "g", Tasks: runsPlugin.Tasks}, ""},
		"no canary, one writer":   {&job.TaskGroup{Name: "g", Update: &job.UpdateStrategy{MaxParallel: 1}}, ""},
		"a canary without either": {&job.TaskGroup{Name: "g", Update: &job.UpdateStrategy{Canary: 1}}, ""},
	} {
		err := triable(&job.Job{ID: "j"}, c.group)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMembersOfUpdateWithoutEffect are warned of.
func TestMembersOfUpdateWithoutEffect(t *testing.T) {
	group := func(name string, count int, u job.UpdateStrategy) *job.TaskGroup {
		return &job.TaskGroup{Name: name, Count: count, Update: &u}
	}
	for want, groups := range map[string][]*job.TaskGroup{
		"": {group("g", 2, job.UpdateStrategy{MaxParallel: 2, AutoRevert: true})},
		"max_parallel (3) is more than count (2)": {group("g", 2, job.UpdateStrategy{MaxParallel: 3})},
		"auto_revert has no effect":               {group("g", 1, job.UpdateStrategy{AutoRevert: true})},
		`because group "h" has canaries without it`: {
			group("g", 1, job.UpdateStrategy{MaxParallel: 1, Canary: 1, AutoPromote: true}),
			group("h", 1, job.UpdateStrategy{MaxParallel: 1, Canary: 1}),
		},
	} {
		j := &job.Job{ID: "j", Type: job.TypeService, TaskGroups: groups}
		got := untried(j, groups[0])
		if (want == "") != (len(got) == 0) || want != "" && !strings.Contains(got[0], want) {
			t.Errorf("%q: %q", want, got)
		}
	}
}
