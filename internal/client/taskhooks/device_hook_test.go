package taskhooks_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"berth/internal/client/hook"
	"berth/internal/client/taskhooks"
	"berth/internal/model/alloc"
	model "berth/internal/model/device"
	"berth/internal/model/job"
	port "berth/internal/port/device"
)

// answering are devices whose plugin answers the same each time.
type answering port.Provided

func (a *answering) Reserve(context.Context, []model.Given) (*port.Provided, error) {
	out := port.Provided(*a)
	return &out, nil
}

// Given a plugin that gives variables which Berth, another hook or the job sets, when a task with its device starts,
// then the task has theirs and besides them the plugin's, and an event names what a task never gets of a plugin.
func TestADevicesVariablesReplaceNoOthers(t *testing.T) {
	var events []*alloc.TaskEvent
	given := []model.Given{{Kind: model.Kind{Vendor: "acme", Type: "gpu", Name: "k80"}, IDs: []string{"a"}}}
	task := &hook.Task{
		Alloc: &alloc.Alloc{Resources: alloc.Resources{
			Tasks: map[string]alloc.TaskResources{"main": {Devices: given}},
		}},
		Task: &job.Task{Name: "main"},
		Emit: func(e *alloc.TaskEvent) { events = append(events, e) },
		Out:  hook.Output{Env: map[string]string{"FROM_HOOK": "ours"}},
	}
	task.Variables = func() map[string]string {
		all := map[string]string{"CUDA_VISIBLE_DEVICES": "the job's"}
		maps.Copy(all, task.Out.Env)
		return all
	}
	h := &taskhooks.Device{Devices: &answering{
		Env: map[string]string{"CUDA_VISIBLE_DEVICES": "0", "NVIDIA_VISIBLE_DEVICES": "a", "FROM_HOOK": "theirs"},
		LeftOut: []port.LeftOut{
			{Plugin: "acme", Variables: []string{"NOMAD_TASK_DIR", "PATH"}},
			{Plugin: "other", Variables: []string{"LD_PRELOAD"}},
		},
	}}
	if err := h.Prestart(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"NVIDIA_VISIBLE_DEVICES": "a", "FROM_HOOK": "ours"}; !maps.Equal(task.Out.Env, want) {
		t.Errorf("the hooks give %v, want %v", task.Out.Env, want)
	}
	if len(events) != 2 {
		t.Fatalf("%d events", len(events))
	}
	for i, says := range [][]string{{`"acme"`, "NOMAD_TASK_DIR, PATH", "env"}, {`"other"`, "LD_PRELOAD"}} {
		if events[i].Type != alloc.EventDeviceVariables {
			t.Errorf("an event of the type %q", events[i].Type)
		}
		for _, part := range says {
			if !strings.Contains(events[i].DisplayMessage, part) {
				t.Errorf("%q does not say %q", events[i].DisplayMessage, part)
			}
		}
	}
}
