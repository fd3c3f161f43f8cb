package cli_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"berth/api"
)

// Given nodes whose names and ids are alike, as a machine and the one that took its place, in the list of a recovery or
// among those that show evidence, when a person dismisses one, then it is exactly the one that is meant; and where each
// of several could be, nobody is declared dead, and the person is asked for more of the id.
func TestANodeIsDismissedOnlyIfItIsTheOneThatIsMeant(t *testing.T) {
	const (
		old   = "8f3a11c0-0000-4000-8000-000000000001"
		fresh = "8f3b22d0-0000-4000-8000-000000000002"
		far   = "91b2c3d4-0000-4000-8000-000000000003"
	)
	recovery := &api.RecoveryStatus{
		State: "recovering",
		Nodes: []*api.RecoveryNode{{ID: old, Name: "ash", State: "awaited"},
			{ID: far, Name: "birch", State: "awaited"}},
		Evidence: []*api.RecoveryEvidence{{NodeID: fresh, Name: "ash", Relation: "forked"},
			{NodeID: far, Name: "birch", Relation: "forked"}},
	}
	for _, c := range []struct{ arg, dismissed, says string }{
		{"ash", "", `"ash" could mean each of 2 nodes (write more of the id)`},
		{"8f3", "", `"8f3" could mean each of 2 nodes (write more of the id)`},
		{"''", "", `<node> is empty`},
		{"as", "", `no recovery waits for a node "as"`},
		{"8f3a", old, ""},
		{fresh, fresh, ""},
		{"birch", far, ""}, // in the list and among the evidence
		{"91", far, ""},
	} {
		f := newFake()
		f.recovered = recovery
		s := httptest.NewServer(f)
		got := run(t.Context(), s.URL, "", words("operator recovery dismiss -yes -reason burnt "+c.arg)...)
		s.Close()
		at := slices.Index(f.requests, "PUT /v1/operator/recovery/dismiss")
		if c.dismissed == "" {
			if at >= 0 || got.code != 1 || !strings.Contains(got.stderr, c.says) {
				t.Errorf("%s: asked %q, and said %+v", c.arg, f.requests, got)
			}
			continue
		}
		if at < 0 || got.code != 0 || !strings.Contains(f.bodies[at], `"NodeID":"`+c.dismissed+`"`) {
			t.Errorf("%s: asked %q with %q, and said %+v", c.arg, f.requests, f.bodies, got)
		}
	}
}
