package setup_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/consulsetup"
	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/port/consul/setup"
	"berth/internal/testkit/consulagent"
)

// lists are access lists as Consul keeps them.
type lists struct {
	kept   map[string]map[string]any // by path
	writes []string
	refuse func(w http.ResponseWriter, r *http.Request) bool
}

func (l *lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.refuse != nil && l.refuse(w, r) {
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/v1/acl/")
	kind, _, _ := strings.Cut(path, "/")
	if r.Method == http.MethodPut {
		l.writes = append(l.writes, path)
		var o map[string]any
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		name := fmt.Sprint(o["Name"], o["Selector"])
		o["ID"] = "id-of-" + name
		l.kept[kind+" "+name] = o
		return
	}
	if kind == "binding-rules" {
		all := []map[string]any{}
		for key, o := range l.kept {
			if strings.HasPrefix(key, "binding-rule ") && o["AuthMethod"] == r.FormValue("authmethod") {
				all = append(all, o)
			}
		}
		_ = json.NewEncoder(w).Encode(all)
		return
	}
	o := l.kept[kind+" "+path[strings.LastIndex(path, "/")+1:]+"<nil>"]
	if o == nil {
		http.Error(w, "ACL not found", http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(o)
}

func asked(address string) consulsetup.Asked {
	return consulsetup.Asked{
		Consul:    consulsetup.Consul{Address: address, Token: redact.New("management")},
		Method:    "nomad-workloads",
		Audience:  "consul.io",
		Keys:      "https://berth.example/keys",
		Namespace: "default",
		Apply:     true,
	}
}

func actions(r *consulsetup.Report) string {
	var out []string
	for _, s := range r.Steps {
		out = append(out, s.Kind+" "+s.Name+" "+s.Action)
	}
	return strings.Join(out, "\n")
}

const everything = `policy berth-servers create
policy berth-nodes create
policy berth-tasks create
role berth-tasks-default create
auth-method nomad-workloads create
binding-rule services create
binding-rule tasks create`

// TestWhatIsMissingIsWrittenOnce: nothing is written where it is only said; then all of it; then nothing again; an auth
// method and a rule that differ are brought in line in their places, and a policy and a role that somebody has changed
// stay, unless its rules are given.
func TestWhatIsMissingIsWrittenOnce(t *testing.T) {
	l := &lists{kept: map[string]map[string]any{}}
	server := httptest.NewServer(l)
	defer server.Close()
	play := func(change func(*consulsetup.Asked)) string {
		t.Helper()
		l.writes = nil
		a := asked(server.URL)
		if change != nil {
			change(&a)
		}
		r, err := setup.Consul(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return actions(r)
	}
	dry := func(a *consulsetup.Asked) { a.Apply = false }
	if got := play(dry); got != everything || len(l.writes) != 0 {
		t.Errorf("it writes %q, and says\n%s", l.writes, got)
	}
	if got := play(nil); got != everything || len(l.writes) != 7 {
		t.Errorf("it writes %q, and says\n%s", l.writes, got)
	}
	if got := play(nil); got != strings.ReplaceAll(everything, "create", "unchanged") || len(l.writes) != 0 {
		t.Errorf("it writes %q again, and says\n%s", l.writes, got)
	}
	l.kept["policy berth-nodes<nil>"]["Rules"] = `operator = "read"`
	l.kept["policy berth-tasks<nil>"]["Rules"] = "node_prefix \"\" {\n  policy = \"read\"\n}\n" +
		"service_prefix \"\" {\n  policy = \"read\"\n}"
	l.kept["role berth-tasks-default<nil>"]["Policies"] = []any{}
	got := play(func(a *consulsetup.Asked) {
		a.Keys = "https://another.example/keys"
		a.KeysCA = "PEM"
	})
	for _, want := range []string{"policy berth-nodes kept", "policy berth-tasks unchanged",
		"role berth-tasks-default kept", "auth-method nomad-workloads update", "binding-rule tasks unchanged"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not said:\n%s", want, got)
		}
	}
	if !slices.Equal(l.writes, []string{"auth-method/nomad-workloads"}) {
		t.Errorf("it writes %q", l.writes)
	}
	l.kept[`binding-rule <nil>"nomad_service" not in value`]["BindName"] = "another"
	got = play(func(a *consulsetup.Asked) {
		a.Keys = "https://another.example/keys"
		a.KeysCA = "PEM"
		a.TaskRules = `key_prefix "" { policy = "read" }`
	})
	if !strings.Contains(got, "policy berth-tasks update") || !strings.Contains(got, "binding-rule tasks update") ||
		!slices.Equal(l.writes, []string{"policy/id-of-berth-tasks<nil>",
			`binding-rule/id-of-<nil>"nomad_service" not in value`}) {
		t.Errorf("it writes %q, and says\n%s", l.writes, got)
	}
}

// TestAGatewaysRightsAreItsOwn: a terminating gateway has what is written for its name and namespace, and other services
// behind it are another policy in its place.
func TestAGatewaysRightsAreItsOwn(t *testing.T) {
	l := &lists{kept: map[string]map[string]any{}}
	server := httptest.NewServer(l)
	defer server.Close()
	a := asked(server.URL)
	a.Gateway, a.Namespace = consulsetup.Gateway{Name: "exit", Services: []string{"ext"}}, "shop"
	if r, err := setup.Consul(t.Context(), a); err != nil || r.To() != 10 {
		t.Fatalf("%+v, %v", r, err)
	}
	rule := l.kept[`binding-rule <nil>value.nomad_service == "exit" and value.nomad_namespace == "shop"`]
	if rule["BindType"] != "role" || rule["BindName"] != "berth-gateway-shop-exit" {
		t.Errorf("%v", l.kept)
	}
	a.Gateway.Services, l.writes = []string{"ext", "more"}, nil
	if _, err := setup.Consul(t.Context(), a); err != nil ||
		!slices.Equal(l.writes, []string{"policy/id-of-berth-gateway-shop-exit<nil>"}) {
		t.Errorf("it writes %q, %v", l.writes, err)
	}
}

// TestWhatConsulRefusesHasAWayOut: each error says what to do, and none has the token.
func TestWhatConsulRefusesHasAWayOut(t *testing.T) {
	l := &lists{kept: map[string]map[string]any{}}
	server := httptest.NewServer(l)
	defer server.Close()
	answer := func(status int, text string, method string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != method && method != "" {
				return false
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
			return true
		}
	}
	nobody := func(a *consulsetup.Asked) { a.Consul.Token = redact.Secret{} }
	for _, c := range []struct {
		refuse func(http.ResponseWriter, *http.Request) bool
		change func(*consulsetup.Asked)
		kind   fault.Kind
		says   string
	}{
		{answer(401, "ACL support disabled", ""), nil, fault.Unsupported, "acl { enabled = true"},
		{answer(403, "Permission denied", ""), nobody, fault.Denied, "consul acl bootstrap"},
		{answer(403, "Permission denied", "PUT"), nil, fault.Denied, `acl = "write"`},
		{
			func(w http.ResponseWriter, r *http.Request) bool {
				return strings.Contains(r.URL.Path, "auth-method") && answer(500, "nobody there", "PUT")(w, r)
			},
			nil, fault.Unavailable, "-jwks-url",
		},
		{nil, func(a *consulsetup.Asked) { a.Consul.Address = "ftp://x" }, fault.Invalid, "CONSUL_HTTP_ADDR"},
		{nil, func(a *consulsetup.Asked) { a.Consul.Address = "127.0.0.1:1" }, fault.Unavailable, "127.0.0.1:1"},
	} {
		l.refuse = c.refuse
		a := asked(server.URL)
		if c.change != nil {
			c.change(&a)
		}
		_, err := setup.Consul(t.Context(), a)
		if !fault.Has(err, c.kind) || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "management") {
			t.Errorf("%q: %v", c.says, err)
		}
	}
}

// TestTheRealConsulIsSetUp: what was written is there, and is found again as it was written; keys that Consul does not
// reach are an error with the way out; and what was set up by earlier words of the guide is taken over.
func TestTheRealConsulIsSetUp(t *testing.T) {
	real := consulagent.StartWithLists(t)
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"keys":[]}`)
	}))
	defer keys.Close()
	a := asked(real.URL())
	a.Consul.Token = redact.New(consulagent.Management)
	a.Keys = "http://127.0.0.1:1/keys"
	if _, err := setup.Consul(t.Context(), a); err == nil || !strings.Contains(err.Error(), "-jwks-url") {
		t.Errorf("keys that nobody reaches: %v", err)
	}
	a.Keys = keys.URL
	r, err := setup.Consul(t.Context(), a)
	if err != nil || r.To() != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	for range 2 {
		if r, err = setup.Consul(t.Context(), a); err != nil || r.To() != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	a.Keys += "/others"
	if r, err = setup.Consul(context.Background(), a); err != nil || r.To() != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	type rule struct{ BindType, BindName, Selector string }
	var rules []rule
	real.Do(http.MethodGet, "/v1/acl/binding-rules?authmethod=nomad-workloads", nil, &rules)
	if len(rules) != 2 {
		t.Errorf("%+v", rules)
	}
	a.Gateway = consulsetup.Gateway{Name: "exit", Services: []string{"ext", "legacy"}}
	if r, err = setup.Consul(t.Context(), a); err != nil || r.To() != 3 {
		t.Errorf("with a gateway: %+v, %v", r, err)
	}
	if r, err = setup.Consul(t.Context(), a); err != nil || r.To() != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
	var gave struct{ Rules string }
	real.Do(http.MethodGet, "/v1/acl/policy/name/berth-gateway-default-exit", nil, &gave)
	if want := "service \"ext\" { policy = \"write\" }\nservice \"legacy\" { policy = \"write\" }\n"; gave.Rules != want {
		t.Errorf("its gateway may %q", gave.Rules)
	}
	a.Gateway.Services = []string{"ext"}
	if r, err = setup.Consul(t.Context(), a); err != nil || r.To() != 1 {
		t.Errorf("with another service behind it: %+v, %v", r, err)
	}
	rules = nil
	real.Do(http.MethodGet, "/v1/acl/binding-rules?authmethod=nomad-workloads", nil, &rules)
	if len(rules) != 3 || !slices.ContainsFunc(rules, func(r rule) bool {
		return r.BindType == "role" && r.BindName == "berth-gateway-default-exit" &&
			r.Selector == `value.nomad_service == "exit" and value.nomad_namespace == "default"`
	}) {
		t.Errorf("%+v", rules)
	}
	a.Gateway = consulsetup.Gateway{}
	a.Consul.Token = redact.New(real.Policy("reads", `acl = "read"`))
	a.Keys, a.Apply = keys.URL, false
	if r, err = setup.Consul(t.Context(), a); err != nil || r.To() != 1 {
		t.Errorf("it is only said: %+v, %v", r, err)
	}
	a.Apply = true
	if _, err = setup.Consul(t.Context(), a); !fault.Has(err, fault.Denied) {
		t.Errorf("who may only read: %v", err)
	}
}
