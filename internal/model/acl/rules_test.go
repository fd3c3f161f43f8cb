package acl

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// compiled reads policies, each with its own text.
func compiled(t *testing.T, texts ...string) *Rules {
	t.Helper()
	var documents []*Document
	for _, text := range texts {
		d, found := Parse("test", text)
		if len(found) > 0 {
			t.Fatalf("%s\nis refused: %v", text, found)
		}
		documents = append(documents, d)
	}
	return Compile(documents...)
}

const (
	readDefault  = `namespace "default" { policy = "read" }`
	writeDefault = `namespace "default" { policy = "write" }`
	denyDefault  = `namespace "default" { policy = "deny" }`
	readAll      = `namespace "*" { policy = "read" }`
	writeTeams   = `namespace "team-*" { policy = "write" }`
	readTeamA    = `namespace "team-a-*" { policy = "read" }`
	readAB       = `namespace "ab-*" { policy = "read" }`
)

// TestWhatRulesAllowInANamespace holds which rule decides, and what it gives.
func TestWhatRulesAllowInANamespace(t *testing.T) {
	cases := map[string]struct {
		policies   []string
		capability Capability
		namespace  string
		want       bool
	}{
		"no policy":                      {nil, ListJobs, "default", false},
		"read reads":                     {[]string{readDefault}, ReadJob, "default", true},
		"read does not submit":           {[]string{readDefault}, SubmitJob, "default", false},
		"read of another namespace":      {[]string{readDefault}, ReadJob, "other", false},
		"write submits":                  {[]string{writeDefault}, SubmitJob, "default", true},
		"write mounts volumes":           {[]string{writeDefault}, CSIMountVolume, "default", true},
		"write registers no plugin":      {[]string{writeDefault}, CSIRegisterPlugin, "default", false},
		"write runs nothing on the node": {[]string{writeDefault}, AllocNodeExec, "default", false},
		"write overrides nothing":        {[]string{writeDefault}, SentinelOverride, "default", false},
		"write purges, as it submits":    {[]string{writeDefault}, PurgeJob, "default", true},
		"one part of submit": {
			[]string{`namespace "default" { capabilities = ["plan-job"] }`}, PlanJob, "default", true,
		},
		"one part is not the whole": {
			[]string{`namespace "default" { capabilities = ["plan-job"] }`}, SubmitJob, "default", false,
		},
		"one part is not another": {
			[]string{`namespace "default" { capabilities = ["plan-job"] }`}, PurgeJob, "default", false,
		},
		"scale scales": {
			[]string{`namespace "default" { policy = "scale" }`}, ScaleJob, "default", true,
		},
		"scale does not read": {
			[]string{`namespace "default" { policy = "scale" }`}, ReadJob, "default", false,
		},
		"a level and more": {
			[]string{`namespace "default" {
				policy       = "read"
				capabilities = ["csi-register-plugin"]
			}`}, CSIRegisterPlugin, "default", true,
		},
		"two policies add up": {
			[]string{readDefault, `namespace "default" { capabilities = ["read-logs"] }`}, ReadLogs, "default", true,
		},
		"deny wins, last":  {[]string{writeDefault, denyDefault}, ReadJob, "default", false},
		"deny wins, first": {[]string{denyDefault, writeDefault}, ReadJob, "default", false},
		"deny as a capability wins": {
			[]string{writeDefault, `namespace "default" { capabilities = ["deny"] }`}, ReadJob, "default", false,
		},
		"deny is nothing one may do": {[]string{denyDefault}, Deny, "default", false},
		"the name is closer than *":  {[]string{readAll, denyDefault}, ReadJob, "default", false},
		"* is for the rest":          {[]string{readAll, denyDefault}, ReadJob, "other", true},
		"the name opens what * closes": {
			[]string{`namespace "*" { policy = "deny" }`, readDefault}, ReadJob, "default", true,
		},
		"a twin with a longer name":  {[]string{`namespace "team" { policy = "read" }`}, ReadJob, "team-a", false},
		"a twin with a shorter name": {[]string{`namespace "team-a" { policy = "read" }`}, ReadJob, "team", false},
		"a pattern beside its twin":  {[]string{`namespace "team-*" { policy = "read" }`}, ReadJob, "team", false},
		"the longer pattern decides": {
			[]string{writeTeams, readTeamA}, SubmitJob, "team-a-x", false,
		},
		"the shorter one for the rest": {
			[]string{writeTeams, readTeamA}, SubmitJob, "team-b", true,
		},
		"a star in the middle": {
			[]string{`namespace "team-*-prod" { policy = "read" }`}, ReadJob, "team-a-prod", true,
		},
		"equally close, either gives": {
			[]string{readAB, `namespace "*-cd" { policy = "scale" }`}, ScaleJob, "ab-cd", true,
		},
		"equally close, either denies": {
			[]string{`namespace "*-cd" { policy = "deny" }`, readAB}, ReadJob, "ab-cd", false,
		},
		"all namespaces are not a name": {[]string{readAll}, ReadJob, "*", false},
		"the name twice is another":     {[]string{`namespace "team" { policy = "read" }`}, ReadJob, "teamteam", false},
		"capitals are other names":      {[]string{readDefault}, ReadJob, "Default", false},
		"the empty name":                {[]string{readDefault}, ReadJob, "", false},
		"a rule of another kind": {
			[]string{`node_pool "default" { policy = "read" }`}, Read, "default", false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := compiled(t, c.policies...).Allows(c.capability, c.namespace); got != c.want {
				t.Errorf("%s in %q: %t, want %t", c.capability, c.namespace, got, c.want)
			}
		})
	}
}

