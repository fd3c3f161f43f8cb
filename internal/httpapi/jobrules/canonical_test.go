package jobrules_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/api"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/jobrules"
	"berth/internal/testkit/samplejob"
	"berth/jobspec/jobjson"
	"berth/jobspec/support"
)

// observedJob is the job that an unmodified client sent, and the same job as the reference showed it then.
func observedJob(t *testing.T) (sent, shown *api.Job) {
	t.Helper()
	var request struct {
		Body struct{ Job *api.Job } `json:"request_body"`
	}
	var reply struct {
		Body struct{ Job *api.Job }
	}
	for name, into := range map[string]any{"PUT_jobs.200": &request, "GET_allocation_ID.200": &reply} {
		data, err := os.ReadFile("../../../api/testdata/replies/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	return request.Body.Job, reply.Body.Job
}

// Given the job of the observed exchange, when we fill in defaults, then they are those that the reference filled in,
// for everything that is built. The node pool is not among them: the servers know that of the namespace.
func TestDefaultsAreThoseOfTheReference(t *testing.T) {
	sent, want := observedJob(t)
	for _, g := range sent.TaskGroups {
		g.Services = nil
	}
	jobrules.Canonicalize(sent, "global", "default")
	got := convert.FromJob(convert.ToJob(sent), "pending", "")
	if *got.ID != *want.ID || len(got.TaskGroups) != len(want.TaskGroups) {
		t.Fatalf("the samples are of two jobs: %s and %s", *got.ID, *want.ID)
	}
	g, w := got.TaskGroups[0], want.TaskGroups[0]
	for what, pair := range map[string][2]any{
		"type": {got.Type, want.Type}, "priority": {got.Priority, want.Priority}, "datacenters": {got.Datacenters,
			want.Datacenters},
		"region": {got.Region, want.Region}, "namespace": {got.Namespace, want.Namespace},
		"all at once": {got.AllAtOnce, want.AllAtOnce}, "stop": {got.Stop, want.Stop},
		"count": {g.Count, w.Count}, "restart": {g.RestartPolicy, w.RestartPolicy}, "reschedule": {g.ReschedulePolicy,
			w.ReschedulePolicy},
		"disk": {g.EphemeralDisk, w.EphemeralDisk}, "logs": {g.Tasks[0].LogConfig, w.Tasks[0].LogConfig},
		"kill timeout": {g.Tasks[0].KillTimeout, w.Tasks[0].KillTimeout},
		"task restart": {g.Tasks[0].RestartPolicy, w.Tasks[0].RestartPolicy},
		"resources":    {g.Tasks[0].Resources, w.Tasks[0].Resources}, "update": {g.Update, w.Update},
	} {
		if d := cmp.Diff(pair[1], pair[0]); d != "" {
			t.Errorf("%s (-reference +ours):\n%s", what, d)
		}
	}
}

// Given jobs of each type, when defaults are filled in, then the policies are those of the type, and what the author
// wrote wins over the job's block, which wins over the default.
func TestPoliciesByTypeAndPlace(t *testing.T) {
	make := func(kind string) *api.TaskGroup {
		j := samplejob.New()
		j.Type = &kind
		j.TaskGroups[0].Update = &api.UpdateStrategy{MinHealthyTime: new(time.Second)}
		if kind != api.JobTypeService {
			j.Update = nil
			j.Reschedule = nil
			j.TaskGroups[0].Update = nil
		}
		jobrules.Canonicalize(j, "global", "default")
		return j.TaskGroups[0]
	}
	service := make(api.JobTypeService)
	batch := make(api.JobTypeBatch)
	system := make(api.JobTypeSystem)
	if u := service.Update; *u.MaxParallel != 3 || *u.MinHealthyTime != time.Second ||
		*u.HealthyDeadline != 5*time.Minute {
		t.Errorf("update of a service: %+v", u)
	}
	if batch.Update != nil || system.ReschedulePolicy != nil {
		t.Errorf("a batch job updates by %+v, a system job is rescheduled by %+v", batch.Update,
			system.ReschedulePolicy)
	}
	if r := service.ReschedulePolicy; *r.Delay != 7*time.Second || !*r.Unlimited || *r.MaxDelay != time.Hour {
		t.Errorf("reschedule of a service: %+v", r)
	}
	if r := batch.ReschedulePolicy; *r.Attempts != 1 || *r.Unlimited || *r.Interval != 24*time.Hour {
		t.Errorf("reschedule of a batch job: %+v", r)
	}
	if *service.RestartPolicy.Attempts != 9 || *service.RestartPolicy.Interval != 30*time.Minute ||
		*batch.RestartPolicy.Interval != 24*time.Hour {
		t.Errorf("restart: %v and %v", *service.RestartPolicy.Interval, *batch.RestartPolicy.Interval)
	}
	if *service.Tasks[0].RestartPolicy.Attempts != 9 || *service.Tasks[0].Templates[0].ChangeSignal != "SIGHUP" {
		t.Error("the task does not inherit its group's restart policy, or the template has no signal")
	}
}

// Given every mistake that validation knows, when a job makes it, then the finding says where it is.
func TestValidationNamesThePlace(t *testing.T) {
	fine := samplejob.New()
	jobrules.Canonicalize(fine, "global", "default")
	if errs := jobrules.Validate(fine); len(errs) > 0 {
		t.Fatalf("the sample is refused: %v", errs)
	}
	for _, c := range []struct {
		spoil func(*api.Job, *api.TaskGroup, *api.Task)
		text  string
	}{
		{func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.ID = new("a b") }, `job ID "a b"`},
		{func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Type = new("cron") }, `invalid job type: "cron"`},
		{func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Priority = new(101) }, "between 1 and 100"},
		{func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.TaskGroups = nil }, "missing job task groups"},
		{func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
			j.TaskGroups = append(j.TaskGroups, nil)
		}, "TaskGroups[1] is null"},
		{func(j *api.Job, g *api.TaskGroup, _ *api.Task) {
			j.TaskGroups = append(j.TaskGroups, g)
		}, `group "g" is defined twice`},
		{func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
			j.Constraints = []*api.Constraint{{LTarget: "a", RTarget: "b", Operand: "~"}}
		}, `unknown operator "~"`},
		{func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
			j.Constraints = []*api.Constraint{{LTarget: "a", RTarget: "(", Operand: "regexp"}}
		}, "regular expression"},
		{func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
			j.Spreads = []*api.Spread{{Attribute: "a", Weight: new(int8(0))}}
		}, "weight from 1 to 100"},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Name = "a/b" }, `group "a/b"`},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Count = new(-1) }, "count must not be negative"},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Count = new(2) }, "need count = 1"},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.RestartPolicy.Mode = new("never") }, "restart mode"},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.ReschedulePolicy.DelayFunction = new("linear")
		}, "delay_function"},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.Update.MinHealthyTime = new(time.Hour)
		}, "min_healthy_time"},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.EphemeralDisk.SizeMB = new(1) }, "ephemeral_disk"},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.Networks[0].DynamicPorts[0].Label = "db"
		}, `port label "db"`},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.Networks[0].ReservedPorts[0].Value = 70000
		}, "between 0 and 65535"},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.Networks[0].Mode = "bridge"
			g.Networks[0].ReservedPorts[0].IgnoreCollision = true
		}, "ignore_collision has a meaning on the host's network alone"},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Volumes["data"].Source = "../x" }, `source "../x"`},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.Volumes["data"].Type = "nfs"
		}, "type must be csi or host"},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Volumes["data"].AccessMode = "rw" }, "access mode"},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Volumes["data"].AttachmentMode = "" }, "attachment mode"},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Tasks = nil }, "missing tasks"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Name = "../t" }, `task "../t"`},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Driver = "" }, "missing task driver"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.KillTimeout = new(-time.Second) }, "must not be negative"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Lifecycle.Hook = "mid" }, "lifecycle hook"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.MemoryMB = new(1) }, "minimum MemoryMB"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.MemoryMaxMB = new(12) }, "memory_max"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.PIDs = -1 }, "pids (-1)"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.PIDs = 1<<22 + 1 }, "pids (4194305)"},
		{func(_ *api.Job, g *api.TaskGroup, t *api.Task) {
			t.LogConfig.MaxFiles = new(500)
			g.Tasks = append(g.Tasks, &api.Task{Name: "small", LogConfig: &api.LogConfig{MaxFiles: new(1)}})
			jobrules.Canonicalize(&api.Job{ID: new("x"), TaskGroups: []*api.TaskGroup{g}}, "global", "default")
		}, `group "g": log storage (5010 MB) must be less than requested disk capacity (300 MB): task "t" keeps ` +
			`5000 MB, task "small" 10 MB; raise the size of ephemeral_disk above 5010, or lower max_files or ` +
			`max_file_size in logs of a task`},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.User = "no\x00body" }, "user contains NUL"},
		{func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Meta["a\x00"] = "b" }, `job: meta "a\x00" contains NUL`},
		{func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Meta["k"] = "\x00" }, `job: meta "k" contains NUL`},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.Meta = map[string]string{"a": "b\x00"}
		}, `group "g": meta "a" contains NUL`},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.Meta = map[string]string{"a": "b\x00"}
		}, `task "t": meta "a" contains NUL`},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.Templates[0].DestPath = new("local/a\x00")
		}, "template 1: destination contains NUL"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.Templates[0].EmbeddedTmpl, t.Templates[0].Envvars = new("A=\x00"), new(true)
		}, "template 1: data, of which variables are made, contains NUL"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.VolumeMounts[0].Destination = new("/a\x00")
		}, "volume_mount 0: destination contains NUL"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.CSIPluginConfig.StagePublishBaseDir = "/a\x00"
		}, "csi_plugin stage_publish_base_dir contains NUL"},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.Volumes["data"].MountOptions.MountFlags = []string{"no\x00atime"}
		}, `volume "data": mount_options contains NUL`},
		{func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.Volumes["h"] = &api.VolumeRequest{Type: "host", Source: "a\x00"}
		}, `volume "h": source contains NUL`},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.Env = map[string]string{"A": "\x00"}
		}, `env "A" contains NUL`},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.Config = map[string]any{"args": []any{"a", map[string]any{"b": "\x00"}}}
		}, "config.args contains NUL"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.VolumeMounts[0].Volume = new("other")
		}, `names volume "other"`},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.Templates[0].DestPath = new("../../etc/passwd")
		}, "leaves the task's directory"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.Templates[0].DestPath = new("/etc/app.conf")
		}, `destination "/etc/app.conf" is no file in the task's directories; begin it with local/`},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.VolumeMounts[0].Destination = new("/proc/data")
		}, `nothing can be mounted at "/proc/data" in a task; choose another path`},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.VolumeMounts = append(t.VolumeMounts, t.VolumeMounts[0])
		}, "is used twice; each needs a path of its own"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.CSIPluginConfig.MountDir = "/sys/csi"
		}, `mount_dir "/sys/csi" is where nothing can be mounted`},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Templates[0].Perms = new("rwx") }, "perms"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.CSIPluginConfig.Type = "both" }, "csi_plugin type"},
		{func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.CSIPluginConfig.ID = "a/b" }, `csi_plugin id "a/b"`},
	} {
		j := samplejob.New()
		jobrules.Canonicalize(j, "global", "default")
		c.spoil(j, j.TaskGroups[0], j.TaskGroups[0].Tasks[0])
		errs := jobrules.Validate(j)
		found := false
		for _, err := range errs {
			found = found || strings.Contains(err.Error(), c.text)
		}
		if !found {
			t.Errorf("want %q among %v", c.text, errs)
		}
	}
}

