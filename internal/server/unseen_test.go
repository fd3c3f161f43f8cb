package server

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// byID are the calls about what is known by its id alone: each answers in words that hold all that its caller hears.
func byID(ctx context.Context, c wire.Conn, named ids.Namespace) map[string]struct {
	kind string
	call func(id string) (any, error)
} {
	q := wire.Query{Namespace: named}
	type call = struct {
		kind string
		call func(id string) (any, error)
	}
	deployment := func(id string) wire.DeploymentRequest {
		return wire.DeploymentRequest{Namespace: named, Deployment: ids.Deployment(id)}
	}
	onNode := func(id string) wire.AgentRef { return wire.AgentRef{Alloc: ids.Alloc(id)} }
	opens := func(stream interface{ Recv() error }, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		return nil, stream.Recv()
	}
	return map[string]call{
		"Alloc.Get": {"a", func(id string) (any, error) {
			return wire.AllocGet.Call(ctx, c, &wire.Ref[ids.Alloc]{Query: q, ID: ids.Alloc(id)})
		}},
		"Alloc.Services": {"a", func(id string) (any, error) {
			return wire.AllocServices.Call(ctx, c, &wire.Ref[ids.Alloc]{Query: q, ID: ids.Alloc(id)})
		}},
		"Alloc.Stop": {"a", func(id string) (any, error) {
			return wire.AllocStop.Call(ctx, c, &wire.AllocStopRequest{Namespace: named, Alloc: ids.Alloc(id)})
		}},
		"Alloc.Restart": {"a", func(id string) (any, error) {
			return wire.AllocRestart.Call(ctx, c, &wire.AllocRestartRequest{AgentRef: onNode(id)})
		}},
		"Alloc.Signal": {"a", func(id string) (any, error) {
			return wire.AllocSignal.Call(ctx, c, &wire.AllocSignalRequest{AgentRef: onNode(id)})
		}},
		"Alloc.Stats": {"a", func(id string) (any, error) {
			ref := onNode(id)
			return wire.AllocStats.Call(ctx, c, &ref)
		}},
		"Alloc.Checks": {"a", func(id string) (any, error) {
			ref := onNode(id)
			return wire.AllocChecks.Call(ctx, c, &ref)
		}},
		"Alloc.Files": {"a", func(id string) (any, error) {
			return wire.AllocFiles.Call(ctx, c, &wire.AllocPath{AgentRef: onNode(id), Path: "/"})
		}},
		"Alloc.Logs": {"a", func(id string) (any, error) {
			s, err := wire.AllocLogs.Open(ctx, c, &wire.AllocLogsRequest{AgentRef: onNode(id), Task: "t"})
			return opens(receiving(s), err)
		}},
		"Alloc.Exec": {"a", func(id string) (any, error) {
			s, err := wire.AllocExec.Open(ctx, c, &wire.AllocExecRequest{AgentRef: onNode(id), Task: "t"})
			return opens(receiving(s), err)
		}},
		"Eval.Get": {"e", func(id string) (any, error) {
			return wire.EvalGet.Call(ctx, c, &wire.Ref[ids.Eval]{Query: q, ID: ids.Eval(id)})
		}},
		"Eval.Allocs": {"e", func(id string) (any, error) {
			return wire.EvalAllocs.Call(ctx, c, &wire.Ref[ids.Eval]{Query: q, ID: ids.Eval(id)})
		}},
		"Scaling.Policy": {"p", func(id string) (any, error) {
			return wire.ScalingPolicyGet.Call(ctx, c, &wire.Ref[ids.Scaling]{Query: q, ID: ids.Scaling(id)})
		}},
		"Deployment.Get": {"d", func(id string) (any, error) {
			return wire.DeploymentGet.Call(ctx, c, &wire.Ref[ids.Deployment]{Query: q, ID: ids.Deployment(id)})
		}},
		"Deployment.Allocs": {"d", func(id string) (any, error) {
			return wire.DeploymentAllocs.Call(ctx, c, &wire.Ref[ids.Deployment]{Query: q, ID: ids.Deployment(id)})
		}},
		"Deployment.Promote": {"d", func(id string) (any, error) {
			r := wire.DeploymentPromoteRequest{DeploymentRequest: deployment(id)}
			return wire.DeploymentPromote.Call(ctx, c, &r)
		}},
		"Deployment.Fail": {"d", func(id string) (any, error) {
			r := deployment(id)
			return wire.DeploymentFail.Call(ctx, c, &r)
		}},
		"Deployment.Pause": {"d", func(id string) (any, error) {
			r := wire.DeploymentPauseRequest{DeploymentRequest: deployment(id), Pause: true}
			return wire.DeploymentPause.Call(ctx, c, &r)
		}},
		"Deployment.SetHealth": {"d", func(id string) (any, error) {
			r := wire.DeploymentHealthRequest{DeploymentRequest: deployment(id), Healthy: []ids.Alloc{"x"}}
			return wire.DeploymentSetHealth.Call(ctx, c, &r)
		}},
	}
}

