package acls_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/acl"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/acls"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

const readNodes = `node { policy = "read" }`

func policy(name string) *acls.PolicyPut { return &acls.PolicyPut{Name: name, Rules: readNodes} }

func role(id, name string, policies ...string) *acls.RolePut {
	return &acls.RolePut{New: true, ID: id, Name: name, Policies: policies}
}

// token is a new one that gives what the policy p does.
func token(accessor string) *acls.TokenPut {
	return &acls.TokenPut{
		New:        true,
		Accessor:   accessor,
		SecretHash: []byte("hash of " + accessor),
		Name:       accessor,
		Type:       acl.ClientToken,
		Policies:   []string{"p"},
		Shortest:   time.Minute,
		Longest:    time.Hour,
	}
}

// update is the command that writes a token as it is, for the test to change.
func update(t *acl.Token) *acls.TokenPut {
	return &acls.TokenPut{
		Accessor: t.Accessor,
		Name:     t.Name,
		Type:     t.Type,
		Policies: t.Policies,
		Roles:    t.Roles,
		Expires:  t.Expires,
		Shortest: time.Minute,
		Longest:  time.Hour,
	}
}

func refused(t *testing.T, c *localstate.Cluster, what string, cmd fsm.Command, want fault.Kind, says string) {
	t.Helper()
	_, _, err := c.Propose(t.Context(), cmd)
	if !fault.Has(err, want) || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want %s with %q", what, err, want, says)
	}
}

func TestWhatAListNamesIsThere(t *testing.T) {
	c := localstate.New(t)
	c.Must(t, policy("p"))
	c.Must(t, role("r1", "readers", "p", "p"))
	if got := c.Store.Snapshot().ACLRole(nil, "r1").Policies; !slices.Equal(got, []string{"p"}) {
		t.Errorf("the role has %q", got)
	}
	lost := token("t")
	lost.Policies, lost.Roles = []string{"p", "q"}, []string{"r2"}
	refused(t, c, "a policy that is not there", role("r2", "others", "q"), fault.Invalid, `there is no policy "q"`)
	refused(t, c, "all that is missing", lost, fault.Invalid, `there is no policy "q", no role "r2"`)
	refused(t, c, "the name of another role", role("r2", "readers", "p"), fault.Invalid, "role r1 has this name")
	refused(t, c, "the id of another role", role("r1", "others", "p"), fault.Conflict, "another one of id r1")
	unknown := role("r3", "others", "p")
	unknown.New = false
	refused(t, c, "a role that is not there", unknown, fault.NotFound, "ACL role not found")
	refused(t, c, "its end", &acls.RoleDelete{ID: "r3"}, fault.NotFound, "ACL role not found")
	refused(t, c, "the end of a policy", &acls.PolicyDelete{Name: "q"}, fault.NotFound, "ACL policy not found")
	refused(t, c, "the end of a token", &acls.TokenDelete{Accessor: "t"}, fault.NotFound, "ACL token not found")
	refused(t, c, "a text with mistakes", &acls.PolicyPut{Name: "p", Rules: "node {\n policy = 1\n}\nsurprise = 2"},
		fault.Invalid, "surprise")
	renamed := role("r1", "all", "p")
	renamed.New = false
	c.Must(t, renamed)
	s := c.Store.Snapshot()
	if s.ACLRoleNamed(nil, "readers") != nil || s.ACLRoleNamed(nil, "all") == nil {
		t.Error("a role is not found by its new name, or is by its old one")
	}
	c.Must(t, &acls.RoleDelete{ID: "r1"})
	c.Must(t, &acls.PolicyDelete{Name: "p"})
}

// TestAPolicyThatIsThereStays: who writes it again, as programs do that hold a state, changes no index.
func TestAPolicyThatIsThereStays(t *testing.T) {
	c := localstate.New(t)
	first := c.Must(t, policy("p")).(*acl.Policy).ModifyIndex
	if again := c.Must(t, policy("p")).(*acl.Policy).ModifyIndex; again != first {
		t.Errorf("written at %d, and again at %d", first, again)
	}
	changed := policy("p")
	changed.Description = "other"
	if again := c.Must(t, changed).(*acl.Policy); again.ModifyIndex <= first || again.CreateIndex != first {
		t.Errorf("%+v", again)
	}
}

func TestATokenLivesAsLongAsItWasMadeFor(t *testing.T) {
	c := localstate.New(t)
	c.Must(t, policy("p"))
	for what, change := range map[string]func(*acls.TokenPut){
		"too short":     func(p *acls.TokenPut) { p.Lives = time.Second },
		"too long":      func(p *acls.TokenPut) { p.Lives = 2 * time.Hour },
		"below nothing": func(p *acls.TokenPut) { p.Lives = -time.Hour },
		"it is over":    func(p *acls.TokenPut) { p.Expires = time.Now().Add(-time.Hour) },
		"both":          func(p *acls.TokenPut) { p.Lives, p.Expires = time.Minute, time.Now().Add(time.Minute) },
		"no type":       func(p *acls.TokenPut) { p.Type = "" },
		"no policy":     func(p *acls.TokenPut) { p.Policies = nil },
	} {
		put := token("t")
		change(put)
		refused(t, c, what, put, fault.Invalid, "")
	}
	put := token("t")
	put.Lives = 30 * time.Minute
	made := c.Must(t, put).(*acl.Token)
	if made.Created.IsZero() || made.Expires.Sub(made.Created) != put.Lives {
		t.Errorf("%+v", made)
	}
	refused(t, c, "the same accessor", token("t"), fault.Invalid, "accessor t")
	twin := token("u")
	twin.SecretHash = put.SecretHash
	refused(t, c, "the same secret", twin, fault.Invalid, "of this secret")

	for what, change := range map[string]func(*acls.TokenPut){
		"another secret":       func(p *acls.TokenPut) { p.SecretHash = []byte("other") },
		"another end":          func(p *acls.TokenPut) { p.Expires = p.Expires.Add(time.Minute) },
		"another time to live": func(p *acls.TokenPut) { p.Lives = time.Hour },
	} {
		next := update(made)
		change(next)
		refused(t, c, what, next, fault.Invalid, "stays as it was made")
	}
	next := update(made)
	next.Name = "renamed"
	next.SecretHash, next.Lives = put.SecretHash, put.Lives
	next.Expires = time.Time{}                   // it need not be said again
	next.Shortest, next.Longest = 0, time.Minute // configured since
	got := c.Must(t, next).(*acl.Token)
	if got.Name != "renamed" || !got.Expires.Equal(made.Expires) || !got.Created.Equal(made.Created) ||
		string(got.SecretHash) != string(put.SecretHash) {
		t.Errorf("%+v", got)
	}
	gone := update(made)
	gone.Accessor = "none"
	refused(t, c, "one that is not there", gone, fault.NotFound, "ACL token not found")
	c.Must(t, &acls.TokenDelete{Accessor: "t"})
}

