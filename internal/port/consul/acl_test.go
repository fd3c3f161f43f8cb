package consul_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/alloc"
	model "berth/internal/model/consul"
	"berth/internal/model/job"
	"berth/internal/model/workload"
	"berth/internal/port/consul"
	"berth/internal/testkit/consulagent"
)

func as(t *testing.T, address, token string) *consul.Agent {
	t.Helper()
	a, err := consul.New(consul.Config{Address: address, Token: redact.New(token)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func sampleToken() *model.ServiceToken {
	return &model.ServiceToken{
		Alloc:    "a",
		Task:     "proxy",
		Node:     "n",
		Service:  "web",
		Accessor: ids.New(),
	}
}

// TestATokenOfTheRealConsulIsOfOneService: it is made once under its id, registers its service and its sidecar and
// nothing else, and is of no use when it is revoked.
func TestATokenOfTheRealConsulIsOfOneService(t *testing.T) {
	real := consulagent.StartWithLists(t)
	ctx := context.Background()
	servers := as(t, real.URL(), real.Policy("servers", `acl = "write" service_prefix "" { policy = "read" } `+
		`node_prefix "" { policy = "read" }`))
	want := sampleToken()
	first, err := servers.ServiceToken(ctx, want)
	if err != nil || first.Empty() {
		t.Fatalf("%v", err)
	}
	again, err := servers.ServiceToken(ctx, want)
	if err != nil || !again.Equal(first) || len(real.Tokens("Berth: service web, allocation a")) != 1 {
		t.Errorf("another one is made: %v, %v", real.Tokens(""), err)
	}
	task := servers.As(first)
	if who, err := task.Whose(ctx); err != nil || who.Accessor != want.Accessor || len(who.Services) != 1 {
		t.Errorf("%+v, %v", who, err)
	}
	s, _ := sample()
	if err := task.Register(ctx, s, nil); err != nil {
		t.Errorf("its service: %v", err)
	}
	if all, err := servers.Instances(ctx, "web"); err != nil || len(all) > 1 {
		t.Errorf("%q, %v", all, err)
	}
	sidecar := &model.Service{ID: "s", Name: "web-sidecar-proxy"}
	if err := task.Register(ctx, sidecar, nil); err != nil {
		t.Errorf("its sidecar: %v", err)
	}
	if err := task.Register(ctx, &model.Service{ID: "d", Name: "db"}, nil); !fault.Has(err, fault.Denied) {
		t.Errorf("another service: %v", err)
	}
	if err := as(t, real.URL(), "").Register(ctx, sidecar, nil); !fault.Has(err, fault.Denied) {
		t.Errorf("nobody: %v", err)
	}
	if _, err := task.ServiceToken(ctx, sampleToken()); !fault.Has(err, fault.Denied) ||
		!strings.Contains(err.Error(), `acl = "write"`) {
		t.Errorf("the task makes tokens: %v", err)
	}
	for range 2 { // what is not there is no error
		if err := servers.Revoke(ctx, want.Accessor); err != nil {
			t.Error(err)
		}
	}
	if _, err := task.Whose(ctx); !fault.Has(err, fault.Denied) {
		t.Errorf("a revoked one: %v", err)
	}
}

// TestTheRealConsulBelievesAnIdentity: given an auth method that has the public key, when the identity of a service is
// shown, then there is a token which registers that service and no other, and ends with its logout.
func TestTheRealConsulBelievesAnIdentity(t *testing.T) {
	real := consulagent.StartWithLists(t)
	ctx := context.Background()
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&pair.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	real.Do(http.MethodPut, "/v1/acl/auth-method", map[string]any{
		"Name": "nomad-workloads",
		"Type": "jwt",
		"Config": map[string]any{
			"JWTValidationPubKeys": []string{string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))},
			"JWTSupportedAlgs":     []string{"RS256"},
			"BoundAudiences":       []string{"consul.io"},
			"ClaimMappings":        map[string]string{"nomad_service": "nomad_service"},
		},
	}, nil)
	real.Do(http.MethodPut, "/v1/acl/binding-rule", map[string]any{
		"AuthMethod": "nomad-workloads",
		"BindType":   "service",
		"BindName":   "${value.nomad_service}",
		"Selector":   `"nomad_service" in value`,
	}, nil)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signBy := func(key *rsa.PrivateKey, audience string, now time.Time) redact.Secret {
		token, err := workload.Key{ID: "k", Private: signing, RSA: key}.Sign(&workload.Statement{
			Alloc:    &alloc.Alloc{ID: "a", Namespace: "default", Job: "j", TaskGroup: "g"},
			Service:  "web",
			Identity: &job.WorkloadIdentity{Name: "consul-service_web", Audience: []string{audience}, TTL: time.Hour},
			Region:   "global",
			Now:      now,
		})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	node := as(t, real.URL(), "")
	for what, identity := range map[string]redact.Secret{
		"one that is for others":        signBy(pair, "vault", time.Now()),
		"one that has ended":            signBy(pair, "consul.io", time.Now().Add(-5*time.Hour)),
		"one that another key has made": signBy(other, "consul.io", time.Now()),
		"one that is none":              redact.New("none"),
	} {
		_, err := node.Login(ctx, "nomad-workloads", identity, nil)
		if !fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), "docs/guides/consul.md") {
			t.Errorf("%s: %v", what, err)
		}
	}
	own := signBy(pair, "consul.io", time.Now())
	if _, err := node.Login(ctx, "none", own, nil); !fault.Has(err, fault.Denied) {
		t.Errorf("by an auth method that there is not: %v", err)
	}
	token, err := node.Login(ctx, "nomad-workloads", own, map[string]string{"allocation": "a"})
	if err != nil || len(token.Services) != 1 || token.Services[0] != "web" || !token.Expires.IsZero() {
		t.Fatalf("%+v, %v", token, err)
	}
	s, _ := sample()
	by := node.As(token.Secret)
	if err := by.Register(ctx, s, nil); err != nil {
		t.Errorf("its service: %v", err)
	}
	if err := by.Register(ctx, &model.Service{ID: "d", Name: "db"}, nil); !fault.Has(err, fault.Denied) {
		t.Errorf("another service: %v", err)
	}
	for range 2 {
		if err := by.Logout(ctx); err != nil {
			t.Error(err)
		}
	}
	if _, err := by.Whose(ctx); !fault.Has(err, fault.Denied) {
		t.Errorf("after its logout: %v", err)
	}
}

