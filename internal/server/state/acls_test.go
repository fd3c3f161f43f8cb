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
