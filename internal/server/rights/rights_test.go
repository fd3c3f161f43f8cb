package rights

import (
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/acl"
	"berth/internal/server/state"
)

var now = time.Unix(1_000_000, 0)

func write(t *testing.T, s *state.Store, index uint64, fn func(*state.Tx)) {
	t.Helper()
	err := s.Write(state.Stamp{Index: index, Time: now}, func(tx *state.Tx) error { fn(tx); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

func policy(name, namespace, level string) *acl.Policy {
	return &acl.Policy{Name: name, Rules: `namespace "` + namespace + `" { policy = "` + level + `" }`}
}

func token(accessor string, typ acl.TokenType, policies, roles []string) *acl.Token {
	return &acl.Token{
		Accessor:   accessor,
		SecretHash: acl.HashSecret(redact.New("secret of " + accessor)),
		Type:       typ,
		Policies:   policies,
		Roles:      roles,
	}
}

func secretOf(accessor string) redact.Secret { return redact.New("secret of " + accessor) }

func TestASecretGivesWhatItsTokenSays(t *testing.T) {
	s := state.New()
	write(t, s, 1, func(tx *state.Tx) {
		tx.PutACLPolicy(policy("one", "a", "read"))
		tx.PutACLPolicy(policy("two", "b", "write"))
		tx.PutACLRole(&acl.Role{ID: "r", Name: "role", Policies: []string{"two", "gone"}})
		tx.PutACLToken(token("m", acl.ManagementToken, nil, nil))
		tx.PutACLToken(token("p", acl.ClientToken, []string{"one"}, []string{"gone"}))
		tx.PutACLToken(token("r", acl.ClientToken, []string{"one"}, []string{"r"}))
		old := token("old", acl.ManagementToken, nil, nil)
		old.Expires = now
		tx.PutACLToken(old)
	})
	for _, c := range []struct {
		secret     redact.Secret
		accessor   string
		management bool
		a, b       bool // may it list jobs in a, and run them in b?
		refused    bool
	}{
		{secret: secretOf("m"), accessor: "m", management: true, a: true, b: true},
		{secret: secretOf("p"), accessor: "p", a: true},
		{secret: secretOf("r"), accessor: "r", a: true, b: true},
		{secret: redact.Secret{}},
		{secret: secretOf("old"), refused: true},
		{secret: redact.New("p"), refused: true}, // an accessor is no secret
		{secret: redact.New("guess"), refused: true},
	} {
		who, rules, err := Of(s.Snapshot(), nil, c.secret, now)
		if c.refused {
			if !fault.Has(err, fault.Denied) || err.Error() != "ACL token not found" || rules != nil {
				t.Errorf("%q: %v, %v", c.secret.Reveal(), rules, err)
			}
			continue
		}
		if err != nil || who.Accessor != c.accessor || who.Management != c.management {
			t.Errorf("%q: %+v, %v", c.secret.Reveal(), who, err)
		}
		if rules.Allows(acl.ListJobs, "a") != c.a || rules.Allows(acl.SubmitJob, "b") != c.b {
			t.Errorf("%q: lists in a %t, runs in b %t", c.secret.Reveal(), rules.Allows(acl.ListJobs, "a"),
				rules.Allows(acl.SubmitJob, "b"))
		}
	}
	write(t, s, 2, func(tx *state.Tx) { tx.PutACLPolicy(policy(acl.AnonymousPolicy, "b", "read")) })
	if who, rules, err := Of(s.Snapshot(), nil, redact.Secret{}, now); err != nil || !who.Anonymous() ||
		!rules.Allows(acl.ListJobs, "b") || rules.Allows(acl.ListJobs, "a") {
		t.Errorf("anonymous: %+v, %v", who, err)
	}
}

// TestCompiledRulesAreThoseOfThePresentPolicies: made once, and anew for each change, also where another state has a
// policy of the same name and index.
func TestCompiledRulesAreThoseOfThePresentPolicies(t *testing.T) {
	compiled = cache{}
	s, other := state.New(), state.New()
	lists := func(s *state.Store, namespace string) bool {
		t.Helper()
		_, rules, err := Of(s.Snapshot(), nil, secretOf("p"), now)
		if err != nil {
			t.Fatal(err)
		}
		return rules.Allows(acl.ListJobs, namespace)
	}
	for i, store := range []*state.Store{s, other} {
		write(t, store, 1, func(tx *state.Tx) {
			tx.PutACLPolicy(policy("one", []string{"a", "b"}[i], "read"))
			tx.PutACLToken(token("p", acl.ClientToken, []string{"one"}, nil))
		})
	}
	if !lists(s, "a") || lists(other, "a") || !lists(other, "b") || lists(other, "a") {
		t.Error("the rules of one state are those of another")
	}
	if compiled.made != 2 {
		t.Errorf("compiled %d times", compiled.made)
	}
	write(t, other, 2, func(tx *state.Tx) { tx.PutACLPolicy(policy("one", "c", "read")) })
	if lists(other, "b") || !lists(other, "c") {
		t.Error("a policy was changed, and nobody sees it")
	}
	if compiled.made != 3 {
		t.Errorf("compiled %d times", compiled.made)
	}
}

// TestRulesThatCannotBeReadGiveNothing, not even what the other policies of the token give.
func TestRulesThatCannotBeReadGiveNothing(t *testing.T) {
	s := state.New()
	write(t, s, 1, func(tx *state.Tx) {
		tx.PutACLPolicy(policy("good", "a", "read"))
		tx.PutACLPolicy(policy("bad", "a", "nonsense"))
		tx.PutACLToken(token("p", acl.ClientToken, []string{"good", "bad"}, nil))
	})
	if _, rules, err := Of(s.Snapshot(), nil, secretOf("p"), now); !fault.Has(err, fault.Denied) || rules != nil {
		t.Errorf("%v, %v", rules, err)
	}
}

func TestAWatchHearsOfWhatTheAnswerIsMadeOf(t *testing.T) {
	s := state.New()
	write(t, s, 1, func(tx *state.Tx) {
		tx.PutACLPolicy(policy("one", "a", "read"))
		tx.PutACLRole(&acl.Role{ID: "r", Name: "role", Policies: []string{"one"}})
		tx.PutACLToken(token("p", acl.ClientToken, nil, []string{"r"}))
	})
	for i, change := range []func(*state.Tx){
		func(tx *state.Tx) { tx.PutACLPolicy(policy("one", "b", "read")) },
		func(tx *state.Tx) { tx.PutACLRole(&acl.Role{ID: "r", Name: "role", Policies: []string{"two"}}) },
		func(tx *state.Tx) { tx.DeleteACLToken("p") },
	} {
		w := state.NewWatch()
		if _, _, err := Of(s.Snapshot(), w, secretOf("p"), now); err != nil {
			t.Fatal(err)
		}
		write(t, s, uint64(2+i), change)
		if err := w.Wait(t.Context()); err != nil { // of a watch that does not hear, the test does not end
			t.Fatal(err)
		}
	}
}
