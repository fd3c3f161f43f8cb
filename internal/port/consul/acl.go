package consul

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/consul"
)

// Token is one of Consul's access lists.
type Token struct {
	Accessor    string // its id
	Secret      redact.Secret
	Description string
	Services    []string  // whose identities it has
	Expires     time.Time // zero: it does not
}

// tokenShape is a token as Consul writes it.
type tokenShape struct {
	AccessorID        string
	SecretID          string `json:",omitempty"`
	Description       string
	ServiceIdentities []serviceIdentity `json:",omitempty"`
	ExpirationTime    *time.Time        `json:",omitempty"`
}

type serviceIdentity struct{ ServiceName string }

func (t *tokenShape) token() *Token {
	out := &Token{Accessor: t.AccessorID, Secret: redact.New(t.SecretID), Description: t.Description}
	for _, s := range t.ServiceIdentities {
		out.Services = append(out.Services, s.ServiceName)
	}
	if t.ExpirationTime != nil {
		out.Expires = *t.ExpirationTime
	}
	return out
}

// As is the same agent of Consul, spoken to by another token.
func (a *Agent) As(token redact.Secret) *Agent {
	out := *a
	out.secret = token
	return &out
}

// ServiceToken has Consul make a token that has the identity of a service, under the id that was written down. One that
// is there under that id already is the answer: the call may be made again.
func (a *Agent) ServiceToken(ctx context.Context, t *consul.ServiceToken) (redact.Secret, error) {
	have := &tokenShape{}
	_, err := a.call(ctx, request{
		method: http.MethodPut,
		path:   "/v1/acl/token",
		body: &tokenShape{
			AccessorID:        t.Accessor,
			Description:       t.Description(),
			ServiceIdentities: []serviceIdentity{{t.Service}},
		},
		into: have,
	})
	if err != nil {
		// How Consul says that the id is taken is not told apart from other failures by its status.
		path := "/v1/acl/token/" + url.PathEscape(t.Accessor)
		if _, missing := a.call(ctx, request{path: path, into: have}); missing != nil {
			return redact.Secret{}, mayTokens(err)
		}
	}
	got := have.token()
	if got.Secret.Empty() || !slices.Equal(got.Services, []string{t.Service}) {
		return redact.Secret{}, fault.WithHint(
			fault.New(fault.Conflict, "make", "a token of Consul for service "+t.Service,
				"the one of accessor "+t.Accessor+" was changed by somebody, or may not be read"),
			"delete it in Consul: consul acl token delete -accessor-id "+t.Accessor)
	}
	return got.Secret, nil
}

// Revoke takes a token away; one that is not there is no error.
func (a *Agent) Revoke(ctx context.Context, accessor string) error {
	_, err := a.call(ctx, request{method: http.MethodDelete, path: "/v1/acl/token/" + url.PathEscape(accessor)})
	if err = ignoreMissing(err); !fault.Has(err, fault.Denied) {
		return err
	}
	// So it may say, too, that there is none: whoever may see all of them knows.
	var all []*tokenShape
	_, blind := a.call(ctx, request{path: "/v1/acl/tokens", into: &all})
	there := slices.ContainsFunc(all, func(t *tokenShape) bool { return t.AccessorID == accessor })
	if blind == nil && !there {
		return nil
	}
	return mayTokens(err)
}

// Instances lists the ids of the instances of a service in the catalog, as far as they may be seen.
func (a *Agent) Instances(ctx context.Context, service string) ([]string, error) {
	var reply []struct{ ServiceID string }
	r := request{path: "/v1/catalog/service/" + url.PathEscape(service), query: url.Values{"consistent": {""}}}
	r.into = &reply
	if _, err := a.call(ctx, r); err != nil {
		return nil, err
	}
	out := make([]string, 0, len(reply))
	for _, i := range reply {
		out = append(out, i.ServiceID)
	}
	return out, nil
}

// Whose is the token by which the agent is spoken to, as the nearest server of Consul knows it: one that was made a
// moment ago by another server it may not know yet.
func (a *Agent) Whose(ctx context.Context) (*Token, error) {
	out := &tokenShape{}
	_, err := a.call(ctx, request{path: "/v1/acl/token/self", query: url.Values{"stale": {""}}, into: out})
	if err != nil {
		return nil, err
	}
	return out.token(), nil
}

// unbelieved is how Consul says that it does not believe an identity, by the status of a failure of its own.
var unbelieved = []string{"error validating claims", "error parsing token", "validated the token signature"}

// Login turns a signed identity into a token, by an auth method. The meta are shown with the token.
func (a *Agent) Login(
	ctx context.Context, method string, identity redact.Secret, meta map[string]string,
) (*Token, error) {
	out := &tokenShape{}
	_, err := a.As(redact.Secret{}).call(ctx, request{
		method: http.MethodPost,
		path:   "/v1/acl/login",
		body: struct {
			AuthMethod, BearerToken string
			Meta                    map[string]string
		}{method, identity.Reveal(), meta},
		into: out,
	})
	said := func(text string) bool { return strings.Contains(fmt.Sprint(err), text) }
	if slices.ContainsFunc(unbelieved, said) {
		err = fault.Wrap(err, fault.Denied, "log in", "by the auth method "+method)
	}
	if fault.Has(err, fault.Denied) || fault.Has(err, fault.NotFound) {
		return nil, fault.WithHint(err, "let Consul believe the identity: docs/guides/consul.md shows the auth method "+
			"and the binding rules that it needs")
	}
	if err != nil {
		return nil, err
	}
	return out.token(), nil
}

// Logout takes away the token by which the agent is spoken to; one that is not there any more is no error.
func (a *Agent) Logout(ctx context.Context) error {
	_, err := a.call(ctx, request{method: http.MethodPost, path: "/v1/acl/logout"})
	if fault.Has(err, fault.Denied) {
		return nil // nobody knows it
	}
	return err
}

// mayTokens says what is missing where tokens may not be made.
func mayTokens(err error) error {
	if fault.Has(err, fault.Denied) {
		return fault.WithHint(err, "give the servers a token that may make others: consul { token_file = \"…\" }, "+
			"with acl = \"write\"")
	}
	return err
}