// TestATokenThatWasChangedIsNotHandedOut: somebody gave it the identity of another service, or it may not be read.
func TestATokenThatWasChangedIsNotHandedOut(t *testing.T) {
	answer := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	a := as(t, server.URL, "x")
	for _, answer = range []string{
		`{"AccessorID": "x", "SecretID": "canary", "ServiceIdentities": [{"ServiceName": "db"}]}`,
		`{"AccessorID": "x", "SecretID": "canary"}`,
		`{"AccessorID": "x", "ServiceIdentities": [{"ServiceName": "web"}]}`,
	} {
		_, err := a.ServiceToken(t.Context(), sampleToken())
		if !fault.Has(err, fault.Conflict) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

// TestATokenGoesToNobodyElse: an answer that leads elsewhere is a failure, and what leads there hears neither the token
// nor the identity that is shown to log in.
func TestATokenGoesToNobodyElse(t *testing.T) {
	asked := make(chan string, 8)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + " by " + r.Header.Get("X-Consul-Token")
		_, _ = w.Write([]byte(`{"SecretID": "s"}`))
	}))
	defer elsewhere.Close()
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer first.Close()
	agent := as(t, first.URL, "secret")
	if _, err := agent.Whose(t.Context()); !fault.Has(err, fault.Unavailable) {
		t.Errorf("it is followed: %v", err)
	}
	if _, err := agent.Login(t.Context(), "method", redact.New("identity"), nil); err == nil {
		t.Error("the identity is shown elsewhere")
	}
	select {
	case what := <-asked:
		t.Errorf("elsewhere is asked for %s", what)
	default:
	}
}
