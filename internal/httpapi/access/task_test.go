package access_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/httpapi/access"
)

// TestATasksSocketTakesItsIdentityAlone: no token of lists, nobody without one, and nothing makes the first token.
func TestATasksSocketTakesItsIdentityAlone(t *testing.T) {
	const identity = "eyJhbGciOiJFZERTQSJ9.e30.c2lnbmVk"
	for _, c := range []struct {
		name, path, token string
		want              []string
	}{
		{"an identity", "/v1/jobs", identity, nil},
		{"nothing", "/v1/jobs", "", []string{"Permission denied", "identity", "env = true"}},
		{"nothing, for what everybody may read", "/.well-known/jwks.json", "", []string{"Permission denied"}},
		{"a token of lists", "/v1/jobs", "f9a7fb2b-1c5c-4a9e-8e3f-000000000001", []string{"NOMAD_TOKEN", "port"}},
		{"the agent's token", "/v1/jobs", word, []string{"identity counts alone"}},
		{"the first token", "/v1/acl/bootstrap", identity, []string{"Permission denied", "first token"}},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Header.Set("Authorization", "Bearer "+c.token)
		who, err := access.Task{}.Admit(r)
		expect(t, c.name, err, fault.Denied, c.want)
		if who.Local || c.want == nil && who.Token.Reveal() != identity || c.want != nil && !who.Token.Empty() {
			t.Errorf("%s: admitted as %+v", c.name, who)
		}
	}
}
