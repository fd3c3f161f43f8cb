package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"berth/api"
)

// Given replies as agents really send them, when each method about access control lists is called, then it asks where
// it should and reads them.
func TestMethodsOfAccessListsAskAndRead(t *testing.T) {
	ctx := t.Context()
	read := &api.QueryOptions{Prefix: "p"}
	for _, c := range []struct {
		reply, line string
		call        func(api.ACL) (string, error)
		want        string
	}{
		{"PUT_acl_bootstrap.200", "PUT /v1/acl/bootstrap", func(a api.ACL) (string, error) {
			v, err := a.Bootstrap(ctx, "")
			return v.Name, err
		}, "Bootstrap Token"},
		{"GET_acl_policies.200", "GET /v1/acl/policies?prefix=p", func(a api.ACL) (string, error) {
			v, _, err := a.Policies(ctx, read)
			return v[0].Name, err
		}, "ro"},
		{"GET_acl_policies.200", "GET /v1/acl/policy/self", func(a api.ACL) (string, error) {
			v, _, err := a.OwnPolicies(ctx, nil)
			return v[0].Name, err
		}, "ro"},
		{"GET_acl_policy_ID.200", "GET /v1/acl/policy/ro", func(a api.ACL) (string, error) {
			v, _, err := a.Policy(ctx, "ro", nil)
			return v.RulesJSON.Namespaces[0].Policy, err
		}, "read"},
		{"PUT_acl_policy_ID.200", "PUT /v1/acl/policy/ro", func(a api.ACL) (string, error) {
			return "", a.PutPolicy(ctx, &api.ACLPolicy{Name: "ro"})
		}, ""},
		{"PUT_acl_policy_ID.200", "DELETE /v1/acl/policy/ro", func(a api.ACL) (string, error) {
			return "", a.DeletePolicy(ctx, "ro")
		}, ""},
		{"GET_acl_roles.200", "GET /v1/acl/roles?prefix=p", func(a api.ACL) (string, error) {
			v, _, err := a.Roles(ctx, read)
			return v[0].Policies[0].Name, err
		}, "ro"},
		{"PUT_acl_role.200", "GET /v1/acl/role/id", func(a api.ACL) (string, error) {
			v, _, err := a.Role(ctx, "id", nil)
			return v.Name, err
		}, "r"},
		{"PUT_acl_role.200", "GET /v1/acl/role/name/r", func(a api.ACL) (string, error) {
			v, _, err := a.RoleNamed(ctx, "r", nil)
			return v.Name, err
		}, "r"},
		{"PUT_acl_role.200", "PUT /v1/acl/role", func(a api.ACL) (string, error) {
			v, err := a.PutRole(ctx, &api.ACLRole{Name: "r"})
			return v.Name, err
		}, "r"},
		{"PUT_acl_role.200", "PUT /v1/acl/role/id", func(a api.ACL) (string, error) {
			v, err := a.PutRole(ctx, &api.ACLRole{ID: "id"})
			return v.Name, err
		}, "r"},
		{"PUT_acl_policy_ID.200", "DELETE /v1/acl/role/id", func(a api.ACL) (string, error) {
			return "", a.DeleteRole(ctx, "id")
		}, ""},
		{"GET_acl_tokens.200", "GET /v1/acl/tokens?prefix=p", func(a api.ACL) (string, error) {
			v, _, err := a.Tokens(ctx, read)
			return v[1].Policies[0], err
		}, "ro"},
		{"GET_acl_token_self.200", "GET /v1/acl/token/id", func(a api.ACL) (string, error) {
			v, _, err := a.Token(ctx, "id", nil)
			return v.Type, err
		}, api.ACLManagementToken},
		{"GET_acl_token_self.200", "GET /v1/acl/token/self", func(a api.ACL) (string, error) {
			v, _, err := a.Self(ctx, nil)
			return v.Type, err
		}, api.ACLManagementToken},
		{"PUT_acl_token.200", "PUT /v1/acl/token", func(a api.ACL) (string, error) {
			v, err := a.PutToken(ctx, &api.ACLToken{Type: api.ACLClientToken})
			return v.ExpirationTTL, err
		}, "1h0m0s"},
		{"PUT_acl_token.200", "PUT /v1/acl/token/id", func(a api.ACL) (string, error) {
			v, err := a.PutToken(ctx, &api.ACLToken{AccessorID: "id"})
			return v.Type, err
		}, api.ACLClientToken},
		{"PUT_acl_policy_ID.200", "DELETE /v1/acl/token/id", func(a api.ACL) (string, error) {
			return "", a.DeleteToken(ctx, "id")
		}, ""},
	} {
		var line string
		answer := replay(t, c.reply)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			line = r.Method + " " + r.URL.RequestURI()
			answer(w, r)
		}))
		client, err := api.NewClient(api.Config{Address: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.call(client.ACL())
		if err != nil || line != c.line || got != c.want {
			t.Errorf("%s: asked %q, read %q, want %q: %v", c.line, line, got, c.want, err)
		}
		client.CloseIdle()
		s.Close()
	}
}

// TestATimeToLiveIsATextOrANumber: clients send either.
func TestATimeToLiveIsATextOrANumber(t *testing.T) {
	for text, want := range map[string]string{
		`{"ExpirationTTL":"90m"}`:               "90m",
		`{"ExpirationTTL":5400000000000}`:       "1h30m0s",
		`{"ExpirationTTL":0}`:                   "",
		`{"ExpirationTTL":null}`:                "",
		`{"ExpirationTTL":""}`:                  "",
		`{"Name":"n"}`:                          "",
		`{"expirationttl":"90m","Name":"n"}`:    "90m",
		`{"Name":"n","ExpirationTime":null}`:    "",
		`{"ExpirationTTL":"90m","Global":true}`: "90m",
	} {
		var got api.ACLToken
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.ExpirationTTL != want {
			t.Errorf("%s: %q, %v", text, got.ExpirationTTL, err)
		}
	}
	for _, text := range []string{`{"ExpirationTTL":true}`, `{"ExpirationTTL":1.5}`, `{"Policies":"p"}`} {
		if err := json.Unmarshal([]byte(text), new(api.ACLToken)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	at := time.Unix(1000, 0).UTC()
	data, err := json.Marshal(&api.ACLToken{Name: "n", ExpirationTTL: "1h", ExpirationTime: &at})
	if err != nil {
		t.Fatal(err)
	}
	var back api.ACLToken
	if err := json.Unmarshal(data, &back); err != nil || back.Name != "n" || back.ExpirationTTL != "1h" ||
		!back.ExpirationTime.Equal(at) {
		t.Errorf("%s: %+v, %v", data, back, err)
	}
}
