package workloads

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/consul"
	"berth/internal/model/job"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// maker remembers what it is asked to make.
type maker struct{ asked []consul.ServiceToken }

func (m *maker) Make(_ context.Context, t consul.ServiceToken) (redact.Secret, error) {
	m.asked = append(m.asked, t)
	return redact.New("canary"), nil
}

// inTheMesh has a job with a service of the mesh, its proxy, and tasks that have no part in it.
func inTheMesh(t *testing.T) *state.Store {
	t.Helper()
	s := world(t)
	err := s.Write(state.Stamp{Index: 2, Time: time.Now()}, func(tx *state.Tx) error {
		tx.PutJob(&job.Job{Namespace: "shop", ID: "web", TaskGroups: []*job.TaskGroup{{
			Name: "front",
			Services: []*job.Service{
				{Name: "web", Connect: &job.Connect{SidecarService: &job.SidecarService{}}},
				{Name: "db"},
			},
			Tasks: []*job.Task{
				{Name: "app"},
				{Name: "proxy", Kind: job.KindOf(job.RoleProxy, "web")},
				{Name: "stray", Kind: job.KindOf(job.RoleProxy, "db")},
				{Name: "native", Kind: job.KindOf(job.RoleNative, "web")},
			},
		}}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestATokenOfConsulIsForTheServiceOfATaskOfTheMesh, of an allocation that the node runs, and for nothing else.
func TestATokenOfConsulIsForTheServiceOfATaskOfTheMesh(t *testing.T) {
	m := &maker{}
	var deeds []serving.Deed
	var unwritten error
	e := New(Config{
		Base:   serving.Base{Store: inTheMesh(t), Cluster: leads{}},
		Tokens: m,
		Record: func(d serving.Deed) (func(error) error, error) {
			deeds = append(deeds, d)
			return func(err error) error { return err }, unwritten
		},
	})
	ask := func(change func(*wire.ConsulTokenRequest)) (*wire.ConsulTokenReply, error) {
		req := &wire.ConsulTokenRequest{Alloc: "runs", Task: "proxy", Service: "web"}
		req.Node, req.Secret = "n", wire.Secrets{Values: map[string]string{"id": "secret of n"}}
		if change != nil {
			change(req)
		}
		return e.consulToken(t.Context(), req)
	}
	reply, err := ask(nil)
	if err != nil || reply.Token.Secret().Reveal() != "canary" || len(m.asked) != 1 ||
		m.asked[0] != (consul.ServiceToken{Alloc: "runs", Task: "proxy", Node: "n", Service: "web"}) {
		t.Fatalf("%+v, %+v, %v", reply, m.asked, err)
	}
	if len(deeds) != 1 || deeds[0].Who != "node n" || deeds[0].Namespace != "shop" || deeds[0].Object != "runs proxy" {
		t.Errorf("recorded is %+v", deeds)
	}
	as := func(name, session string) func(*wire.ConsulTokenRequest) {
		return func(r *wire.ConsulTokenRequest) {
			r.Node, r.Alloc = ids.Node(name), ids.Alloc(name)
			r.Session = session
			r.Secret = wire.Secrets{Values: map[string]string{"id": "secret of " + name}}
		}
	}
	const denied = fault.Denied
	for _, c := range []struct {
		name   string
		change func(*wire.ConsulTokenRequest)
		kind   fault.Kind
		says   string
	}{
		{"of another node's", func(r *wire.ConsulTokenRequest) { r.Alloc = "elsewhere" }, denied, "not placed on this"},
		{"of none", func(r *wire.ConsulTokenRequest) { r.Alloc = "gone" }, denied, "not placed on this"},
		{"of one that ended", func(r *wire.ConsulTokenRequest) { r.Alloc = "ended" }, denied, "ended"},
		{"of one that is lost", func(r *wire.ConsulTokenRequest) { r.Alloc = "lost" }, denied, "ended"},
		{"of one that is to stop", func(r *wire.ConsulTokenRequest) { r.Alloc = "stops" }, denied, "is to end"},
		{"as another node", func(r *wire.ConsulTokenRequest) { r.Node, r.Alloc = "m", "elsewhere" }, denied, "secret"},
		{"as a node that is denied", as("denied", ""), denied, "denied"},
		{"as a second agent", as("twice", "before"), fault.Conflict, "another agent start"},
		{"of no task", func(r *wire.ConsulTokenRequest) { r.Task = "x" }, fault.Invalid, "no such task"},
		{"of a task outside", func(r *wire.ConsulTokenRequest) { r.Task = "app" }, denied, "no part in the mesh"},
		{"for another service", func(r *wire.ConsulTokenRequest) { r.Service = "db" }, denied, `not for "db"`},
		{"of a service outside", func(r *wire.ConsulTokenRequest) { r.Task, r.Service = "stray", "db" }, denied,
			`no service "db"`},
		{"of another part", func(r *wire.ConsulTokenRequest) { r.Task = "native" }, denied, `no service "web"`},
	} {
		if reply, err := ask(c.change); !fault.Has(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v, %v", c.name, reply, err)
		}
	}
	unwritten = errors.New("the disk is full")
	if _, err := ask(nil); !errors.Is(err, unwritten) || len(m.asked) != 1 {
		t.Errorf("what can't be recorded is made: %v, %d", err, len(m.asked))
	}
}
