package acls

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/acl"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm/acls"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// rig is endpoints on a state, with what they log.
type rig struct {
	*testing.T
	*Endpoints
	state *localstate.Cluster
	log   bytes.Buffer
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, state: localstate.New(t)}
	r.Endpoints = New(Config{
		Base:      serving.Base{Store: r.state.Store, Cluster: leader.Alone{}},
		Proposer:  r.state,
		ResetFile: filepath.Join(t.TempDir(), "acl-bootstrap-reset"),
		Log:       slog.New(slog.NewTextHandler(&r.log, nil)),
	})
	return r
}

func (r *rig) policy(name string) {
	r.Helper()
	_, err := r.policyPut(r.Context(), &wire.ACLPolicyPutRequest{Name: name, Rules: `node { policy = "read" }`})
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) token(req *wire.ACLTokenPutRequest) *wire.ACLTokenReply {
	r.Helper()
	out, err := r.tokenPut(r.Context(), req)
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// client is a request for a token that gives what some policies do.
func client(name string, policies ...string) *wire.ACLTokenPutRequest {
	return &wire.ACLTokenPutRequest{Name: name, Type: acl.ClientToken, Policies: policies}
}

// TestASecretStandsInTheAnswerThatMadeItAlone: it is in no other answer, not in the state, and not in the log.
func TestASecretStandsInTheAnswerThatMadeItAlone(t *testing.T) {
	r := newRig(t)
	r.policy("p")
	first, err := r.bootstrap(t.Context(), &wire.ACLBootstrapRequest{By: "user 7"})
	if err != nil {
		t.Fatal(err)
	}
	made := r.token(client("deploy", "p"))
	for _, reply := range []*wire.ACLTokenReply{first, made} {
		secret := reply.Secret.Secret().Reveal()
		if !ids.IsUUID(secret) || !ids.IsUUID(reply.Token.Token.Accessor) || secret == reply.Token.Token.Accessor {
			t.Errorf("secret %q of %q", secret, reply.Token.Token.Accessor)
		}
		var kept bytes.Buffer
		if err := r.state.Store.Snapshot().Persist(&kept); err != nil {
			t.Fatal(err)
		}
		got, err := r.tokenGet(t.Context(), &wire.Ref[string]{ID: reply.Token.Token.Accessor})
		if err != nil {
			t.Fatal(err)
		}
		list, err := r.tokenList(t.Context(), &wire.ACLTokenListRequest{})
		if err != nil {
			t.Fatal(err)
		}
		seen, err := wire.Encode([]any{got, list, reply.Token})
		if err != nil {
			t.Fatal(err)
		}
		hash := acl.HashSecret(redact.New(secret))
		for what, text := range map[string]string{
			"the state": kept.String(),
			"a read":    string(seen),
			"the log":   r.log.String(),
		} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has a secret", what)
			}
			if what == "a read" && strings.Contains(text, string(hash)) {
				t.Errorf("%s has the hash of a secret", what)
			}
		}
		self, err := r.tokenSelf(t.Context(), &wire.ACLSelfRequest{Secret: reply.Secret})
		if err != nil || self.Item.Token.Accessor != reply.Token.Token.Accessor {
			t.Errorf("self: %v", err)
		}
	}
	if !strings.Contains(r.log.String(), "level=WARN") || !strings.Contains(r.log.String(), `by="user 7"`) {
		t.Errorf("the record of it: %s", r.log.String())
	}
	wrong := &wire.ACLSelfRequest{Secret: wire.SealSecret(redact.New(ids.New()))}
	for _, req := range []*wire.ACLSelfRequest{wrong, {}} {
		if _, err := r.tokenSelf(t.Context(), req); !fault.Has(err, fault.Denied) {
			t.Errorf("a secret that nobody has: %v", err)
		}
	}
}

