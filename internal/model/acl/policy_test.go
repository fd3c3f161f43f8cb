package acl

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
)

// TestWhatAPolicyMayNotSay holds that findings have the line, the reason and the way out.
func TestWhatAPolicyMayNotSay(t *testing.T) {
	cases := map[string]struct {
		text string
		want []string
	}{
		"nothing":            {"", []string{"p: ", "no rule", `namespace "default"`}},
		"comments only":      {"# none", []string{"no rule"}},
		"an unknown block":   {"node {\n policy = \"read\"\n}\nnodes { }", []string{"p:4: ", "nodes"}},
		"an unknown level":   {"node { policy = \"list\" }", []string{"p:1: ", `"list"`, "deny, read, write"}},
		"list of namespaces": {`namespace "a" { policy = "list" }`, []string{`"list"`, "deny, read, write, scale"}},
		"an unknown ability": {
			"namespace \"a\" {\n  capabilities = [\"read-jobs\"]\n}",
			[]string{"p:2: ", `"read-jobs"`, "read-job, ", "sentinel-override"},
		},
		"of another kind": {
			`node_pool "a" { capabilities = ["read-job"] }`, []string{`"read-job"`, "delete, deny, read, write"},
		},
		"abilities of nodes": {`node { capabilities = ["read"] }`, []string{"capabilities"}},
		"no label":           {`namespace { policy = "read" }`, []string{"p:1: ", "namespace"}},
		"a label too many":   {`node "a" { policy = "read" }`, []string{"p:1: ", "node"}},
		"an empty rule":      {`namespace "a" { }`, []string{"gives nothing", `policy = "read"`}},
		"the same twice": {
			"node { policy = \"read\" }\nnode { policy = \"write\" }", []string{"p:2: ", "already"},
		},
		"a strange name": {`namespace "a/b" { policy = "read" }`, []string{`"a/b"`, "stars"}},
		"a reference":    {`node { policy = level }`, []string{"p:1: "}},
		"a call":         {`node { policy = file("/etc/shadow") }`, []string{"p:1: "}},
		"no text":        {`node { policy = null }`, []string{"p:1: "}},
		"no list":        {`namespace "a" { capabilities = "read-job" }`, []string{"p:1: "}},
		"a variable's ability": {
			"namespace \"a\" {\n variables {\n  path \"x\" {\n   capabilities = [\"mount\"]\n  }\n }\n}",
			[]string{"p:4: ", `"mount"`, "deny, destroy, list, read, write"},
		},
		"too much":            {strings.Repeat("#", MaxRules+1), []string{"at most 65536"}},
		"too deep":            {strings.Repeat("[", maxBrackets+1), []string{"brackets"}},
		"as deep as may be":   {"x = " + strings.Repeat("[", maxBrackets), []string{"p:1: "}},
		"a row of operators":  {"x = " + strings.Repeat("-", MaxRules-10), []string{"p:1: "}},
		"JSON, unknown level": {"{\"node\": {\n\"policy\": \"rw\"}}", []string{"p:2: ", `"rw"`}},
		"JSON, cut off":       {`{"node": {`, []string{"p:1: "}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := (&Policy{Name: "p", Rules: c.text}).Validate()
			if !fault.Has(err, fault.Invalid) {
				t.Fatalf("accepted, or of another kind: %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in:\n%v", want, err)
				}
			}
			if n := strings.Count(err.Error(), "\n"); n >= maxFindings {
				t.Errorf("%d lines are more than anybody reads", n)
			}
		})
	}
}

// TestAPolicyReadsTheSameInJSON holds both spellings to one document, variables included.
func TestAPolicyReadsTheSameInJSON(t *testing.T) {
	inHCL, found := Parse("p", `
		namespace "team-*" {
		  policy       = "read"
		  capabilities = ["read-logs", "alloc-exec"]
		  variables {
		    path "app/*" {
		      capabilities = ["read", "list"]
		    }
		  }
		}
		node { policy = "write" }`)
	if found != nil {
		t.Fatal(found)
	}
	inJSON, found := Parse("p", `{
		"namespace": {"team-*": {
			"policy": "read",
			"capabilities": ["read-logs", "alloc-exec"],
			"variables": {"path": {"app/*": {"capabilities": ["read", "list"]}}}
		}},
		"node": {"policy": "write"}}`)
	if found != nil {
		t.Fatal(found)
	}
	if !reflect.DeepEqual(inHCL, inJSON) {
		t.Errorf("HCL:  %+v\nJSON: %+v", inHCL, inJSON)
	}
	want := []VariableRule{{"app/*", []Capability{Read, List}}}
	if got := inHCL.Rules[0].Variables; !reflect.DeepEqual(got, want) {
		t.Errorf("variables %+v, want %+v", got, want)
	}
}

