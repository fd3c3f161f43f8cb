package workloads

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/workload"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/rights"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// withServices has a job of which a group's service and a task's have identities.
func withServices(t *testing.T) *state.Store {
	t.Helper()
	s := world(t)
	identity := func(name string, shown bool) *job.WorkloadIdentity {
		return &job.WorkloadIdentity{
			Name:        name,
			Audience:    []string{"catalog"},
			TTL:         time.Hour,
			File:        shown,
			ServiceName: "x",
		}
	}
	err := s.Write(state.Stamp{Index: 2, Time: time.Now()}, func(tx *state.Tx) error {
		tx.PutJob(&job.Job{Namespace: "shop", ID: "web", TaskGroups: []*job.TaskGroup{{
			Name: "front",
			Services: []*job.Service{{
				Name:      "of-${NOMAD_ALLOC_ID}",
				PortLabel: "http",
				Identity:  identity("group", false),
			}},
			Tasks: []*job.Task{
				{
					Name: "app",
					Services: []*job.Service{
						{Name: "db", Identity: identity("shown", true)},
						{Name: "plain"},
					},
				},
				{Name: "other"},
			},
		}}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func said(t *testing.T, token redact.Secret) (out map[string]any) {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token.Reveal(), ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(payload, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAServiceHasAnIdentityOfItsOwn: given services with identities, when the node that runs them asks, then it gets
// one that names the service as it is found, names no task, and opens nothing here, also when it is for Berth.
func TestAServiceHasAnIdentityOfItsOwn(t *testing.T) {
	store := withServices(t)
	e := New(Config{Base: serving.Base{Store: store, Cluster: leads{}}, Signer: signer{}, Region: "global"})
	ask := func(change func(*wire.ServiceIdentityRequest)) (*wire.SignedIdentity, error) {
		req := &wire.ServiceIdentityRequest{Alloc: "runs", Service: "of-${NOMAD_ALLOC_ID}", Port: "http"}
		req.Node, req.Secret = "n", wire.Secrets{Values: map[string]string{"id": "secret of n"}}
		if change != nil {
			change(req)
		}
		return e.service(t.Context(), req)
	}
	signed, err := ask(nil)
	if err != nil || signed.Lives != time.Hour {
		t.Fatalf("%+v, %v", signed, err)
	}
	got := said(t, signed.Token.Secret())
	_, task := got["nomad_task"]
	if got["nomad_service"] != "of-runs" || task || got["sub"] != "global:shop:web:front:of-runs:group" {
		t.Errorf("it says %v", got)
	}
	of := func(task, service string) func(*wire.ServiceIdentityRequest) {
		return func(r *wire.ServiceIdentityRequest) {
			r.Task, r.Service = task, service
			r.Port = ""
		}
	}
	if signed, err = ask(of("app", "db")); err != nil || said(t, signed.Token.Secret())["nomad_service"] != "db" {
		t.Errorf("of a task's service: %v", err)
	}
	forBerth, err := key.Sign(&workload.Statement{
		Alloc:    &alloc.Alloc{ID: "runs", Namespace: "shop", Job: "web", TaskGroup: "front"},
		Service:  "db",
		Identity: &job.WorkloadIdentity{Name: "x", Audience: []string{workload.Audience}},
		Now:      time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	own := func(string) ed25519.PublicKey { return key.Private.Public().(ed25519.PublicKey) }
	if claims, err := workload.Read(forBerth, own, time.Now()); err == nil {
		t.Errorf("it is believed: %+v", claims)
	}
	if who, err := rights.WorkloadOf(store.Snapshot(), nil, forBerth, time.Now()); err == nil {
		t.Errorf("it opens the API for %v", who)
	}
	for name, c := range map[string]struct {
		change func(*wire.ServiceIdentityRequest)
		kind   fault.Kind
	}{
		"of another node's":        {func(r *wire.ServiceIdentityRequest) { r.Alloc = "elsewhere" }, fault.Denied},
		"of one that ended":        {func(r *wire.ServiceIdentityRequest) { r.Alloc = "ended" }, fault.Denied},
		"of one that is to stop":   {func(r *wire.ServiceIdentityRequest) { r.Alloc = "stops" }, fault.Denied},
		"as another node":          {func(r *wire.ServiceIdentityRequest) { r.Node = "m" }, fault.Denied},
		"of another port":          {func(r *wire.ServiceIdentityRequest) { r.Port = "x" }, fault.Invalid},
		"of the group's as a task": {func(r *wire.ServiceIdentityRequest) { r.Task = "app" }, fault.Invalid},
		"of one without":           {of("app", "plain"), fault.Invalid},
	} {
		if signed, err := ask(c.change); !fault.Has(err, c.kind) {
			t.Errorf("%s: %+v, %v", name, signed, err)
		}
	}
}

// TestATaskFindsTheIdentityOfItsService where that says how, as one of the service, and no other task does.
func TestATaskFindsTheIdentityOfItsService(t *testing.T) {
	store := withServices(t)
	g := store.Snapshot().Job(nil, "shop", "web").TaskGroups[0]
	if shown := workload.Shown(g, g.Tasks[0]); len(shown) != 1 || workload.File(shown[0]) != "secrets/nomad_shown.jwt" {
		t.Errorf("it finds %v", shown)
	}
	if shown := workload.Shown(g, g.Tasks[1]); len(shown) != 0 {
		t.Errorf("the other one finds %v", shown)
	}
	e := New(Config{Base: serving.Base{Store: store, Cluster: leads{}}, Signer: signer{}, Region: "global"})
	req := &wire.IdentitiesRequest{Alloc: "runs", Task: "app", Names: []string{"shown"}}
	req.Node, req.Secret = "n", wire.Secrets{Values: map[string]string{"id": "secret of n"}}
	reply, err := e.identities(t.Context(), req)
	if err != nil || said(t, reply.Items[0].Token.Secret())["nomad_service"] != "db" {
		t.Errorf("%+v, %v", reply, err)
	}
	req.Task = "other"
	if reply, err := e.identities(t.Context(), req); !fault.Has(err, fault.Invalid) {
		t.Errorf("the other one is signed %+v, %v", reply, err)
	}
}
