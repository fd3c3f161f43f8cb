package jobdiff_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/jobdiff"
	"berth/internal/httpapi/jobrules"
	"berth/internal/model/job"
	"berth/internal/testkit/samplejob"
	"berth/internal/wire"
)

// shown writes a diff as lines.
func shown(d *api.JobDiff) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s job\n", d.Type)
	parts(&b, " ", d.Fields, d.Objects)
	for _, g := range d.TaskGroups {
		fmt.Fprintf(&b, " %s group %s %v\n", g.Type, g.Name, g.Updates)
		parts(&b, "  ", g.Fields, g.Objects)
		for _, t := range g.Tasks {
			fmt.Fprintf(&b, "  %s task %s %v\n", t.Type, t.Name, t.Annotations)
			parts(&b, "   ", t.Fields, t.Objects)
		}
	}
	return b.String()
}

func parts(b *strings.Builder, indent string, fields []*api.FieldDiff, objects []*api.ObjectDiff) {
	for _, f := range fields {
		fmt.Fprintf(b, "%s%s %s: %q => %q\n", indent, f.Type, f.Name, f.Old, f.New)
	}
	for _, o := range objects {
		fmt.Fprintf(b, "%s%s %s\n", indent, o.Type, o.Name)
		parts(b, indent+" ", o.Fields, o.Objects)
	}
}

func stored(change func(*api.Job)) *job.Job {
	j := samplejob.New()
	if change != nil {
		change(j)
	}
	jobrules.Canonicalize(j, "global", "default")
	return convert.ToJob(j)
}

// plannedChange shows values that stay in what is edited, and nothing else that stays.
const plannedChange = `Edited job
 Edited group g map[create/destroy update:1]
  Edited Count: "1" => "3"
  Edited RestartPolicy
   Edited Attempts: "9" => "7"
   None Delay: "15000000000" => "15000000000"
   None Interval: "1800000000000" => "1800000000000"
   None Mode: "fail" => "fail"
   None RenderTemplates: "false" => "false"
  Edited task t [forces create/destroy update]
   Edited Config
    None args[0]: "-a" => "-a"
    Edited args[1]: "b" => "c"
    None command: "/bin/x" => "/bin/x"
   Edited RestartPolicy
    Edited Attempts: "9" => "7"
    None Delay: "15000000000" => "15000000000"
    None Interval: "1800000000000" => "1800000000000"
    None Mode: "fail" => "fail"
    None RenderTemplates: "false" => "false"
`

// Given two versions of a job, when they are compared, then exactly what differs is shown, down to the value.
func TestWhatADiffTells(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*api.Job)
		want   string
	}{
		{"nothing", nil, "None job\n None group g map[]\n  None task t []\n"},
		{"a count and an environment", func(j *api.Job) {
			j.TaskGroups[0].Count = new(0)
			j.TaskGroups[0].Tasks[0].Env = map[string]string{"A": "c", "B": "d"}
			j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "/bin/x", "args": []any{"-a"}}
		}, `Edited job
 Edited group g map[]
  Edited Count: "1" => "0"
  Edited task t []
   Edited Config
    Deleted args[1]: "b" => ""
   Edited Env
    Edited A: "b" => "c"
    Added B: "" => "d"
`},
		{"a port, a volume and a constraint", func(j *api.Job) {
			j.Constraints = nil
			j.TaskGroups[0].Networks[0].ReservedPorts[0].Value = 6380
			j.TaskGroups[0].Volumes["certs"] = &api.VolumeRequest{Type: "host", Source: "certs"}
			j.TaskGroups[0].Volumes["data"].MountOptions.MountFlags = append(
				j.TaskGroups[0].Volumes["data"].MountOptions.MountFlags, "nodev")
		}, `Edited job
 Deleted Constraint
  Deleted LTarget: "${attr.kernel.name}" => ""
  Deleted RTarget: "linux" => ""
  Deleted Operand: "=" => ""
 Edited group g map[]
  Added Volume "certs"
   Added Name: "" => "certs"
   Added Type: "" => "host"
   Added Source: "" => "certs"
  Edited Volume "data"
   Edited MountOptions
    Added MountFlags[1]: "" => "nodev"
  Edited Network
   Edited ReservedPort
    Edited Value: "6379" => "6380"
  None task t []
`},
	} {
		if got := shown(jobdiff.Of(stored(nil), stored(c.change))); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	planned := jobdiff.Planned(stored(nil), stored(func(j *api.Job) {
		j.TaskGroups[0].Count = new(3)
		j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "/bin/x", "args": []any{"-a", "c"}}
		j.TaskGroups[0].RestartPolicy = &api.RestartPolicy{Attempts: new(7)}
	}), map[string]wire.GroupChanges{"g": {DestructiveUpdate: 1}})
	if got := shown(planned); got != plannedChange || fmt.Sprint(planned.TaskGroups[0].Fields[0].Annotations) !=
		"[forces create]" {
		t.Errorf("a plan:\n%s\nwant\n%s", got, plannedChange)
	}
	port := shown(jobdiff.Planned(stored(nil), stored(func(j *api.Job) {
		j.TaskGroups[0].Networks[0].ReservedPorts[0].Value = 6380
	}), nil))
	if !strings.Contains(port, `None Mode: "host" => "host"`) || strings.Contains(port, `"" => ""`) {
		t.Errorf("what stays is shown if it is there:\n%s", port)
	}
	fewer := jobdiff.Planned(stored(func(j *api.Job) { j.TaskGroups[0].Count = new(3) }), stored(nil), nil)
	if f := fewer.TaskGroups[0].Fields[0]; f.Name != "Count" || fmt.Sprint(f.Annotations) != "[forces destroy]" {
		t.Errorf("a lower count: %+v", f)
	}
	added := jobdiff.Planned(nil, stored(nil), map[string]wire.GroupChanges{"g": {Place: 1, DestructiveUpdate: 2}})
	if added.Type != api.DiffTypeAdded || added.TaskGroups[0].Type != api.DiffTypeAdded ||
		added.TaskGroups[0].Tasks[0].Type != api.DiffTypeAdded ||
		fmt.Sprint(added.TaskGroups[0].Updates) != "map[create:1 create/destroy update:2]" {
		t.Errorf("a new job:\n%s", shown(added))
	}
	if gone := jobdiff.Planned(stored(nil), stored(func(j *api.Job) { j.TaskGroups[0].Name = "h" }),
		nil); gone.TaskGroups[0].Type != api.DiffTypeDeleted || gone.TaskGroups[1].Type != api.DiffTypeAdded {
		t.Errorf("a renamed group:\n%s", shown(gone))
	}
}
