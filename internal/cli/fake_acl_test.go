package cli_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"berth/api"
)

// Of access control lists in the transcripts.
const (
	roleA     = "3f7c2ab0-0000-4000-8000-000000000001"
	accessorA = "5a164351-0000-4000-8000-000000000001"
	accessorB = "8ebfe6b7-0000-4000-8000-000000000002"
	secretB   = "c0ffee00-0000-4000-8000-00000000000b"
)

func (f *fake) aclTokens() []*api.ACLToken {
	expires := f.now.Add(8 * time.Hour)
	return []*api.ACLToken{
		{
			AccessorID:  accessorA,
			Name:        "Bootstrap Token",
			Type:        api.ACLManagementToken,
			Global:      true,
			CreateTime:  f.now,
			CreateIndex: 7,
			ModifyIndex: 7,
		},
		{
			AccessorID:     accessorB,
			Name:           "deploy",
			Type:           api.ACLClientToken,
			Policies:       []string{"writers", "readers"},
			Roles:          []*api.ACLTokenRoleLink{{ID: roleA, Name: "people"}},
			CreateTime:     f.now,
			ExpirationTime: &expires,
			ExpirationTTL:  "8h0m0s",
			CreateIndex:    9,
			ModifyIndex:    9,
		},
	}
}

func (f *fake) aclRole() *api.ACLRole {
	return &api.ACLRole{
		ID:          roleA,
		Name:        "people",
		Description: "those who look",
		Policies:    []*api.ACLRolePolicyLink{{Name: "readers"}, {Name: "writers"}},
		CreateIndex: 8,
		ModifyIndex: 8,
	}
}

// acl answers about access control lists.
func (f *fake) acl(method, path string, body []byte) (any, error) {
	switch kind, id, _ := strings.Cut(path, "/"); {
	case method == http.MethodDelete && id != "nobody":
		return nil, nil
	case path == "bootstrap":
		return f.aclBootstrap(body)
	case path == "policies", path == "policy/self":
		return []*api.ACLPolicyListStub{{Name: "readers", Description: "may look"}, {Name: "writers"}}, nil
	case method == http.MethodPut && path == "policy/wrong":
		return nil, &refusal{400, "accept policy \"wrong\": wrong:1: a rule \"namespaces\" is not known\n" +
			"wrong:4: policy may be read or write"}
	case method == http.MethodPut && kind == "policy":
		return nil, nil
	case path == "policy/readers":
		return &api.ACLPolicy{
			Name:        "readers",
			Description: "may look",
			Rules:       "namespace \"default\" {\n  policy = \"read\"\n}\n",
			CreateIndex: 6,
			ModifyIndex: 6,
		}, nil
	case path == "roles":
		return []*api.ACLRole{f.aclRole()}, nil
	case path == "role":
		out, err := merged(f.aclRole(), body)
		out.ID = roleA
		return out, err
	case path == "role/"+roleA, path == "role/name/people":
		return merged(f.aclRole(), body)
	case path == "tokens":
		return f.aclTokens(), nil
	case path == "token":
		out, err := merged(&api.ACLToken{SecretID: secretB}, body)
		out.AccessorID = accessorB
		out.CreateTime = f.now
		if out.ExpirationTTL != "" {
			at := f.now.Add(8 * time.Hour)
			out.ExpirationTime = &at
		}
		return out, err
	case path == "token/self":
		t := f.aclTokens()[0]
		t.SecretID = secretB
		return t, nil
	case path == "token/"+accessorB:
		return merged(f.aclTokens()[1], body)
	}
	return nil, &refusal{404, "ACL object not found"}
}

func (f *fake) aclBootstrap(body []byte) (any, error) {
	var req api.ACLBootstrapRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, err
	}
	if req.BootstrapSecret != "" {
		return nil, &refusal{400, "ACL bootstrap already done (reset index: 7)"}
	}
	t := f.aclTokens()[0]
	t.SecretID = secretB
	return t, nil
}

// merged is an object as a write leaves it.
func merged[T any](object *T, body []byte) (*T, error) {
	if len(body) == 0 {
		return object, nil
	}
	return object, json.Unmarshal(body, object)
}