// Given what is neither the name of a user nor a number, then it is refused when the job is submitted, not at each
// start of its task; what any node may know is not.
func TestAUserIsANameOrANumber(t *testing.T) {
	for user, wrong := range map[string]string{
		"": "", "nobody": "", "_apt": "", "Ann.Lee-2": "", "host$": "", "ann@example.org": "", `CORP\ann`: "",
		"ünal": "",
		"0":    "", "1000:1000": "", "app:staff": "", "4294967294": "",
		strings.Repeat("u", 256): "",
		"../x":                   `character '/' is not allowed`,
		"a b":                    `character ' ' is not allowed`,
		"a\nb":                   `character '\n' is not allowed`,
		"${meta.user}":           `character '{' is not allowed`,
		"a,b":                    `character ',' is not allowed`,
		"a:b:c":                  `character ':' is not allowed`,
		"-r":                     `"-r" is no name`,
		"..":                     `".." is no name`,
		"app:..":                 `".." is no name`,
		"app:":                   "a part of it is empty",
		":app":                   "a part of it is empty",
		"4294967295":             "the largest is 4294967294",
		"0:99999999999":          "there is no number 99999999999",
		strings.Repeat("u", 257): "names have up to 256",
	} {
		j := samplejob.New()
		jobrules.Canonicalize(j, "global", "default")
		j.TaskGroups[0].Tasks[0].User = user
		said := fmt.Sprint(errors.Join(jobrules.Validate(j)...))
		if wrong == "" && said != "<nil>" {
			t.Errorf("%q: %s", user, said)
		}
		if wrong != "" && !(strings.HasPrefix(said, `group "g": task "t": user "`) && strings.Contains(said, wrong) &&
			strings.Contains(said, "write a name of the node's users, a number")) {
			t.Errorf("%q: %q does not say %q", user, said, wrong)
		}
	}
}

