package acl

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// TestAPatternThatNothingCanMatchIsNotWritten: given patterns with characters that no name of their kind has, when a
// policy with them is written, then the line, the pattern and the way out are said; one that an earlier program stored
// goes on to be read.
func TestAPatternThatNothingCanMatchIsNotWritten(t *testing.T) {
	variables := func(path string) string {
		return "namespace \"default\" {\n variables {\n  path \"" + path + "\" { capabilities = [\"read\"] }\n }\n}"
	}
	for text, says := range map[string][]string{
		`namespace "team-[a]" { policy = "read" }`:    {"p:1: ", "namespace", `"team-[a]"`, "brackets", "a rule for"},
		`namespace "team-[a-c]*" { policy = "deny" }`: {"p:1: ", `"team-[a-c]*"`, "brackets"},
		`node_pool "x]" { policy = "read" }`:          {"p:1: ", "node_pool", `"x]"`, "brackets"},
		`namespace "-a" { policy = "read" }`:          {`"-a"`, "'-'"},
		`namespace "a..*" { policy = "read" }`:        {`"a..*"`, `".."`},
		variables("app.*"):                            {"p:3: ", "path", `"app.*"`, "'.'", "a rule for each"},
		variables("/app/*"):                           {"p:3: ", `"/app/*"`, "slash"},
		variables("app/"):                             {`"app/"`, "slash"},
		variables("app//*"):                           {`"app//*"`, "slash"},
	} {
		p := &Policy{Name: "p", Rules: text}
		if err := p.Validate(); err != nil {
			t.Errorf("one that is stored is not read: %v", err)
		}
		if _, found := Parse("p", text); len(found) > 0 {
			t.Errorf("one that is stored is not read: %v", found)
		}
		err := p.ValidateNew()
		if !fault.Has(err, fault.Invalid) {
			t.Errorf("%s\nis accepted: %v", text, err)
			continue
		}
		for _, part := range says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is missing in: %v", part, err)
			}
		}
	}
	for _, text := range []string{
		`namespace "*" { policy = "read" }`, `namespace "*-a" { policy = "read" }`,
		`namespace "a.*.b" { policy = "read" }`, `node_pool "a_*" { policy = "read" }`,
		`host_volume "data[0]" { policy = "read" }`, `host_volume "data[*]" { policy = "write" }`,
		variables("*"), variables("*/x"), variables("nomad/*"), variables("nomad/jobs/a_b-~c/*"), variables("A/*/9"),
	} {
		if err := (&Policy{Name: "p", Rules: text}).ValidateNew(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