func TestPoliciesAreSeenByWhoHasThem(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c"} {
		r.policy(name)
	}
	role, err := r.rolePut(t.Context(), &wire.ACLRolePutRequest{Name: "second", Policies: []string{"b"}})
	if err != nil {
		t.Fatal(err)
	}
	byRole := client("by role", "a")
	byRole.RoleNames = []string{"second"}
	other := client("other", "c")
	manager := &wire.ACLTokenPutRequest{Type: acl.ManagementToken}
	for _, c := range []struct {
		secret wire.Secrets
		want   string
	}{
		{r.token(byRole).Secret, "a b "},
		{r.token(other).Secret, "c "},
		{r.token(manager).Secret, "a b c "},
		{wire.Secrets{}, "a b c "},
	} {
		list, err := r.policyList(t.Context(), &wire.ACLPolicyListRequest{Secret: c.secret})
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, p := range list.Items {
			got += p.Name + " "
		}
		if got != c.want {
			t.Errorf("sees %q, want %q", got, c.want)
		}
		for _, name := range []string{"a", "b", "c"} {
			req := &wire.ACLPolicyRequest{Ref: wire.Ref[string]{ID: name}, Secret: c.secret}
			one, err := r.policyGet(t.Context(), req)
			if sees := strings.Contains(c.want, name); sees != (err == nil) ||
				!sees && !fault.Has(err, fault.Denied) || sees && one.Item == nil {
				t.Errorf("who sees %q reads %s: %v", c.want, name, err)
			}
		}
	}
	if role.Role.Name != "second" {
		t.Errorf("%+v", role.Role)
	}
}

// TestAPolicyWhosePatternMatchesNothingIsRefused: given one that an earlier program stored, when somebody writes such a
// policy now, then it is refused, and the one that is there is read as before.
func TestAPolicyWhosePatternMatchesNothingIsRefused(t *testing.T) {
	r := newRig(t)
	const rules = `namespace "team-[a]" { policy = "read" }`
	r.state.Must(t, &acls.PolicyPut{Name: "old", Rules: rules})
	_, err := r.policyPut(t.Context(), &wire.ACLPolicyPutRequest{Name: "new", Rules: rules})
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), `"team-[a]"`) {
		t.Errorf("it is written: %v", err)
	}

	for p := range r.state.Store.Snapshot().ACLPolicies(nil, "") {
		if p.Name != "old" || p.Rules != rules {
			t.Errorf("there is %+v", p)
		}
	}
}