// TestWhatRulesAllowElsewhere holds the kinds beside namespaces.
func TestWhatRulesAllowElsewhere(t *testing.T) {
	r := compiled(t, `
		node     { policy = "read" }
		operator { policy = "write" }
		agent    { policy = "deny" }
		plugin   { policy = "list" }
		node_pool "gpu-*"    { policy = "write" }
		node_pool "gpu-test" { capabilities = ["read"] }
		host_volume "data*"  { policy = "read" }`)
	cases := []struct {
		kind       Kind
		name       string
		capability Capability
		want       bool
	}{
		{Node, "", Read, true},
		{Node, "", Write, false},
		{Operator, "", Read, true},
		{Operator, "", Write, true},
		{Agent, "", Read, false},
		{Quota, "", Read, false},
		{Plugin, "", List, true},
		{Plugin, "", Read, false},
		{NodePool, "gpu-1", Delete, true},
		{NodePool, "gpu-test", Read, true},
		{NodePool, "gpu-test", Write, false},
		{NodePool, "default", Read, false},
		{HostVolume, "data1", MountReadOnly, true},
		{HostVolume, "data1", MountReadWrite, false},
	}
	for _, c := range cases {
		if got := r.AllowsOn(c.kind, c.name, c.capability); got != c.want {
			t.Errorf("%s of %s %q: %t, want %t", c.capability, c.kind, c.name, got, c.want)
		}
	}
}

func TestManagementMayDoEverythingAndNobodyNothing(t *testing.T) {
	if !Management().Allows(SentinelOverride, "*") || !Management().AllowsOn(Operator, "", Write) {
		t.Error("a management token is refused something")
	}
	if (*Rules)(nil).Allows(ListJobs, "default") {
		t.Error("without rules something is allowed")
	}
}

// slowMatch is the oracle: it tries every place for every star.
func slowMatch(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		for i := 0; i <= len(name); i++ {
			if slowMatch(pattern[1:], name[i:]) {
				return true
			}
		}
		return false
	}
	return name != "" && pattern[0] == name[0] && slowMatch(pattern[1:], name[1:])
}

// FuzzAPatternMatchesAsTheOracleSays compares the matcher with one that tries everything.
func FuzzAPatternMatchesAsTheOracleSays(f *testing.F) {
	for _, s := range []string{"", "*", "**", "team", "team-*", "*-a", "a*b*a", "a*a", "*ab*ab*", "aa*aa"} {
		for _, name := range []string{"", "a", "aa", "aaa", "team", "team-a", "abab", "aba", "xabxab"} {
			f.Add(s, name)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 20 || len(name) > 20 || strings.Count(pattern, "*") > 5 || strings.Contains(name, "*") {
			t.Skip("too slow for the oracle, or no name")
		}
		near := closeness(pattern, name)
		if slowMatch(pattern, name) != (near >= 0) {
			t.Fatalf("%q against %q: closeness %d", pattern, name, near)
		}
		if stars := strings.Count(pattern, "*"); near >= 0 && stars > 0 && near != len(pattern)-stars {
			t.Fatalf("%q against %q: closeness %d, it has %d stars", pattern, name, near, stars)
		}
	})
}

// FuzzAnyTextIsReadOrRefused holds that no text ends the reader, and that what is refused has a reason.
func FuzzAnyTextIsReadOrRefused(f *testing.F) {
	seeds := []string{readDefault, `{"node": {"policy": "read"}}`, `namespace`, "node { policy = null }", "\xff"}
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, found := Parse("p", text)
		if (d == nil) != (len(found) > 0) {
			t.Fatalf("document %v, findings %v", d, found)
		}
		for _, x := range found {
			if x.Text == "" || utf8.ValidString(text) && !utf8.ValidString(x.String()) {
				t.Errorf("finding %q", x)
			}
		}
		if d != nil {
			Compile(d).Allows(ReadJob, "default")
		}
	})
}
