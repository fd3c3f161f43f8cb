package taskhooks_test

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/client/hook"
	"berth/internal/client/taskhooks"
	"berth/internal/model/job"
	"berth/internal/port/driver"
	"berth/internal/port/users"
)

// TestATaskOfADeniedUserIsRefusedByName: of job, group, task and user, with the way out. A process that runs, and a
// storage plugin, are left alone.
func TestATaskOfADeniedUserIsRefusedByName(t *testing.T) {
	info := driver.Info{Name: "exec", Users: users.Policy{Default: "nobody", Denied: []string{"root"}},
		Capabilities: driver.Capabilities{Mounts: driver.MountAll}}
	controller := &job.CSIPluginConfig{Type: job.PluginController}
	for name, c := range map[string]struct {
		task     job.Task
		restored bool
		denied   bool
	}{
		"none":               {task: job.Task{Name: "web"}},
		"another":            {task: job.Task{Name: "web", User: "4321:8765"}},
		"root":               {task: job.Task{Name: "web", User: "root"}, denied: true},
		"root by its number": {task: job.Task{Name: "web", User: "0:8765"}, denied: true},
		"root, that runs":    {task: job.Task{Name: "web", User: "root"}, restored: true},
		"a plugin":           {task: job.Task{Name: "web", User: "root", CSIPluginConfig: &job.CSIPluginConfig{}}},
		"a controller alone": {task: job.Task{Name: "web", User: "root", CSIPluginConfig: controller}, denied: true},
	} {
		x := &hook.Task{
			Job:        &job.Job{ID: "shop"},
			Group:      &job.TaskGroup{Name: "group"},
			Task:       &c.task,
			User:       hook.UserOf(&c.task, info),
			DriverInfo: info,
			Restored:   c.restored,
		}
		err := (&taskhooks.User{}).Prestart(t.Context(), x)
		if fault.Has(err, fault.Denied) != c.denied || err != nil && !c.denied {
			t.Errorf("%s: %v", name, err)
		}
		for _, word := range []string{`"shop"`, `"group"`, `"web"`, c.task.User, `plugin "exec"`, "denied_users"} {
			if c.denied && !strings.Contains(err.Error(), word) {
				t.Errorf("%s: it does not say %s: %v", name, word, err)
			}
		}
	}
}

func TestWhoATaskIs(t *testing.T) {
	info := driver.Info{Users: users.Policy{Default: "nobody"},
		Capabilities: driver.Capabilities{Mounts: driver.MountAll}}
	controller := job.Task{CSIPluginConfig: &job.CSIPluginConfig{Type: job.PluginController}}
	if got := hook.UserOf(&controller, info); got != "nobody" {
		t.Errorf("a controller alone runs as %q", got)
	}
	if got := hook.UserOf(&controller, driver.Info{Users: info.Users,
		Capabilities: driver.Capabilities{Mounts: driver.MountNone}}); got != "" {
		t.Errorf("a controller alone, on the node's own paths, runs as %q", got)
	}
	for want, task := range map[string]job.Task{
		"nobody": {}, "app": {User: "app"}, "": {CSIPluginConfig: &job.CSIPluginConfig{}},
		"of-the-plugin": {User: "of-the-plugin", CSIPluginConfig: &job.CSIPluginConfig{}},
	} {
		if got := hook.UserOf(&task, info); got != want {
			t.Errorf("%+v runs as %q, want %q", task, got, want)
		}
	}
}