// TestTheFirstTokenIsMadeAgainByAFile that a person writes where the leader is.
func TestTheFirstTokenIsMadeAgainByAFile(t *testing.T) {
	r := newRig(t)
	secret := redact.New(ids.New())
	first, err := r.bootstrap(t.Context(), &wire.ACLBootstrapRequest{Secret: wire.SealSecret(secret)})
	if err != nil || first.Secret.Secret().Reveal() != secret.Reveal() {
		t.Fatalf("with a secret of one's own: %v", err)
	}
	again := func() error {
		_, err := r.bootstrap(t.Context(), &wire.ACLBootstrapRequest{})
		return err
	}
	done := fmt.Sprintf("ACL bootstrap already done (reset index: %d)", first.Index)
	before := r.state.Store.Snapshot().Index()
	for _, content := range []string{"", fmt.Sprint(first.Index + 1), "soon", strings.Repeat("1", 1000)} {
		if content != "" {
			if err := os.WriteFile(r.cfg.ResetFile, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := again()
		if !fault.Has(err, fault.Invalid) {
			t.Errorf("%q: %v", content, err)
		}
		if (content == "" || content == fmt.Sprint(first.Index+1)) && err.Error() != done {
			t.Errorf("%q: %v, want %q", content, err, done)
		}
	}
	if now := r.state.Store.Snapshot().Index(); now != before {
		t.Errorf("what is refused was written: index %d, was %d", now, before)
	}
	if err := os.WriteFile(r.cfg.ResetFile, fmt.Appendln(nil, first.Index), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
	if err := again(); !fault.Has(err, fault.Invalid) {
		t.Errorf("a file that was used: %v", err)
	}
	short := &wire.ACLBootstrapRequest{Secret: wire.SealSecret(redact.New("short"))}
	if _, err := newRig(t).bootstrap(t.Context(), short); !fault.Has(err, fault.Invalid) {
		t.Errorf("a secret that is no UUID: %v", err)
	}
}

func TestATokenIsUpdatedAsItWasRead(t *testing.T) {
	r := newRig(t)
	r.policy("p")
	req := client("t", "p")
	req.Lives = time.Hour
	made := r.token(req)
	if lives := made.Token.Token.Expires.Sub(made.Token.Token.Created); lives != time.Hour {
		t.Errorf("it lives %s", lives)
	}
	req.Accessor = made.Token.Token.Accessor
	req.Secret = made.Secret // clients that made it have it still
	req.Expires = made.Token.Token.Expires
	req.Name = "renamed"
	if got := r.token(req); got.Token.Token.Name != "renamed" || got.Index <= made.Index {
		t.Errorf("%+v", got.Token.Token)
	}
	own := client("own", "p")
	own.Secret = wire.SealSecret(redact.New(ids.New()))
	if _, err := r.tokenPut(t.Context(), own); !fault.Has(err, fault.Invalid) {
		t.Errorf("a secret of one's own: %v", err)
	}
	own.Accessor = ids.New() // made elsewhere, both
	if got := r.token(own); got.Token.Token.Accessor != own.Accessor {
		t.Errorf("%+v", got.Token.Token)
	}
	if got, err := r.tokenSelf(t.Context(), &wire.ACLSelfRequest{Secret: own.Secret}); err != nil ||
		got.Item.Token.Accessor != own.Accessor {
		t.Errorf("its secret: %v", err)
	}
	own.Accessor = ids.New()
	own.Type, own.Policies = acl.ManagementToken, nil
	own.Secret = wire.SealSecret(redact.New(ids.New()))
	if _, err := r.tokenPut(t.Context(), own); !fault.Has(err, fault.Invalid) {
		t.Errorf("a management token that was made elsewhere: %v", err)
	}
	own = client("lost", "p")
	own.RoleNames = []string{"nobody"}
	if _, err := r.tokenPut(t.Context(), own); !fault.Has(err, fault.Invalid) {
		t.Errorf("a role that is not there: %v", err)
	}
	long := client("long", "p")
	long.Lives = 25 * time.Hour
	if _, err := r.tokenPut(t.Context(), long); !fault.Has(err, fault.Invalid) {
		t.Errorf("a token that lives longer than a day: %v", err)
	}
}

// TestAReaderOfATokenHearsOfItsRoles: what a role is called stands in the answer.
func TestAReaderOfATokenHearsOfItsRoles(t *testing.T) {
	r := newRig(t)
	r.policy("p")
	role, err := r.rolePut(t.Context(), &wire.ACLRolePutRequest{Name: "old", Policies: []string{"p"}})
	if err != nil {
		t.Fatal(err)
	}
	req := &wire.ACLTokenPutRequest{Type: acl.ClientToken, Roles: []string{role.Role.ID}}
	ref := wire.Ref[string]{ID: r.token(req).Token.Token.Accessor}
	first, err := r.tokenGet(t.Context(), &ref)
	if err != nil || first.Item.Roles[role.Role.ID] != "old" {
		t.Fatalf("%+v, %v", first, err)
	}
	renamed := &wire.ACLRolePutRequest{ID: role.Role.ID, Name: "new", Policies: []string{"p"}}
	if _, err := r.rolePut(t.Context(), renamed); err != nil {
		t.Fatal(err)
	}
	ref.MinIndex = first.Index
	if next, err := r.tokenGet(t.Context(), &ref); err != nil || next.Item.Roles[role.Role.ID] != "new" ||
		next.Index <= first.Index {
		t.Errorf("%+v, %v", next, err)
	}
	named, err := r.roleNamed(t.Context(), &wire.Ref[string]{ID: "new"})
	if err != nil || named.Item == nil || named.Item.ID != role.Role.ID {
		t.Errorf("%+v, %v", named, err)
	}
	for what, err := range map[string]error{
		"role":   deleted(r, r.roleDelete, role.Role.ID),
		"policy": deleted(r, r.policyDelete, "p"),
		"token":  deleted(r, r.tokenDelete, ref.ID),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// deleted deletes something twice: the second time it is not there.
func deleted(
	r *rig, del func(context.Context, *wire.ACLDeleteRequest) (*wire.Written, error), id string,
) error {
	if _, err := del(r.Context(), &wire.ACLDeleteRequest{ID: id}); err != nil {
		return err
	}
	if _, err := del(r.Context(), &wire.ACLDeleteRequest{ID: id}); !fault.Has(err, fault.NotFound) {
		return fmt.Errorf("deleted again: %w", err)
	}
	return nil
}