// received is a stream of which its error alone is looked at.
type received func() error

func (r received) Recv() error { return r() }

func receiving[Out, In any](s *wire.Stream[Out, In]) received {
	return func() error {
		_, err := s.Recv()
		return err
	}
}

// TestWhatACallerMayNotSeeIsNotThere: given things in namespace app, and callers with rights in ops, with rights in a
// namespace whose name is almost the same, and with none, when they ask for them by their ids, whichever namespace they
// name, then each hears exactly what he hears of an id that there is not. Who may do something in app hears what he
// lacks, and who may do it, is answered.
func TestWhatACallerMayNotSeeIsNotThere(t *testing.T) {
	s, here, _ := serves(t, Config{})
	first, err := wire.ACLBootstrap.Call(wire.For(t.Context(), wire.Person{Local: true}), here,
		&wire.ACLBootstrapRequest{})
	if err != nil {
		t.Fatal(err)
	}
	manager := wire.For(t.Context(), wire.Person{Token: first.Secret.Secret()})
	furnish(t, s.Store())
	person := func(name, rules string) context.Context {
		t.Helper()
		if _, err := wire.ACLPolicyPut.Call(manager, here,
			&wire.ACLPolicyPutRequest{Name: name, Rules: rules}); err != nil {
			t.Fatal(err)
		}
		made, err := wire.ACLTokenPut.Call(manager, here,
			&wire.ACLTokenPutRequest{Name: name, Type: acl.ClientToken, Policies: []string{name}})
		if err != nil {
			t.Fatal(err)
		}
		return wire.For(t.Context(), wire.Person{Token: made.Secret.Secret()})
	}
	policy := job.Policy{
		ScalingPolicy: &job.ScalingPolicy{Type: job.ScalingHorizontal},
		Job:           &job.Job{Namespace: "app", ID: "job-app"},
		Group:         "g",
	}
	const none = "f0000000-0000-4000-8000-00000000000f"
	there := func(kind string) string {
		if kind == "p" {
			return string(policy.ID())
		}
		return idOf(kind, "app")
	}
	for name, ctx := range map[string]context.Context{
		"writes ops":    person("ops", `namespace "ops" { policy = "write" }`),
		"writes a twin": person("twin", `namespace "apps" { policy = "write" }`),
		"is denied app": person("less", `namespace "*" { policy = "write" }`+"\n"+
			`namespace "app" { policy = "deny" }`),
		"is nobody":       wire.For(t.Context(), wire.Person{}),
		"operates a node": person("node", `node { policy = "write" }`),
	} {
		for _, named := range []ids.Namespace{"app", "apps", "ops", "default", ""} {
			for method, m := range byID(ctx, here, named) {
				said, lacking := heard(m.call, there(m.kind)), heard(m.call, none)
				if said != lacking {
					t.Errorf("%s, naming %q: %s tells:\n%s\nand of what is not there:\n%s", name, named, method, said,
						lacking)
				}
			}
		}
	}
	lists := person("lists", `namespace "app" { capabilities = ["list-jobs"] }`)
	for method, m := range byID(lists, here, "app") {
		if said := heard(m.call, there(m.kind)); !strings.Contains(said, "Permission denied") {
			t.Errorf("who lists jobs calls %s: %s", method, said)
		}
	}
	reads := person("reads", `namespace "app" { policy = "read" }`)
	if got, err := wire.AllocGet.Call(reads, here, &wire.Ref[ids.Alloc]{ID: ids.Alloc(there("a"))}); err != nil ||
		got.Alloc == nil {
		t.Errorf("who may read it: %+v, %v", got, err)
	}
}

// heard is all that a caller hears of an id, which is put out of the words.
func heard(call func(string) (any, error), id string) string {
	out, err := call(id)
	text := fmt.Sprintf("%v", err)
	if err == nil {
		text = fmt.Sprintf("%+v", reflect.Indirect(reflect.ValueOf(out)).Interface())
	}
	text = strings.ReplaceAll(text, id, "ID")
	return strings.ReplaceAll(text, ids.Short(ids.Alloc(id)), "SHORT")
}
