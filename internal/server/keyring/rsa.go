package keyring

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/workload"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/state"
)

// rsaPart names the private RSA key among what is sealed under a signing key's name, and rsaBits is its size.
const (
	rsaPart = "rsa"
	rsaBits = 2048
)

// withRSA is the key that the cluster signs with, with an RSA pair. It is made when first something is signed with it:
// that takes a while, and clusters that show nobody else who their tasks are need none. In a cluster whose servers do
// not all know such pairs the key is as it was.
func (s *Signer) withRSA(ctx context.Context, snap *state.Snap) (*state.Snap, error) {
	if m, k := snap.Meta(nil), keys.Signs(snap); m == nil || m.Schema < keys.SchemaRSA || k == nil || len(k.RSA) > 0 {
		return snap, nil
	}
	s.making.Lock()
	defer s.making.Unlock()
	snap = s.Store.Snapshot()
	k := keys.Signs(snap)
	if len(k.RSA) > 0 { // made while this one waited
		return snap, nil
	}
	cmd, err := s.Keyring.newRSA(snap, k)
	if err != nil {
		return nil, err
	}
	if _, _, err := fsm.Propose[*state.SigningKey](ctx, s.Proposer, cmd); err != nil {
		return nil, err
	}
	return s.Store.Snapshot(), nil
}

// newRSA makes the RSA pair of a signing key, sealed with the parts that the key has.
func (k *Keyring) newRSA(s *state.Snap, of *state.SigningKey) (*keys.RSAPut, error) {
	m, err := k.Open(s, sealedName(of.ID), of.Sealed)
	if err != nil {
		return nil, err
	}
	pair, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", "an RSA key")
	}
	parts := m.Reveal()
	sealed, err := k.Seal(s, sealedName(of.ID), redact.MapOf(map[string]string{
		privatePart: parts[privatePart],
		rsaPart:     base64.StdEncoding.EncodeToString(x509.MarshalPKCS1PrivateKey(pair)),
	}))
	if err != nil {
		return nil, err
	}
	return &keys.RSAPut{ID: of.ID, RSA: pair.N.Bytes(), Sealed: sealed, Seen: of.ModifyIndex}, nil
}

// privateRSA reads the RSA pair of a signing key out of its private parts, and makes sure that it belongs to the public
// one; nil: it has none.
func privateRSA(of *state.SigningKey, parts map[string]string) (*rsa.PrivateKey, error) {
	if len(of.RSA) == 0 {
		return nil, nil
	}
	der, err := base64.StdEncoding.DecodeString(parts[rsaPart])
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "open", "signing key "+of.ID)
	}
	pair, err := x509.ParsePKCS1PrivateKey(der)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "open", "signing key "+of.ID)
	}
	if string(pair.N.Bytes()) != string(of.RSA) || pair.E != workload.RSAExponent {
		return nil, fault.New(fault.Internal, "open", "signing key "+of.ID,
			"its private RSA part does not belong to its public part")
	}
	return pair, nil
}
