package server

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/model/node"
	"berth/internal/model/taskconfig"
	"berth/internal/wire"
)

// Given a node that says what its driver takes, when a job gives a list for a text, then registration, plan and
// validation refuse it with one sentence; what can be
// written as a text is one.
func TestAConfigThatDoesNotFitIsRefusedByEveryVerb(t *testing.T) {
	_, c := startWhole(t)
	id, info := testNode()
	info.Drivers = map[string]*node.Driver{"exec": {
		Detected: true,
		Healthy:  true,
		Options: taskconfig.Schema{
			"command": {Kind: taskconfig.Text, Required: true},
			"args":    {Kind: taskconfig.Texts},
		},
	}}
	do(t, c, wire.NodeRegister, &wire.NodeRegisterRequest{NodeIdentity: id, Info: info})
	j := wholeJob("wrong")
	task := j.TaskGroups[0].Tasks[0]
	task.Driver, task.Config = "exec", map[string]any{"command": "x", "args": []any{"a", map[string]any{"b": 1.0}}}
	want := `register job "wrong": group "` + j.TaskGroups[0].Name + `": task "` + task.Name +
		`": config.args[1]: the driver "exec" takes a text here, and this is a map (write args = ["…", "…"])`
	_, err := wire.JobRegister.Call(t.Context(), c, &wire.JobRegisterRequest{Job: j})
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("register: %v", err)
	}
	_, err = wire.JobPlan.Call(t.Context(), c, &wire.JobPlanRequest{Job: j})
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("plan: %v", err)
	}
	reply := do(t, c, wire.JobValidate, &wire.JobValidateRequest{Job: j})
	if len(reply.Errors) != 1 || !strings.Contains(reply.Errors[0], want) {
		t.Errorf("validate: %q", reply.Errors)
	}
	task.Config = map[string]any{"command": 1.0, "args": []any{"a", true}}
	do(t, c, wire.JobPlan, &wire.JobPlanRequest{Job: j})
}