func TestTheFirstTokenIsMadeOnceAndAgainForWhoNamesTheIndex(t *testing.T) {
	c := localstate.New(t)
	boot := func(n int, reset uint64) *acls.Bootstrap {
		return &acls.Bootstrap{Accessor: fmt.Sprint(n), SecretHash: []byte(fmt.Sprint("hash ", n)), Reset: reset}
	}
	first := c.Must(t, boot(1, 0)).(*acl.Token)
	if first.Type != acl.ManagementToken || first.Name != "Bootstrap Token" || !first.Global ||
		!first.Expires.IsZero() {
		t.Errorf("%+v", first)
	}
	text := fmt.Sprintf("ACL bootstrap already done (reset index: %d)", first.ModifyIndex)
	refused(t, c, "again", boot(2, 0), fault.Invalid, text)
	refused(t, c, "by another index", boot(2, first.ModifyIndex+1), fault.Invalid, text)
	c.Must(t, boot(2, first.ModifyIndex))
	refused(t, c, "by an index that was used", boot(3, first.ModifyIndex), fault.Invalid, "already done")
	s := c.Store.Snapshot()
	if s.ACLToken(nil, "1") == nil || s.ACLToken(nil, "2") == nil || s.ACLToken(nil, "3") != nil {
		t.Error("a reset makes one token more, and takes none away")
	}
}

// fill stores many tokens at once.
func fill(t *testing.T, c *localstate.Cluster, index uint64, n int, expires time.Time) {
	t.Helper()
	err := c.Store.Write(state.Stamp{Index: index, Time: time.Now()}, func(tx *state.Tx) error {
		for i := range n {
			tx.PutACLToken(&acl.Token{
				Accessor:   fmt.Sprint(index, "-", i),
				SecretHash: fmt.Append(nil, index, i),
				Type:       acl.ManagementToken,
				Created:    expires.Add(-time.Hour),
				Expires:    expires,
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Skip(1)
}

// TestTokensAreBounded: those that have expired count for nothing, and new ones take them away.
func TestTokensAreBounded(t *testing.T) {
	c := localstate.New(t)
	c.Must(t, policy("p"))
	fill(t, c, 3, 250, time.Now().Add(-time.Hour))
	fill(t, c, 4, acls.MaxTokens-1, time.Now().Add(time.Hour))
	c.Must(t, token("last"))
	left := func() (n int) {
		for t := range c.Store.Snapshot().ACLTokens(nil, "") {
			if t.Expired(time.Now()) {
				n++
			}
		}
		return n
	}
	if n := left(); n != 150 {
		t.Errorf("%d that have expired are left", n)
	}
	refused(t, c, "one more", token("more"), fault.Invalid, fmt.Sprint(acls.MaxTokens))
	c.Must(t, &acls.Bootstrap{Accessor: "root", SecretHash: []byte("root")}) // the way back in
	n, _, err := fsm.Propose[int](t.Context(), c, &acls.TokensExpire{Most: 20})
	if err != nil || n != 20 || left() != 30 {
		t.Errorf("forgot %d, %d are left: %v", n, left(), err)
	}
	if n, _, err = fsm.Propose[int](t.Context(), c, &acls.TokensExpire{Most: 2000}); n != 30 || err != nil {
		t.Errorf("forgot %d: %v", n, err)
	}
	if c.Store.Snapshot().ACLToken(nil, "last") == nil {
		t.Error("a token was forgotten that does not expire")
	}
}

func TestPoliciesAndRolesAreBounded(t *testing.T) {
	c := localstate.New(t)
	err := c.Store.Write(state.Stamp{Index: 3, Time: time.Now()}, func(tx *state.Tx) error {
		for i := range acls.MaxPolicies {
			tx.PutACLPolicy(&acl.Policy{Name: fmt.Sprint("p", i), Rules: readNodes})
		}
		for i := range acls.MaxRoles {
			tx.PutACLRole(&acl.Role{ID: fmt.Sprint(i), Name: fmt.Sprint("r", i), Policies: []string{"p0"}})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Skip(2)
	refused(t, c, "a policy more", policy("more"), fault.Invalid, "berth acl policy list")
	refused(t, c, "a role more", role("more", "more", "p0"), fault.Invalid, "berth acl role list")
	again := policy("p0")
	again.Description = "may change"
	c.Must(t, again)
}