// The socket's directory is mounted at mount_dir in the task, and what is staged at stage_publish_base_dir: where
// nothing can be mounted is refused when the job is submitted, not when its task starts.
func TestAMountDirThatCannotBeMountedAtIsRefused(t *testing.T) {
	for dir, wrong := range map[string]string{
		"/csi":         "",
		"/var/lib/csi": "",
		"/..csi":       "",
		"csi":          "is not absolute",
		"./csi":        "is not absolute",
		"/":            "is the root",
		"//":           "is the root",
		"/.":           "is the root",
		"/csi/":        `it means "/csi"`,
		"/a//csi":      `it means "/a/csi"`,
		"/a/./csi":     `it means "/a/csi"`,
		"/csi/../etc":  `contains ".."`,
		"/..":          `contains ".."`,
		"/csi\x00":     "contains NUL",
	} {
		for _, of := range []string{"mount_dir", "stage_publish_base_dir"} {
			j := samplejob.New()
			jobrules.Canonicalize(j, "global", "default")
			g := j.TaskGroups[0]
			p := g.Tasks[0].CSIPluginConfig
			p.MountDir, p.StagePublishBaseDir = dir, "/elsewhere"
			if of != "mount_dir" {
				p.MountDir, p.StagePublishBaseDir = "/elsewhere", dir
			}
			var found []string
			for _, err := range jobrules.Validate(j) {
				if strings.Contains(err.Error(), "csi_plugin "+of+" ") {
					found = append(found, err.Error())
				}
			}
			if wrong == "" {
				if len(found) > 0 {
					t.Errorf("%s %q: %q", of, dir, found)
				}
				continue
			}
			said := strings.Join(found, "\n")
			for _, part := range []string{wrong, `job "` + *j.ID + `"`, `group "` + g.Name + `"`,
				`task "` + g.Tasks[0].Name + `"`, `such as "/`} {
				if !strings.Contains(said, part) {
					t.Errorf("%s %q: %q does not say %q", of, dir, said, part)
				}
			}
		}
	}
}

