package keyring

import (
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hpke"
	"crypto/sha256"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/model/datakey"
	"berth/internal/model/trust"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/state"
)

// Data keys are wrapped with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-256-GCM (RFC 9180).
var (
	kem  = hpke.DHKEM(ecdh.X25519())
	kdf  = hpke.HKDFSHA256()
	aead = hpke.AES256GCM()
)

// serverInfo tells the server's own key pair from all else that is derived of its root key.
const serverInfo = "berth hpke key of a server"

// ownKey is the key pair of a server: its root key gives it, so that nothing more need be kept.
func ownKey(root []byte) (hpke.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, root, nil, serverInfo, keySize)
	if err != nil {
		return nil, err
	}
	return kem.DeriveKeyPair(seed)
}

// Public is the key that data keys are wrapped with for this server: X25519, 32 bytes.
func (k *Keyring) Public() []byte { return k.own.PublicKey().Bytes() }

// wrapInfo binds a wrap to the key and the cluster that it is of.
func wrapInfo(cluster, key string) []byte {
	return []byte("berth data key\x00" + cluster + "\x00" + key)
}

func wrap(cluster, id string, plain []byte, to datakey.Recipient) (datakey.Wrap, error) {
	public, err := kem.NewPublicKey(to.Public)
	if err == nil {
		var sealed []byte
		if sealed, err = hpke.Seal(public, kdf, aead, wrapInfo(cluster, id), plain); err == nil {
			return datakey.Wrap{Recipient: to, Sealed: sealed}, nil
		}
	}
	return datakey.Wrap{}, fault.Wrap(err, fault.Invalid, "wrap data key "+id+" for", to.String())
}

// unwrap opens a data key of a cluster with a private key.
func unwrap(cluster string, key *datakey.Key, private hpke.PrivateKey) ([]byte, error) {
	w := key.For(private.PublicKey().Bytes())
	if w == nil {
		return nil, fault.New(fault.Denied, "open", "data key "+key.ID, "it is not wrapped for this server; "+
			"those who can open it: "+datakey.Join(key.Holders()))
	}
	plain, err := hpke.Open(private, kdf, aead, wrapInfo(cluster, key.ID), w.Sealed)
	if err == nil && len(plain) != keySize {
		err = fault.New(fault.Internal, "open", "data key "+key.ID, "what is wrapped is no key")
	}
	return plain, fault.Wrap(err, fault.Internal, "open", "data key "+key.ID)
}

// dataKey is a data key of a state, opened by this server's own key: when it is first needed, and then remembered.
func (k *Keyring) dataKey(s *state.Snap, id string) ([]byte, error) {
	key, m := s.DataKey(nil, id), s.Meta(nil)
	if key == nil || m == nil {
		return nil, fault.New(fault.NotFound, "open", "data key "+id, "the servers' state does not have it")
	}
	w := key.For(k.Public())
	if w != nil {
		// By the wrap itself: what a state does not let this server open is not opened from memory.
		if plain, ok := k.opened.Load(string(w.Sealed)); ok {
			return plain.([]byte), nil
		}
	}
	plain, err := unwrap(m.ClusterID, key, k.own)
	if err != nil {
		return nil, fault.WithHint(err, "restore "+k.path+" from a copy")
	}
	k.opened.Store(string(w.Sealed), plain)
	return plain, nil
}

// WrapFor lets another server open the data keys: the command that adds its wraps, by its name and its public key. It
// is also what Join takes, for a server that comes in. Without data keys there is nothing to add.
func (k *Keyring) WrapFor(s *state.Snap, name string, public []byte) (*keys.Wrap, error) {
	return k.missing(s, []datakey.Recipient{{
		Holder: datakey.Holder{Kind: datakey.Server, Name: name},
		Public: public,
	}})
}

// missing are the wraps that recipients need and a state does not have.
func (k *Keyring) missing(s *state.Snap, recipients []datakey.Recipient) (*keys.Wrap, error) {
	out := &keys.Wrap{}
	for key := range s.DataKeys(nil) {
		for _, to := range recipients {
			if key.Holds(to) {
				continue
			}
			plain, err := k.dataKey(s, key.ID)
			if err != nil {
				return nil, err
			}
			w, err := wrap(s.Meta(nil).ClusterID, key.ID, plain, to)
			if err != nil {
				return nil, err
			}
			out.Wraps = append(out.Wraps, keys.Wrapped{Key: key.ID, Wrap: w})
		}
	}
	return out, nil
}

// Opens says why this server cannot open the data keys of a state; nil: it can. One that cannot must not vote: it could
// be the last one.
func (k *Keyring) Opens(s *state.Snap) error {
	for key := range s.DataKeys(nil) {
		if _, err := k.dataKey(s, key.ID); err != nil {
			return err
		}
	}
	return nil
}

// recipients are who data keys of a state are for: the servers that have joined, and those that can open what is sealed
// with now. The last may be members from before servers had a record each, and the keys that people keep.
func recipients(s *state.Snap, w *state.Watch) []datakey.Recipient {
	var out []datakey.Recipient
	for m := range s.Members(w, trust.Server) {
		if len(m.Seal) > 0 && !m.Gone() {
			out = append(out, datakey.Recipient{
				Holder: datakey.Holder{Kind: datakey.Server, Name: m.ID},
				Public: m.Seal,
			})
		}
	}
	if active := s.ActiveDataKey(w); active != nil {
		for _, w := range active.Wraps {
			if !slices.ContainsFunc(out, func(r datakey.Recipient) bool { return r.Holder == w.Holder }) {
				out = append(out, w.Recipient)
			}
		}
	}
	return out
}
