package state

import (
	"bytes"
	"testing"
	"time"

	"berth/internal/base/redact"
	"berth/internal/model/acl"
)

// TestAccessListsAreFoundByWhatNamesThem also after a snapshot, whose bytes have no secret.
func TestAccessListsAreFoundByWhatNamesThem(t *testing.T) {
	s := New()
	secret := redact.New("f9a7fb2b-1c5c-4a9e-8e3f-000000000001")
	at := time.Unix(1000, 0)
	write(t, s, 7, func(tx *Tx) {
		tx.PutACLPolicy(&acl.Policy{Name: "ro", Rules: `node { policy = "read" }`})
		tx.PutACLRole(&acl.Role{ID: "r1", Name: "readers", Policies: []string{"ro"}})
		hash := acl.HashSecret(secret)
		tx.PutACLToken(&acl.Token{Accessor: "a1", Secret: secret, SecretHash: hash, Expires: at.Add(time.Hour)})
		tx.PutACLToken(&acl.Token{Accessor: "a2", SecretHash: []byte("h2"), Expires: at})
		tx.PutACLToken(&acl.Token{Accessor: "a3", SecretHash: []byte("h3")})
		tx.PutACLBootstrap(&ACLBootstrap{Accessor: "a3"})
	})
	var stream bytes.Buffer
	if err := s.Snapshot().Persist(&stream); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(stream.Bytes(), []byte(secret.Reveal())) {
		t.Error("a snapshot has the secret of a token")
	}
	restored := New()
	if err := restored.Restore(&stream); err != nil {
		t.Fatal(err)
	}
	for where, snap := range map[string]*Snap{"the state": s.Snapshot(), "a restored one": restored.Snapshot()} {
		if p := snap.ACLPolicy(nil, "ro"); p == nil || p.ModifyIndex != 7 {
			t.Errorf("%s: policy %+v", where, p)
		}
		if r := snap.ACLRoleNamed(nil, "readers"); r == nil || r != snap.ACLRole(nil, "r1") {
			t.Errorf("%s: role %+v", where, r)
		}
		if snap.ACLRoleNamed(nil, "reader") != nil {
			t.Errorf("%s: a role by the beginning of its name", where)
		}
		if found := snap.ACLTokenOf(nil, secret); found == nil || found.Accessor != "a1" {
			t.Errorf("%s: token %+v", where, found)
		}
		if snap.ACLTokenOf(nil, redact.Secret{}) != nil || snap.ACLTokenOf(nil, redact.New("f9a7")) != nil {
			t.Errorf("%s: a token by a secret that nobody has", where)
		}
		var order string
		for tok := range snap.ACLTokensByExpiry() {
			order += tok.Accessor + " "
		}
		if order != "a2 a1 " {
			t.Errorf("%s: tokens expire in the order %q", where, order)
		}
		if b := snap.ACLBootstrap(nil); b == nil || b.ModifyIndex != 7 {
			t.Errorf("%s: bootstrap %+v", where, b)
		}
	}
}

// TestAnObjectIsNotFoundUnderTheKeysThatItHad: a role is found by the name that it has now, in the same transaction as
// in the next, and in what was read before by the one that it had then; so is a token by its secret.
func TestAnObjectIsNotFoundUnderTheKeysThatItHad(t *testing.T) {
	s := New()
	one, two := redact.New("one"), redact.New("two")
	write(t, s, 1, func(tx *Tx) {
		tx.PutACLRole(&acl.Role{ID: "r", Name: "before"})
		tx.PutACLToken(&acl.Token{Accessor: "a", SecretHash: acl.HashSecret(one)})
	})
	before := s.Snapshot()
	look := func(when string, snap *Snap, name, was string, secret, old redact.Secret) {
		t.Helper()
		if r := snap.ACLRoleNamed(nil, name); r == nil || snap.ACLRoleNamed(nil, was) != nil {
			t.Errorf("%s it is found as %+v, and by %q as %+v", when, r, was, snap.ACLRoleNamed(nil, was))
		}
		if a := snap.ACLTokenOf(nil, secret); a == nil || snap.ACLTokenOf(nil, old) != nil {
			t.Errorf("%s the token is found as %+v, and by its other secret as %+v", when, a, snap.ACLTokenOf(nil, old))
		}
	}
	write(t, s, 2, func(tx *Tx) {
		tx.PutACLRole(&acl.Role{ID: "r", Name: "now"})
		tx.PutACLToken(&acl.Token{Accessor: "a", SecretHash: acl.HashSecret(two)})
		look("while it is changed", &tx.Snap, "now", "before", two, one)
	})
	look("afterwards", s.Snapshot(), "now", "before", two, one)
	look("in what was read before", before, "before", "now", one, two)
	write(t, s, 3, func(tx *Tx) { tx.DeleteACLRole("r") })
	if r := s.Snapshot().ACLRoleNamed(nil, "now"); r != nil {
		t.Errorf("deleted, it is found as %+v", r)
	}
}
