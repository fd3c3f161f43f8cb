package submit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/drivermanager"
	"berth/internal/derive/taskenv"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/mock"
	"berth/internal/port/driver/rawexec"
	"berth/internal/port/users"
	"berth/internal/testkit/oneserver"
	"berth/internal/wire"
)

var errNotLaunched = errors.New("nothing is launched here")

// launcher launches nothing, so that a start that comes to it was taken.
type launcher struct{ driver.Launcher }

func (launcher) Launch(context.Context, *driver.LaunchSpec) (driver.Process, error) {
	return nil, errNotLaunched
}

// values are what clients send, in all forms. Texts are capabilities, so that options that take some are pleased.
var values = []string{
	`null`, `"chown"`, `""`, `"host"`, `"private"`, `"true"`, `"5"`, `5`, `-1`, `5.5`, `1e30`, `true`, `[]`,
	`["chown"]`, `["chown", "kill"]`, `[5, true]`, `["chown", null]`, `[["chown"]]`, `["chown", {}]`, `{}`,
	`{"a": "b"}`, `[{"a": "b"}]`, `[{}, {}]`, `"${LATER}"`, `["${LATER}"]`, `["a ${LATER}"]`, `{"a": "${LATER}"}`,
}

// Given nodes with the drivers of production, when each of their options is given each value, then what validation
// takes starts, and what does not start is refused by validation; but for a text that only its node can put together.
func TestWhatIsTakenAtSubmitStarts(t *testing.T) {
	drivers := []driver.Driver{
		exec.New(exec.Config{AllowHostPID: true, AllowHostIPC: true}, launcher{}),
		rawexec.New(rawexec.Config{Enabled: true}, launcher{}),
		mock.New(),
	}
	conn := withNode(t, drivers)
	taken, refused := 0, 0
	for _, d := range drivers {
		for _, option := range append(slices.Sorted(maps.Keys(d.Info().Schema)), "no_such_option") {
			for _, value := range values {
				config := map[string]any{"command": "x"}
				if err := json.Unmarshal(fmt.Appendf(nil, "{%q: %s}", option, value), &config); err != nil {
					t.Fatal(err)
				}
				refusal := validate(t, conn, &job.Task{Name: "t", Driver: d.Name(), Config: config})
				err := started(t, d, config)
				if refusal != "" {
					refused++
				} else {
					taken++
				}
				if later := strings.Contains(value, "${"); refusal == "" && err != nil && !later || refusal != "" &&
					(err == nil || !strings.Contains(refusal, err.Error())) {
					t.Errorf("%s with %s = %s: at submit %q, at the start %v", d.Name(), option, value, refusal, err)
				}
			}
		}
	}
	if taken < 100 || refused < 100 {
		t.Errorf("%d were taken and %d refused: the values are too few", taken, refused)
	}
}

// Given a node whose driver denies a user, when a task names it, then validation refuses what the node would.
func TestADeniedUserIsRefusedAtSubmit(t *testing.T) {
	policy := users.Policy{Default: "nobody", Denied: []string{"root"}}
	conn := withNode(t, []driver.Driver{rawexec.New(rawexec.Config{Enabled: true, Users: policy}, launcher{})})
	for user, denied := range map[string]bool{"root": true, "nobody": false} {
		task := &job.Task{Name: "t", Driver: rawexec.Name, User: user, Config: map[string]any{"command": "x"}}
		refusal := validate(t, conn, task)
		if err := policy.Check(user); (err != nil) != denied || (refusal != "") != denied {
			t.Errorf("user %q: at submit %q, on the node %v", user, refusal, err)
		}
	}
}

// withNode is a server with a ready node that has the drivers.
func withNode(t *testing.T, drivers []driver.Driver) wire.Conn {
	t.Helper()
	m, err := drivermanager.New(drivermanager.Config{Drivers: drivers, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("drivers", func() error { return m.Run(gctx) })
	<-m.Looked()
	cancel()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	_, conn := oneserver.Start(t)
	id := ids.Node(ids.New())
	_, err = wire.NodeRegister.Call(t.Context(), conn, &wire.NodeRegisterRequest{
		NodeIdentity: wire.NodeIdentity{Node: id, Secret: wire.Secrets{Values: map[string]string{"id": ids.New()}}},
		Info:         &node.Node{ID: id, Name: "n", NodePool: "default", Drivers: m.States()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// validate is what a server says against the task; empty: nothing.
func validate(t *testing.T, conn wire.Conn, task *job.Task) string {
	t.Helper()
	group := &job.TaskGroup{Name: "g", Tasks: []*job.Task{task}}
	reply, err := wire.JobValidate.Call(t.Context(), conn, &wire.JobValidateRequest{Job: &job.Job{
		Namespace:   ids.DefaultNamespace,
		ID:          "j",
		NodePool:    "default",
		Datacenters: []string{"*"},
		TaskGroups:  []*job.TaskGroup{group},
	}})
	if err != nil || !reply.DriverConfigValidated {
		t.Fatalf("driver %s is not asked: %v", task.Driver, err)
	}
	return strings.Join(reply.Errors, "; ")
}

// started is why a node does not start a task with the config.
func started(t *testing.T, d driver.Driver, config map[string]any) error {
	t.Helper()
	stored, err := wire.Encode(config)
	if err != nil {
		t.Fatal(err)
	}
	var received map[string]any
	if err := wire.Decode(stored, &received); err != nil {
		t.Fatal(err)
	}
	env := taskenv.Env{Vars: map[string]string{"LATER": "now"}}
	replaced, err := env.ReplaceAll(received)
	if err != nil {
		return err
	}
	read, err := d.Info().Schema.Read(d.Name(), replaced)
	if err != nil {
		return err
	}
	task, err := d.Start(t.Context(), &driver.TaskConfig{Task: "t", Config: read})
	switch {
	case err == nil:
		return task.Stop(t.Context(), "", 0)
	case errors.Is(err, errNotLaunched), fault.Has(err, fault.Unavailable): // mock, where its config asks for it
		return nil
	case strings.Contains(err.Error(), `capability "5"`): // which there are is not the form of the config
		return nil
	}
	return err
}
