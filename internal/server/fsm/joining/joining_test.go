package joining_test

import (
	"fmt"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/joining"
	"berth/internal/testkit/localstate"
)

// admission is one that lets a node in.
func admission(t *testing.T, c *localstate.Cluster, token trust.JoinToken, uses int) {
	t.Helper()
	c.Must(t, &joining.AdmissionPut{Admission: trust.Admission{
		ID:      token.ID,
		Hash:    token.Hash(),
		Role:    trust.Node,
		Uses:    uses,
		Expires: time.Now().Add(time.Hour),
	}})
}

func token(t *testing.T) trust.JoinToken {
	t.Helper()
	key, err := trust.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := trust.NewRoot(ids.New(), key, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	root, err := trust.OpenAuthority(der, key)
	if err != nil {
		t.Fatal(err)
	}
	return trust.NewJoinToken(root.Root)
}

func join(id string, key trust.KeyID, token trust.JoinToken) *joining.Join {
	return &joining.Join{
		Role:  trust.Node,
		ID:    id,
		Key:   key,
		Token: token.ID,
		Hash:  token.Hash(),
	}
}

// TestATokenLetsInAsManyAsItSays: each once, and again by its key alone; nobody under the name of another one.
func TestATokenLetsInAsManyAsItSays(t *testing.T) {
	c := localstate.New(t)
	tok, wrong := token(t), token(t)
	admission(t, c, tok, 2)
	admission(t, c, tok, 2) // the answer was lost
	wrong.ID = tok.ID
	asServer := join("s", "ks", tok)
	asServer.Role = trust.Server
	for _, step := range []struct {
		what string
		cmd  fsm.Command
		want fault.Kind
		left int
	}{
		{"a wrong secret", join("a", "ka", wrong), fault.Denied, 2},
		{"the first", join("a", "ka", tok), 0, 1},
		{"the first again", join("a", "ka", tok), 0, 1},
		{"the first without a token", join("a", "ka", wrong), 0, 1},
		{"another key", join("a", "kb", tok), fault.Conflict, 1},
		{"as a server", asServer, fault.Denied, 1},
		{"the second", join("b", "kb", tok), 0, 0},
		{"one too many", join("c", "kc", tok), fault.Denied, 0},
		{"revoked", &joining.AdmissionDelete{ID: tok.ID}, 0, -1},
		{"revoked again", &joining.AdmissionDelete{ID: tok.ID}, fault.NotFound, -1},
		{"by a revoked one", join("d", "kd", tok), fault.Denied, -1},
		{"who was in", join("b", "kb", tok), 0, -1},
	} {
		_, _, err := c.Propose(t.Context(), step.cmd)
		if (err == nil) != (step.want == 0) || err != nil && !fault.Has(err, step.want) {
			t.Errorf("%s: %v", step.what, err)
		}
		left := -1
		if a := c.Store.Snapshot().Admission(nil, tok.ID); a != nil {
			left = a.Uses
		}
		if left != step.left {
			t.Errorf("%s: %d uses are left, want %d", step.what, left, step.left)
		}
	}
	s := c.Store.Snapshot()
	if s.Member(nil, trust.Node, "c") != nil || s.Member(nil, trust.Node, "a").Key != "ka" {
		t.Error("somebody is in who was refused")
	}
}

// TestAdmissionsAreBounded: in number, in uses and in time; those that have expired make place.
func TestAdmissionsAreBounded(t *testing.T) {
	c := localstate.New(t)
	put := func(id string, uses int, good time.Duration) error {
		_, _, err := c.Propose(t.Context(), &joining.AdmissionPut{Admission: trust.Admission{
			ID:      id,
			Hash:    []byte(id),
			Role:    trust.Node,
			Uses:    uses,
			Expires: time.Now().Add(good),
		}})
		return err
	}
	for what, err := range map[string]error{
		"no use":        put("x", 0, time.Hour),
		"too many uses": put("x", trust.MaxAdmissionUses+1, time.Hour),
		"no time":       put("x", 1, -time.Second),
		"too long":      put("x", 1, trust.MaxAdmissionLifetime+time.Hour),
	} {
		if !fault.Has(err, fault.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, _, err := c.Propose(t.Context(), &joining.AdmissionPut{Admission: trust.Admission{
		ID:       "s",
		Hash:     []byte("s"),
		Role:     trust.Server,
		NodePool: "default",
		Uses:     1,
		Expires:  time.Now().Add(time.Hour),
	}})
	if !fault.Has(err, fault.Invalid) {
		t.Errorf("for a server of a node pool: %v", err)
	}
	for i := range trust.MaxAdmissions {
		if err := put(fmt.Sprint(i), 1, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if err := put("more", 1, time.Hour); !fault.Has(err, fault.Invalid) {
		t.Errorf("one more: %v", err)
	}
}

// TestTheFirstAuthorityStays: a leader that did not know of it makes none beside it.
func TestTheFirstAuthorityStays(t *testing.T) {
	c := localstate.New(t)
	c.Must(t, &joining.AuthorityPut{Root: []byte("one"), Sealed: []byte("k1")})
	c.Must(t, &joining.AuthorityPut{Root: []byte("two"), Sealed: []byte("k2")})
	if a := c.Store.Snapshot().Authority(nil); string(a.Root) != "one" || string(a.Sealed) != "k1" {
		t.Errorf("%q, %q", a.Root, a.Sealed)
	}
}
