package keyring_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/base/redact"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/workload"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/keyring"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

func statement(audience string) *workload.Statement {
	return &workload.Statement{
		Alloc:    &alloc.Alloc{ID: "a", Namespace: "shop", Job: "web", TaskGroup: "front"},
		Task:     "app",
		Identity: &job.WorkloadIdentity{Name: "x", Audience: []string{audience}},
		Region:   "global",
		Now:      time.Now(),
	}
}

// header reads what a token says of its signature.
func header(t *testing.T, token redact.Secret) (alg, kid string) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token.Reveal(), ".")[0])
	if err != nil {
		t.Fatal(err)
	}
	var h struct{ Alg, Kid string }
	if err := json.Unmarshal(raw, &h); err != nil {
		t.Fatal(err)
	}
	return h.Alg, h.Kid
}

// TestOthersCheckIdentitiesByRS256: given a cluster with a signing key, when identities for others are signed, also
// many at once, then one RSA pair is made, the public part is in the state, and every one can be checked with it; what
// is for Berth is signed as before, and the pair is there for the next leader.
func TestOthersCheckIdentitiesByRS256(t *testing.T) {
	c, k := localstate.New(t), open(t, t.TempDir())
	first := lead(t, c, k, "")
	s := &keyring.Signer{Keyring: k, Store: c.Store, Proposer: c}
	own, err := s.Sign(t.Context(), c.Store.Snapshot(), statement(workload.Audience))
	if err != nil {
		t.Fatal(err)
	}
	if alg, kid := header(t, own); alg != keyring.EdDSA || kid != first.ID {
		t.Errorf("what is for Berth is signed by %s with %s", alg, kid)
	}
	if of := c.Store.Snapshot().SigningKey(nil, first.ID); len(of.RSA) > 0 {
		t.Error("an RSA pair is made that nobody needs")
	}
	tokens := make([]redact.Secret, 4)
	snap := c.Store.Snapshot()
	var all sync.WaitGroup
	for i := range tokens {
		all.Go(func() {
			token, err := s.Sign(t.Context(), snap, statement("others"))
			if err != nil {
				t.Error(err)
			}
			tokens[i] = token
		})
	}
	all.Wait()
	next := &keyring.Signer{Keyring: k, Store: c.Store, Proposer: c}
	again, err := next.Sign(t.Context(), c.Store.Snapshot(), statement("others"))
	if err != nil {
		t.Fatal(err)
	}
	of := c.Store.Snapshot().SigningKey(nil, first.ID)
	public := &rsa.PublicKey{N: new(big.Int).SetBytes(of.RSA), E: workload.RSAExponent}
	for _, token := range append(tokens, again) {
		alg, kid := header(t, token)
		signed, signature, _ := cutLast(token.Reveal(), ".")
		sum := sha256.Sum256([]byte(signed))
		raw, err := base64.RawURLEncoding.DecodeString(signature)
		if err != nil {
			t.Fatal(err)
		}
		if err := rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], raw); err != nil || alg != "RS256" ||
			kid != first.ID+"-rs256" {
			t.Errorf("signed by %s with %s: %v", alg, kid, err)
		}
	}
	m, err := k.Open(c.Store.Snapshot(), "signing key "+of.ID, of.Sealed)
	if err != nil || m.Reveal()["private"] == "" {
		t.Errorf("the other pair is not there any more: %v", err)
	}
}

func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	return text[:i], text[i+len(sep):], true
}

// TestAPairOfASealedKeyIsNotReplaced: given an RSA pair that was made of a key as it was, when the key was sealed anew
// meanwhile, or has a pair, then what is there stays.
func TestAPairOfASealedKeyIsNotReplaced(t *testing.T) {
	c, k := localstate.New(t), open(t, t.TempDir())
	first := lead(t, c, k, "")
	put := &keys.RSAPut{ID: first.ID, RSA: []byte{1}, Sealed: []byte{2}, Seen: first.ModifyIndex + 1}
	if _, _, err := c.Propose(t.Context(), put); err == nil {
		t.Error("what was sealed anew is replaced by what was before")
	}
	s := &keyring.Signer{Keyring: k, Store: c.Store, Proposer: c}
	if _, err := s.Sign(t.Context(), c.Store.Snapshot(), statement("others")); err != nil {
		t.Fatal(err)
	}
	of := c.Store.Snapshot().SigningKey(nil, first.ID)
	put.Seen = of.ModifyIndex
	if _, _, err := c.Propose(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	if now := c.Store.Snapshot().SigningKey(nil, first.ID); string(now.RSA) != string(of.RSA) {
		t.Error("the pair is another one")
	}
}

// TestAMixedClusterSignsAsItDid: where not all servers know RSA pairs, identities for others are signed without.
func TestAMixedClusterSignsAsItDid(t *testing.T) {
	c, k := localstate.New(t), open(t, t.TempDir())
	err := c.Store.Write(state.Stamp{Index: 2, Time: time.Now()}, func(tx *state.Tx) error {
		before := *tx.Meta(nil)
		before.Schema = keys.SchemaRSA - 1
		tx.PutMeta(&before)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Skip(1)
	lead(t, c, k, "")
	s := &keyring.Signer{Keyring: k, Store: c.Store, Proposer: c}
	token, err := s.Sign(t.Context(), c.Store.Snapshot(), statement("others"))
	if err != nil {
		t.Fatal(err)
	}
	if alg, _ := header(t, token); alg != keyring.EdDSA {
		t.Errorf("signed by %s", alg)
	}
}
