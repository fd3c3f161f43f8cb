package consulagent

import (
	"fmt"
	"net/http"
	"testing"
)

// Management is the token that may do everything at an agent with access lists.
const Management = "6f3c1d50-2f0e-4c4f-8a5e-0d1f5a7b9c11"

// StartWithLists starts an agent with access lists, which lets nobody do anything without a token.
func StartWithLists(t testing.TB) *Agent {
	t.Helper()
	return start(t, fmt.Sprintf(withLists, fmt.Sprintf("initial_management = %q agent = %q", Management, Management)))
}

// StartDenying is the same without any token: whoever comes first makes one. It answers when its server leads.
func StartDenying(t *testing.T) *Agent {
	t.Helper()
	return start(t, fmt.Sprintf(withLists, ""))
}

// withLists is what the configuration has more then.
const withLists = ` acl { enabled = true default_policy = "deny" enable_token_persistence = true tokens { %s } }`

// Policy makes a token with a policy of these rules, and returns its secret.
func (a *Agent) Policy(name, rules string) string {
	a.t.Helper()
	a.Do(http.MethodPut, "/v1/acl/policy", map[string]any{"Name": name, "Rules": rules}, nil)
	var made struct{ SecretID string }
	a.Do(http.MethodPut, "/v1/acl/token", map[string]any{
		"Description": name,
		"Policies":    []map[string]string{{"Name": name}},
	}, &made)
	return made.SecretID
}

// Tokens are the accessors of the tokens whose description begins like this.
func (a *Agent) Tokens(description string) (out []string) {
	a.t.Helper()
	var all []struct{ AccessorID, Description string }
	a.Do(http.MethodGet, "/v1/acl/tokens", nil, &all)
	for _, token := range all {
		if len(token.Description) >= len(description) && token.Description[:len(description)] == description {
			out = append(out, token.AccessorID)
		}
	}
	return out
}
