package consul_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	model "berth/internal/model/consul"
	"berth/internal/port/consul"
	"berth/internal/testkit/consulagent"
)

func dial(t *testing.T, address string) *consul.Agent {
	t.Helper()
	a, err := consul.New(consul.Config{Address: address, Token: redact.New("the token")})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func sample() (*model.Service, []model.Check) {
	s := &model.Service{
		ID:                "_berth-n-a-group-g-web-http",
		Name:              "web",
		Tags:              []string{"b", "a"},
		Meta:              map[string]string{"k": "v"},
		Address:           "10.0.0.1",
		Port:              80,
		TaggedAddresses:   map[string]model.Address{"vpn": {Address: "10.1.0.1", Port: 81}},
		Weights:           model.Weights{Passing: 3, Warning: 2},
		EnableTagOverride: true,
	}
	c := model.Check{
		Name:                   "script",
		Notes:                  "says so",
		Status:                 model.Warning,
		TTL:                    "90s",
		DeregisterAfter:        "1h0m0s",
		SuccessBeforePassing:   0,
		FailuresBeforeCritical: 0,
	}
	c.ID = model.CheckID(s.ID, c)
	return s, []model.Check{c}
}

// TestTheRealAgentHasWhatItWasGiven: each member of a service comes back as it was registered, so that nothing differs
// from what is wanted, and checks of all kinds are taken.
func TestTheRealAgentHasWhatItWasGiven(t *testing.T) {
	real := consulagent.Start(t)
	a, ctx := dial(t, real.Proxy.URL), context.Background()
	self, err := a.Self(ctx)
	if err != nil || self.Node != consulagent.Node || self.Datacenter != "dc1" || self.Version == "" {
		t.Fatalf("%+v, %v", self, err)
	}
	want, checks := sample()
	if err := a.Register(ctx, want, checks); err != nil {
		t.Fatal(err)
	}
	for i, c := range []model.Check{
		{HTTP: "http://10.0.0.1:80/", Method: "PUT", Body: "b", Header: map[string][]string{"X": {"y"}}},
		{HTTP: "https://10.0.0.1:80/", TLSServer: "x", TLSSkip: true, SuccessBeforePassing: 2},
		{TCP: "10.0.0.1:80", FailuresBeforeWarning: 1, FailuresBeforeCritical: 2},
		{GRPC: "10.0.0.1:80/s", GRPCTLS: true},
	} {
		c.Name = string(rune('a' + i))
		c.Interval, c.Timeout = "1h0m0s", "1s"
		c.ID = model.CheckID(want.ID, c)
		checks = append(checks, c)
		if err := a.AddCheck(ctx, want.ID, c); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
	}
	have, err := a.Service(ctx, want.ID)
	if err != nil || model.Differs(want, have) != "" {
		t.Fatalf("%+v differs in %q, %v", have, model.Differs(want, have), err)
	}
	all, err := a.Services(ctx)
	if err != nil || model.Differs(want, all[want.ID]) != "" {
		t.Errorf("%+v, %v", all, err)
	}
	found, err := a.Checks(ctx, want.ID)
	if err != nil || len(found) != len(checks) || found[checks[0].ID].Status != model.Warning {
		t.Errorf("%+v, %v", found, err)
	}
	if none, err := a.Checks(ctx, "another"); err != nil || len(none) != 0 {
		t.Errorf("of another service: %+v, %v", none, err)
	}
}

// TestARegistrationLeavesChecksAlone: the service is changed, and what its checks have found stays, at the agent and in
// the catalog.
func TestARegistrationLeavesChecksAlone(t *testing.T) {
	real := consulagent.Start(t)
	a, ctx := dial(t, real.URL()), context.Background()
	s, checks := sample()
	if err := a.Register(ctx, s, checks); err != nil {
		t.Fatal(err)
	}
	if err := a.Tell(ctx, checks[0].ID, model.Passing, "it works"); err != nil {
		t.Fatal(err)
	}
	s.Port, s.Tags = 8080, []string{"c"}
	if err := a.Register(ctx, s, nil); err != nil {
		t.Fatal(err)
	}
	found, err := a.Checks(ctx, s.ID)
	if got := found[checks[0].ID]; err != nil || got.Status != model.Passing || got.Output != "it works" {
		t.Fatalf("%+v, %v", got, err)
	}
	real.Until("the catalog shows all of it", func() bool {
		return real.Catalog("web")[0].ServicePort == 8080 && real.Status("web")["script"] == model.Passing
	})
	if err := a.RemoveCheck(ctx, checks[0].ID); err != nil {
		t.Error(err)
	}
	for range 2 { // what is not there is no error
		if err := a.RemoveCheck(ctx, checks[0].ID); err != nil {
			t.Error(err)
		}
		if err := a.Deregister(ctx, s.ID); err != nil {
			t.Error(err)
		}
	}
	if have, err := a.Service(ctx, s.ID); have != nil || err != nil {
		t.Errorf("%+v, %v", have, err)
	}
}

// TestTheCatalogTellsOfAnEditAtOnce: whoever waits for a later index hears of tags that somebody wrote there, though
// the agent does not yet.
func TestTheCatalogTellsOfAnEditAtOnce(t *testing.T) {
	real := consulagent.Start(t)
	a, ctx := dial(t, real.URL()), context.Background()
	s, _ := sample()
	s.Meta[model.MetaMark] = "m"
	if err := a.Register(ctx, s, nil); err != nil {
		t.Fatal(err)
	}
	shown := real.Tags("web", "a", "b")
	_, index, err := a.Catalog(ctx, consulagent.Node, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	real.Edit(shown, "other")
	for {
		all, next, err := a.Catalog(ctx, consulagent.Node, index, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if got := all[s.ID]; len(got.Tags) == 1 && got.Tags[0] == "other" && got.Mark == "m" {
			break
		}
		index = next
	}
	one, err := a.Shown(ctx, consulagent.Node, s.ID)
	if err != nil || one == nil || !model.SameTags(one.Tags, []string{"other"}) || one.Mark != "m" {
		t.Errorf("of it alone the catalog shows %+v, %v", one, err)
	}
	if none, err := a.Shown(ctx, consulagent.Node, s.ID+"x"); none != nil || err != nil {
		t.Errorf("of another: %+v, %v", none, err)
	}
	have, err := a.Service(ctx, s.ID)
	if err != nil || !model.SameTags(have.Tags, []string{"a", "b"}) {
		t.Errorf("the agent has %q, %v", have.Tags, err)
	}
}

// TestTheCatalogLosesWhatItWasReadAs: a service is taken out as it was read, and one that was changed since stays;
// whose agent lives is known, and of one that the catalog does not know it is not said that it is gone.
func TestTheCatalogLosesWhatItWasReadAs(t *testing.T) {
	real := consulagent.Start(t)
	a, ctx := dial(t, real.URL()), context.Background()
	s, checks := sample()
	if err := a.Register(ctx, s, checks); err != nil {
		t.Fatal(err)
	}
	shown := real.Tags("web", "a", "b")
	real.Settled()
	before, _, err := a.Catalog(ctx, consulagent.Node, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	real.Edit(shown, "other")
	if err := a.Forget(ctx, consulagent.Node, s.ID, before[s.ID]); !fault.Has(err, fault.Conflict) {
		t.Errorf("it was changed, and is taken out: %v", err)
	}
	now, _, err := a.Catalog(ctx, consulagent.Node, 0, 0)
	if err != nil || len(now[s.ID].Tags) != 1 {
		t.Fatalf("%+v, %v", now, err)
	}
	if err := a.Forget(ctx, consulagent.Node, s.ID, now[s.ID]); err != nil || len(real.Catalog("web")) != 0 ||
		len(real.Status("web")) != 0 {
		t.Errorf("it is there still: %v", err)
	}
	for _, name := range []string{consulagent.Node, "nobody"} {
		if gone, err := a.Gone(ctx, name); gone || err != nil {
			t.Errorf("the agent of %s is gone: %v", name, err)
		}
	}
}

// TestAnErrorOfConsulSaysWhatItIs: the token goes with each call and into no error; who may not is told what to do.
func TestAnErrorOfConsulSaysWhatItIs(t *testing.T) {
	status := http.StatusForbidden
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Consul-Token") != "the token" {
			t.Error("it was called without its token")
		}
		http.Error(w, "ACL not found", status)
	}))
	defer server.Close()
	a, ctx := dial(t, server.URL), context.Background()
	for code, kind := range map[int]fault.Kind{
		http.StatusForbidden:           fault.Denied,
		http.StatusBadRequest:          fault.Invalid,
		http.StatusInternalServerError: fault.Unavailable,
	} {
		status = code
		err := a.Deregister(ctx, "x")
		if !fault.Has(err, kind) || !strings.Contains(err.Error(), "ACL not found") ||
			strings.Contains(err.Error(), "the token") {
			t.Errorf("%d: %v", code, err)
		}
	}
	server.Close()
	if _, err := a.Self(ctx); !fault.Has(err, fault.Unavailable) {
		t.Errorf("nobody there: %v", err)
	}
	for _, bad := range []string{"ftp://x", "unix://", "http://", "http://user@x:1", "://"} {
		if _, err := consul.New(consul.Config{Address: bad}); !fault.Has(err, fault.Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
