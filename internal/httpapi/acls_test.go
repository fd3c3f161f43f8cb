package httpapi_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/httpapi"
	"berth/internal/httpapi/access"
)

// Given tokens, when they are written and read as clients do, then a secret stands in the answer that made it and in
// the one to whoever shows it, and nowhere else.
func TestASecretIsShownOnceAndToWhoHasIt(t *testing.T) {
	r := newRig(t)
	var first, made, read api.ACLToken
	r.must("PUT", "/v1/acl/bootstrap", nil).into(t, &first)
	if first.SecretID == "" || first.Type != "management" || first.ExpirationTime != nil || len(first.Hash) == 0 {
		t.Errorf("the first token: %+v", first)
	}
	r.must("PUT", "/v1/acl/policy/p", map[string]any{"Rules": `node { policy = "read" }`})
	r.must("POST", "/v1/acl/token", map[string]any{"Name": "t", "Type": "client", "Policies": []string{"p"},
		"ExpirationTTL": 2 * time.Hour}).into(t, &made)
	if made.SecretID == "" || made.ExpirationTTL != "2h0m0s" || made.ExpirationTime == nil ||
		made.ExpirationTime.Sub(made.CreateTime) != 2*time.Hour {
		t.Errorf("a token: %+v", made)
	}
	for _, path := range []string{"/v1/acl/tokens", "/v1/acl/token/" + made.AccessorID} {
		a := r.must("GET", path, nil)
		if strings.Contains(string(a.body), made.SecretID) || strings.Contains(string(a.body), first.SecretID) {
			t.Errorf("%s shows a secret: %s", path, a.body)
		}
	}
	for _, header := range [][]string{{"X-Nomad-Token", made.SecretID}, {"Authorization", "Bearer " + made.SecretID}} {
		a := r.try("GET", "/v1/acl/token/self", nil, header...)
		if a.into(t, &read); a.status != http.StatusOK || read.AccessorID != made.AccessorID ||
			read.SecretID != made.SecretID {
			t.Errorf("%s: %d %s", header[0], a.status, a.body)
		}
	}
	read.Name = "renamed"
	r.must("PUT", "/v1/acl/token/"+made.AccessorID, read)
	if a := r.try("PUT", "/v1/acl/bootstrap", nil); a.status != http.StatusBadRequest ||
		!strings.HasPrefix(string(a.body), "ACL bootstrap already done (reset index: ") {
		t.Errorf("again: %d %s", a.status, a.body)
	}
	r.must("DELETE", "/v1/acl/token/"+made.AccessorID, nil)
	if a := r.try("GET", "/v1/acl/token/self", nil, "X-Nomad-Token", made.SecretID); a.status != http.StatusForbidden ||
		string(a.body) != "ACL token not found" {
		t.Errorf("a token that was deleted: %d %s", a.status, a.body)
	}
}

// Given the text of a policy, when it is read, then every block of it is there in JSON.
func TestAPolicySaysWhatItsTextSays(t *testing.T) {
	r := newRig(t)
	r.must("PUT", "/v1/acl/policy/p", map[string]any{"Rules": `
namespace "dev-*" {
  policy       = "scale"
  capabilities = ["read-logs"]
  variables {
    path "app/*" { capabilities = ["read"] }
  }
}
node_pool "gpu" { policy = "read" }
host_volume "certs" { policy = "read" }
agent { policy = "write" }
node { policy = "read" }
operator { policy = "read" }
quota { policy = "read" }
plugin { policy = "list" }
`})
	var p api.ACLPolicy
	r.get("/v1/acl/policy/p", &p)
	rules := p.RulesJSON
	if len(rules.Namespaces) != 1 || len(rules.NodePools) != 1 || len(rules.HostVolumes) != 1 || rules.Raw != p.Rules {
		t.Fatalf("%+v", rules)
	}
	ns := rules.Namespaces[0]
	if ns.Name != "dev-*" || ns.Policy != "scale" ||
		strings.Join(ns.Capabilities, " ") != "list-scaling-policies read-scaling-policy read-job-scaling scale-job "+
			"read-logs" || ns.Variables.Paths[0].PathSpec != "app/*" ||
		strings.Join(ns.Variables.Paths[0].Capabilities, "") != "read" {
		t.Errorf("%+v %+v", ns, ns.Variables)
	}
	for what, rule := range map[string]*api.ACLRule{
		"write": rules.Agent,
		"read":  rules.Node,
		"list":  rules.Plugin,
	} {
		if rule == nil || rule.Policy != what {
			t.Errorf("%s: %+v", what, rule)
		}
	}
	if rules.Operator == nil || rules.Quota == nil || rules.NodePools[0].Name != "gpu" ||
		rules.HostVolumes[0].Capabilities[0] != "mount-readonly" {
		t.Errorf("%+v", rules)
	}
}

// Given a token with one policy of two, when it lists, then it sees its own.
func TestATokenListsItsOwnPolicies(t *testing.T) {
	r := newRig(t)
	var made api.ACLToken
	var role api.ACLRole
	for _, name := range []string{"a", "b"} {
		r.must("PUT", "/v1/acl/policy/"+name, map[string]any{"Rules": `node { policy = "read" }`})
	}
	r.must("PUT", "/v1/acl/role", map[string]any{"Name": "second", "Policies": []any{map[string]any{"Name": "b"}}}).
		into(t, &role)
	r.must("PUT", "/v1/acl/token", map[string]any{"Type": "client", "Roles": []any{map[string]any{"Name": "second"}}}).
		into(t, &made)
	if len(made.Roles) != 1 || made.Roles[0].ID != role.ID || made.Roles[0].Name != "second" {
		t.Errorf("the roles of the token: %+v", made.Roles)
	}
	for _, path := range []string{"/v1/acl/policies", "/v1/acl/policy/self"} {
		var list []*api.ACLPolicyListStub
		r.try("GET", path, nil, "X-Nomad-Token", made.SecretID).into(t, &list)
		if len(list) != 1 || list[0].Name != "b" {
			t.Errorf("%s: %+v", path, list)
		}
	}
	if a := r.try("GET", "/v1/acl/policy/a", nil, "X-Nomad-Token", made.SecretID); a.status != http.StatusForbidden {
		t.Errorf("another's policy: %d %s", a.status, a.body)
	}
}

// Given an agent without access control lists, then every route of theirs says so in the words that clients know.
func TestWithoutListsThereIsNothingToWriteIntoThem(t *testing.T) {
	r := newRig(t)
	off := httpapi.New(httpapi.Config{
		Servers:  r.conn,
		Region:   "global",
		Log:      slog.New(slog.DiscardHandler),
		ListsOff: true,
	})
	h, seen := off.Handler(access.Network{}), 0
	for _, route := range httpapi.Routes() {
		method, path, _ := strings.Cut(route, " ")
		if !strings.HasPrefix(path, "/v1/acl/") {
			continue
		}
		seen++
		out := httptest.NewRecorder()
		h.ServeHTTP(out, httptest.NewRequest(method, "http://localhost"+path, nil))
		if out.Code != http.StatusBadRequest || out.Body.String() != "ACL support disabled" {
			t.Errorf("%s: %d %s", route, out.Code, out.Body)
		}
	}
	if seen < 15 {
		t.Errorf("%d routes", seen)
	}
}