// TestTheGrammarIsWhole holds the table: every level gives what may be named, and nothing twice.
func TestTheGrammarIsWhole(t *testing.T) {
	for _, g := range grammars {
		for _, l := range g.levels {
			for i, c := range l.gives {
				if slices.Contains(l.gives[:i], c) {
					t.Errorf("%s: %s gives %s twice", g.kind, l.word, c)
				}
				if len(g.capabilities) > 0 && !slices.Contains(g.capabilities, c) {
					t.Errorf("%s: %s gives %s, which cannot be named", g.kind, l.word, c)
				}
			}
		}
		for i, c := range g.capabilities {
			if slices.Contains(g.capabilities[:i], c) {
				t.Errorf("%s: %s stands twice", g.kind, c)
			}
		}
	}
	for _, c := range readNamespace {
		if !slices.Contains(writeNamespace, c) {
			t.Errorf("whoever may write may not %s", c)
		}
	}
}

func TestWhatATokenMayBe(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	expiring := func(after time.Duration) Token {
		return Token{
			Type:     ClientToken,
			Policies: []string{"p"},
			Created:  now,
			Expires:  now.Add(after),
		}
	}
	cases := map[string]struct {
		token Token
		want  string // in the error; empty: it is accepted
	}{
		"management":                {Token{Type: ManagementToken}, ""},
		"management with a policy":  {Token{Type: ManagementToken, Policies: []string{"p"}}, "may do everything"},
		"management with a role":    {Token{Type: ManagementToken, Roles: []string{"r"}}, "may do everything"},
		"client with a policy":      {Token{Type: ClientToken, Policies: []string{"p"}}, ""},
		"client with a role":        {Token{Type: ClientToken, Roles: []string{"r"}}, ""},
		"client with nothing":       {Token{Type: ClientToken}, "neither policies nor roles"},
		"no type":                   {Token{}, `"client" and "management"`},
		"a long name":               {Token{Type: ManagementToken, Name: strings.Repeat("ä", 257)}, "257 characters"},
		"the longest name":          {Token{Type: ManagementToken, Name: strings.Repeat("ä", 256)}, ""},
		"too many policies":         {Token{Type: ClientToken, Policies: make([]string, 1001)}, "1001 policies"},
		"too many roles":            {Token{Type: ClientToken, Roles: make([]string, 1001)}, "1001 roles"},
		"a minute":                  {expiring(time.Minute), ""},
		"less than a minute":        {expiring(time.Minute - 1), "1m0s to 24h0m0s"},
		"a day":                     {expiring(24 * time.Hour), ""},
		"more than a day":           {expiring(24*time.Hour + 1), "1m0s to 24h0m0s"},
		"expired before it is made": {expiring(-time.Hour), "1m0s to 24h0m0s"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := c.token.Validate(DefaultLife)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestWhatRolesAndPoliciesAreCalled(t *testing.T) {
	long := strings.Repeat("a", 129)
	role := func(name string) error { return (&Role{Name: name, Policies: []string{"p"}}).Validate() }
	policy := func(name string) error { return (&Policy{Name: name, Rules: readDefault}).Validate() }
	for kind, check := range map[string]func(string) error{"role": role, "policy": policy} {
		for _, name := range []string{"a", "Team-1", long[:128]} {
			if err := check(name); err != nil {
				t.Errorf("%s %q: %v", kind, name, err)
			}
		}
		for _, name := range []string{"", long, "a b", "a/b", "..", "a\n", "ä", "*"} {
			if err := check(name); !fault.Has(err, fault.Invalid) {
				t.Errorf("%s %q: %v", kind, name, err)
			}
		}
	}
	if err := (&Role{Name: "r"}).Validate(); err == nil {
		t.Error("a role without policies is accepted")
	}
	wordy := Role{Name: "r", Policies: []string{"p"}, Description: strings.Repeat("x", 257)}
	if err := wordy.Validate(); err == nil {
		t.Error("a long description is accepted")
	}
}

func TestATokenIsHeldByItsSecretUntilItExpires(t *testing.T) {
	secret := redact.New("5a164351-8df7-f34d-7fd6-c85e02425ec0")
	token := Token{SecretHash: HashSecret(secret)}
	if !token.Holds(secret) || token.Holds(redact.New("5a164351-8df7-f34d-7fd6-c85e02425ec1")) {
		t.Error("the secret is not told from others")
	}
	var nothing redact.Secret
	if empty := (Token{SecretHash: HashSecret(nothing)}); empty.Holds(nothing) || token.Holds(nothing) {
		t.Error("no secret opens something")
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if token.Expired(now) {
		t.Error("a token without a time has expired")
	}
	token.Expires = now
	if !token.Expired(now) || token.Expired(now.Add(-1)) {
		t.Error("a token is not good until its time, and no longer")
	}
}

// TestATokenPrintsNoSecret asks every formatter.
func TestATokenPrintsNoSecret(t *testing.T) {
	const canary = "5a164351-8df7-f34d-7fd6-c85e02425ec0"
	token := &Token{Accessor: "a", Secret: redact.New(canary)}
	token.SecretHash = HashSecret(token.Secret)
	asJSON, err := json.Marshal(token)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{string(asJSON)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		texts = append(texts, fmt.Sprintf(verb, token), fmt.Sprintf(verb, *token))
	}
	for _, text := range texts {
		if strings.Contains(text, canary) {
			t.Errorf("the secret stands in %s", text)
		}
	}
}
