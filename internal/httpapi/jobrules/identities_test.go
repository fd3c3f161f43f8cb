package jobrules_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/httpapi/jobrules"
	"berth/internal/testkit/samplejob"
)

// Given claims that a job adds to an identity, then those are taken that a token has a place for, and that refer to
// what there is.
func TestClaimsOfAJob(t *testing.T) {
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprint("c", i)] = "x"
	}
	for _, c := range []struct {
		claims map[string]string
		wrong  string
	}{
		{map[string]string{"unique_id": "${job.region}:${job.id} $5 {x}"}, ""},
		{map[string]string{strings.Repeat("n", 128): strings.Repeat("v", 512)}, ""},
		{many, "extra_claims has 17, at most 16"},
		{map[string]string{"": "x"}, "has 1 to 128 characters"},
		{map[string]string{strings.Repeat("n", 129): "x"}, "has 1 to 128 characters"},
		{map[string]string{"a": strings.Repeat("v", 513)}, `the claim "a" has 513 characters`},
		{map[string]string{"a": "${job.id}${node.x}"}, `the claim "a" says ${node.x}, which stands for nothing`},
		{map[string]string{"a": "${env[\"X\"]}"}, "there are alloc.id, group.name, job.id"},
	} {
		j := samplejob.New()
		j.TaskGroups[0].Tasks[0].Identities = []*api.WorkloadIdentity{{Name: "v", File: true, ExtraClaims: c.claims}}
		jobrules.Canonicalize(j, "global", "default")
		said := fmt.Sprint(errors.Join(jobrules.Validate(j)...))
		if c.wrong == "" && said != "<nil>" || !strings.Contains(said, c.wrong) {
			t.Errorf("%v: %s, want %q", c.claims, said, c.wrong)
		}
	}
}
