package keyring

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"log/slog"
	"slices"
	"sync"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/redact"
	"berth/internal/model/workload"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/state"
)

// EdDSA names the algorithm of signing keys, as JSON Web Keys do (RFC 8037).
const EdDSA = "EdDSA"

// privatePart names the private part of a signing key among what is sealed under the key's name.
const privatePart = "private"

// Signing gives the cluster its signing key: one pair, whose private part lies sealed in the replicated state.
type Signing struct {
	Keyring  *Keyring
	Store    *state.Store
	Proposer fsm.Proposer
	Log      *slog.Logger
}

// Run makes the key when there is none, and otherwise sees whether this server can use it; then it waits for the end of
// ctx. Run it on the leader alone.
func (s *Signing) Run(ctx context.Context) error {
	snap, any := s.Store.Snapshot(), false
	for k := range snap.SigningKeys(nil) {
		any = true
		if _, err := s.Keyring.signing(snap, k); err != nil {
			s.Log.Error("the cluster's signing key cannot be used by this server", "key", k.ID, logkey.Error, err)
		}
	}
	if any {
		<-ctx.Done()
		return nil
	}
	id := ids.New()
	if active := snap.ActiveDataKey(nil); active != nil {
		id = active.ID
	}
	cmd, err := newSigningKey(id, func(name string, m redact.Map) ([]byte, error) {
		return s.Keyring.Seal(snap, name, m)
	})
	if err != nil {
		return err
	}
	if _, _, err := s.Proposer.Propose(ctx, cmd); err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// newSigningKey makes a pair. Made beside a data key it has that one's id, and goes with it.
func newSigningKey(id string, seal func(name string, m redact.Map) ([]byte, error)) (*keys.SigningKeyPut, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", "a signing key")
	}
	sealed, err := seal(sealedName(id),
		redact.MapOf(map[string]string{privatePart: base64.StdEncoding.EncodeToString(private.Seed())}))
	if err != nil {
		return nil, err
	}
	return &keys.SigningKeyPut{ID: id, Algorithm: EdDSA, Public: public, Sealed: sealed}, nil
}

// signing opens the private parts of a signing key, and makes sure that they belong to the public ones.
func (k *Keyring) signing(s *state.Snap, key *state.SigningKey) (out workload.Key, err error) {
	m, err := k.Open(s, sealedName(key.ID), key.Sealed)
	if err != nil {
		return out, fault.WithHint(fault.Wrap(err, fault.Internal, "open", "signing key "+key.ID),
			"restore "+k.path+" from a copy")
	}
	parts := m.Reveal()
	seed, err := base64.StdEncoding.DecodeString(parts[privatePart])
	if err != nil || len(seed) != ed25519.SeedSize {
		return out, fault.New(fault.Internal, "open", "signing key "+key.ID, "what is sealed in it is no key")
	}
	out.ID, out.Private = key.ID, ed25519.NewKeyFromSeed(seed)
	if !out.Private.Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(key.Public)) {
		return out, fault.New(fault.Internal, "open", "signing key "+key.ID,
			"its private part does not belong to its public part")
	}
	out.RSA, err = privateRSA(key, parts)
	return out, err
}

func sealedName(id string) string { return "signing key " + id }

// Signer signs identities of tasks with the cluster's key. It opens the private parts once.
type Signer struct {
	Keyring  *Keyring
	Store    *state.Store
	Proposer fsm.Proposer

	making sync.Mutex // of an RSA pair

	mu   sync.Mutex
	last *state.SigningKey // that last was opened
	key  workload.Key
}

// Sign makes the identity that a statement asks for, with the key that the state names: those that are for others are
// signed with its RSA pair.
func (s *Signer) Sign(ctx context.Context, snap *state.Snap, of *workload.Statement) (redact.Secret, error) {
	if workload.ForOthers(of.Identity) {
		var err error
		if snap, err = s.withRSA(ctx, snap); err != nil {
			return redact.Secret{}, err
		}
	}
	k, err := s.opened(snap)
	if err != nil {
		return redact.Secret{}, err
	}
	return k.Sign(of)
}

func (s *Signer) opened(snap *state.Snap) (workload.Key, error) {
	of := keys.Signs(snap)
	if of == nil {
		return workload.Key{}, fault.WithHint(
			fault.New(fault.NotReady, "sign", "identities", "the cluster has no key yet"),
			"the server that leads makes one; try again")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.last.ID != of.ID || !slices.Equal(s.last.Public, of.Public) ||
		!slices.Equal(s.last.RSA, of.RSA) {
		key, err := s.Keyring.signing(snap, of)
		if err != nil {
			return workload.Key{}, err
		}
		s.last, s.key = of, key
	}
	return s.key, nil
}
