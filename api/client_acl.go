package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// ACL calls the endpoints of access control lists.
type ACL struct{ c *Client }

// ACL returns the calls about access control lists.
func (c *Client) ACL() ACL { return ACL{c} }

// Bootstrap makes the first token, which may do everything; secret is what it shall have, empty: the servers make one.
func (a ACL) Bootstrap(ctx context.Context, secret Credential) (*ACLToken, error) {
	var out ACLToken
	body := &ACLBootstrapRequest{BootstrapSecret: secret.Reveal()}
	_, err := a.c.do(ctx, newCall(http.MethodPut, "acl", "bootstrap").json(body), &out)
	return &out, err
}

// Policies lists policies: all for who manages, otherwise those of the caller's token.
func (a ACL) Policies(ctx context.Context, o *QueryOptions) ([]*ACLPolicyListStub, *QueryMeta, error) {
	var out []*ACLPolicyListStub
	meta, err := a.c.do(ctx, newCall(http.MethodGet, "acl", "policies").read(o), &out)
	return out, meta, err
}

// OwnPolicies lists the policies of the token that the client shows.
func (a ACL) OwnPolicies(ctx context.Context, o *QueryOptions) ([]*ACLPolicyListStub, *QueryMeta, error) {
	var out []*ACLPolicyListStub
	meta, err := a.c.do(ctx, newCall(http.MethodGet, "acl", "policy", "self").read(o), &out)
	return out, meta, err
}

// Policy returns a policy.
func (a ACL) Policy(ctx context.Context, name string, o *QueryOptions) (*ACLPolicy, *QueryMeta, error) {
	return get[ACLPolicy](ctx, a.c, o, "acl", "policy", name)
}

// PutPolicy writes a policy.
func (a ACL) PutPolicy(ctx context.Context, p *ACLPolicy) error {
	_, err := a.c.do(ctx, newCall(http.MethodPut, "acl", "policy", p.Name).json(p), nil)
	return err
}

// DeletePolicy removes a policy: tokens and roles that name it lose what it gives.
func (a ACL) DeletePolicy(ctx context.Context, name string) error {
	_, err := a.c.do(ctx, newCall(http.MethodDelete, "acl", "policy", name), nil)
	return err
}

// Roles lists the roles.
func (a ACL) Roles(ctx context.Context, o *QueryOptions) ([]*ACLRole, *QueryMeta, error) {
	var out []*ACLRole
	meta, err := a.c.do(ctx, newCall(http.MethodGet, "acl", "roles").read(o), &out)
	return out, meta, err
}

// Role returns a role by its id.
func (a ACL) Role(ctx context.Context, id string, o *QueryOptions) (*ACLRole, *QueryMeta, error) {
	return get[ACLRole](ctx, a.c, o, "acl", "role", id)
}

// RoleNamed returns a role by its name.
func (a ACL) RoleNamed(ctx context.Context, name string, o *QueryOptions) (*ACLRole, *QueryMeta, error) {
	return get[ACLRole](ctx, a.c, o, "acl", "role", "name", name)
}

// PutRole writes a role: a new one if it has no id.
func (a ACL) PutRole(ctx context.Context, r *ACLRole) (*ACLRole, error) {
	path := []string{"acl", "role"}
	if r.ID != "" {
		path = append(path, r.ID)
	}
	var out ACLRole
	_, err := a.c.do(ctx, newCall(http.MethodPut, path...).json(r), &out)
	return &out, err
}

// DeleteRole removes a role: tokens that name it lose what it gives.
func (a ACL) DeleteRole(ctx context.Context, id string) error {
	_, err := a.c.do(ctx, newCall(http.MethodDelete, "acl", "role", id), nil)
	return err
}

// Tokens lists the tokens, without their secrets.
func (a ACL) Tokens(ctx context.Context, o *QueryOptions) ([]*ACLTokenListStub, *QueryMeta, error) {
	var out []*ACLTokenListStub
	meta, err := a.c.do(ctx, newCall(http.MethodGet, "acl", "tokens").read(o), &out)
	return out, meta, err
}

// Token returns a token by its accessor, without its secret.
func (a ACL) Token(ctx context.Context, accessor string, o *QueryOptions) (*ACLToken, *QueryMeta, error) {
	return get[ACLToken](ctx, a.c, o, "acl", "token", accessor)
}

// Self returns the token that the client shows.
func (a ACL) Self(ctx context.Context, o *QueryOptions) (*ACLToken, *QueryMeta, error) {
	return get[ACLToken](ctx, a.c, o, "acl", "token", "self")
}

// PutToken writes a token: a new one if it has no accessor, and then the answer has its secret, which stands nowhere
// else.
func (a ACL) PutToken(ctx context.Context, t *ACLToken) (*ACLToken, error) {
	path := []string{"acl", "token"}
	if t.AccessorID != "" {
		path = append(path, t.AccessorID)
	}
	var out ACLToken
	_, err := a.c.do(ctx, newCall(http.MethodPut, path...).json(t), &out)
	return &out, err
}

// DeleteToken removes a token: its secret lets nobody in any more.
func (a ACL) DeleteToken(ctx context.Context, accessor string) error {
	_, err := a.c.do(ctx, newCall(http.MethodDelete, "acl", "token", accessor), nil)
	return err
}

// UnmarshalJSON takes a time to live as a text, "1h0m0s", or as a number of nanoseconds.
func (t *ACLToken) UnmarshalJSON(data []byte) error {
	type plain ACLToken
	with := struct {
		*plain
		ExpirationTTL json.RawMessage
	}{plain: (*plain)(t)}
	if err := json.Unmarshal(data, &with); err != nil {
		return err
	}
	switch raw := with.ExpirationTTL; {
	case len(raw) == 0, string(raw) == "null":
		return nil
	case raw[0] == '"':
		return json.Unmarshal(raw, &t.ExpirationTTL)
	}
	var nanoseconds int64
	if err := json.Unmarshal(with.ExpirationTTL, &nanoseconds); err != nil {
		return err
	}
	t.ExpirationTTL = ""
	if nanoseconds != 0 {
		t.ExpirationTTL = time.Duration(nanoseconds).String()
	}
	return nil
}