// What is mounted second hides what lies beneath: neither of a plugin's directories may hold the other.
func TestTheDirectoriesOfAPluginLieApart(t *testing.T) {
	for dirs, wrong := range map[[2]string]string{
		{"/csi", "/local/csi"}:     "",
		{"/csi", "/csi-volumes"}:   "",
		{"/csi", "/csi"}:           "mount_dir \"/csi\" must not contain stage_publish_base_dir",
		{"/csi", "/csi/volumes"}:   "mount_dir \"/csi\" must not contain stage_publish_base_dir",
		{"/csi/socket", "/csi"}:    "stage_publish_base_dir \"/csi\" must not contain mount_dir",
		{"/local/csi", "/local/c"}: "",
	} {
		j := samplejob.New()
		jobrules.Canonicalize(j, "global", "default")
		p := j.TaskGroups[0].Tasks[0].CSIPluginConfig
		p.MountDir, p.StagePublishBaseDir = dirs[0], dirs[1]
		var said string
		for _, err := range jobrules.Validate(j) {
			said += err.Error() + "\n"
		}
		if wrong == "" && strings.Contains(said, "must not contain") || !strings.Contains(said, wrong) {
			t.Errorf("%q: %s", dirs, said)
		}
	}
}

// A plugin is asked for one call at once at least, and for 256 at the most; it need not say anything.
func TestHowManyCallsAPluginTakesAtOnce(t *testing.T) {
	for most, taken := range map[int]bool{-1: false, 0: true, 1: true, 256: true, 257: false} {
		j := samplejob.New()
		jobrules.Canonicalize(j, "global", "default")
		j.TaskGroups[0].Tasks[0].CSIPluginConfig.MaxParallel = most
		var said string
		for _, err := range jobrules.Validate(j) {
			said += err.Error() + "\n"
		}
		if refused := strings.Contains(said, "max_parallel must be between 1 and 256"); refused == taken {
			t.Errorf("%d: %s", most, said)
		}
	}
}

// Given any JSON that decodes to a job, when it goes the way of a submission, then nothing panics and what passes
// validation survives its conversion.
func FuzzSubmission(f *testing.F) {
	data, err := json.Marshal(samplejob.New())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"ID":"x","TaskGroups":[null]}`))
	f.Add([]byte(
		`{"ID":"x","TaskGroups":[{"Name":"g","Count":null,"Volumes":{"v":null},"Networks":[null],"Spreads":[null],"Affinities":[null],"Constraints":[null],"Tasks":[null,{"Name":"t","Templates":[null],"VolumeMounts":[null]}]}]}`))
	f.Add([]byte(
		`{"ID":"x","Type":"system","Datacenters":[""],"TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Resources":{},"LogConfig":{"Enabled":true},"CSIPluginConfig":{}}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, _, err := jobjson.Decode(data)
		if err != nil || j.ID == nil || len(support.Unsupported(j)) > 0 {
			return
		}
		jobrules.Canonicalize(j, "global", "default")
		if len(jobrules.Validate(j)) > 0 {
			return
		}
		m := convert.ToJob(j)
		if d := cmp.Diff(m, convert.ToJob(convert.FromJob(m, "pending", ""))); d != "" {
			t.Errorf("lost on the way:\n%s", d)
		}
	})
}
