package keyring

import (
	"bytes"
	"cmp"
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/datakey"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/state"
)

// recoveryFile is the recovery key that a server makes where nobody has said what the recovery keys are.
const recoveryFile = "recovery.key"

// Recovery says which keys of people open the data keys beside the servers. The zero value says nothing: what there is
// stays, and a new cluster gets a key.
type Recovery struct {
	Said bool     // Keys are all that there are, be it none
	Keys [][]byte // public, X25519
}

// noRecovery is the word for that there is no recovery key.
const noRecovery = "none"

// RecoveryOf reads the value of a configuration: a list for ParseRecovery, or the word none without one; nil: nothing
// is said.
func RecoveryOf(said any) (Recovery, error) {
	switch said := said.(type) {
	case nil:
		return Recovery{}, nil
	case string:
		if said == noRecovery {
			return Recovery{Said: true}, nil
		}
		return Recovery{}, fault.WithHint(
			fault.New(fault.Invalid, "read", fmt.Sprintf("recovery keys %q", said), "it is no list"), recoveryHint)
	case []any:
		words := make([]string, 0, len(said))
		for _, one := range said {
			text, ok := one.(string)
			if !ok {
				return Recovery{}, fault.WithHint(
					fault.New(fault.Invalid, "read", fmt.Sprintf("recovery key %v", one), "it is no text"),
					recoveryHint)
			}
			words = append(words, text)
		}
		return ParseRecovery(words)
	}
	return Recovery{}, fault.WithHint(
		fault.New(fault.Invalid, "read", fmt.Sprintf("recovery keys %v", said), "it is no list"), recoveryHint)
}

const recoveryHint = `write a list of public keys, 32 bytes each in base64, or recovery = "none"`

// ParseRecovery reads a list: public keys in base64, or the one word none.
func ParseRecovery(said []string) (Recovery, error) {
	if len(said) == 0 {
		return Recovery{}, nil
	}
	if len(said) == 1 && said[0] == noRecovery {
		return Recovery{Said: true}, nil
	}
	out := Recovery{Said: true}
	for _, text := range said {
		public, err := base64.StdEncoding.DecodeString(text)
		if err == nil {
			_, err = ecdh.X25519().NewPublicKey(public)
		}
		if err != nil {
			return Recovery{}, fault.WithHint(
				fault.New(fault.Invalid, "read", "recovery key "+text, "it is no public key of X25519 in base64"),
				recoveryHint)
		}
		out.Keys = append(out.Keys, public)
	}
	return out, nil
}

// recipient is who has a recovery key: named by the beginning of its hash.
func recoveryRecipient(public []byte) datakey.Recipient {
	sum := sha256.Sum256(public)
	return datakey.Recipient{
		Holder: datakey.Holder{Kind: datakey.Recovery, Name: hex.EncodeToString(sum[:8])},
		Public: public,
	}
}

// apply makes the recovery keys among recipients those that were said.
func (r Recovery) apply(to []datakey.Recipient) []datakey.Recipient {
	if !r.Said {
		return to
	}
	to = slices.DeleteFunc(to, func(r datakey.Recipient) bool { return r.Kind == datakey.Recovery })
	for _, public := range r.Keys {
		to = append(to, recoveryRecipient(public))
	}
	return to
}

// surplus takes away what is wrapped for recovery keys that are not said any more; nil: nothing is.
func (r Recovery) surplus(s *state.Snap) *keys.Unwrap {
	if !r.Said {
		return nil
	}
	out := &keys.Unwrap{}
	for k := range s.DataKeys(nil) {
		for i := range k.Wraps {
			w := &k.Wraps[i]
			said := slices.ContainsFunc(r.Keys, func(public []byte) bool { return bytes.Equal(public, w.Public) })
			if w.Kind == datakey.Recovery && !said && !slices.Contains(out.Holders, w.Holder) {
				out.Holders = append(out.Holders, w.Holder)
			}
		}
	}
	if len(out.Holders) == 0 {
		return nil
	}
	return out
}

func (k *Keyring) recoveryPath() string { return filepath.Join(filepath.Dir(k.path), recoveryFile) }

// makeRecovery is the public part of the recovery key in its file, which is made where it is missing: on disk before
// anything is wrapped for it.
func (k *Keyring) makeRecovery() ([]byte, error) {
	path := k.recoveryPath()
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		plain := make([]byte, keySize)
		_, _ = rand.Read(plain) // crypto/rand.Read never fails
		text := base64.StdEncoding.EncodeToString(plain) + "\n"
		if err := writeKey(filepath.Dir(path), path, []byte(text)); err != nil {
			return nil, fault.Wrap(err, fault.Internal, "make key", path)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read key", path)
	}
	private, err := parseRecoveryKey(string(text))
	if err != nil {
		return nil, fault.Note(err, "read key", path)
	}
	return private.PublicKey().Bytes(), nil
}

// CheckRecovery says why the recovery key that lies in dir does not open the data keys of a state. Without a state, or
// without data keys in it, the file is read alone. there: it has not been moved to a safe place.
func CheckRecovery(dir string, s *state.Snap) (there bool, err error) {
	path := filepath.Join(dir, recoveryFile)
	if !exists(path) {
		return false, nil
	}
	return true, fault.WithHint(recovers(path, s), "nobody can open the cluster's secrets with it; put the copy back "+
		`that was kept of it, or name another key in keyring { recovery = ["…"] } of every server's configuration, for `+
		"which all data keys are wrapped then, and delete this file")
}

func recovers(path string, s *state.Snap) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read recovery key", path)
	}
	private, err := parseRecoveryKey(string(text))
	if err != nil {
		return fault.Note(err, "read recovery key", path)
	}
	if s == nil {
		return nil
	}
	var closed []string
	var is []datakey.Holder
	for key := range s.DataKeys(nil) {
		if _, err := unwrap(s.Meta(nil).ClusterID, key, private); err != nil {
			closed = append(closed, key.ID)
		}
		for _, h := range key.Holders() {
			if h.Kind == datakey.Recovery && !slices.Contains(is, h) {
				is = append(is, h)
			}
		}
	}
	if len(closed) == 0 {
		return nil
	}
	own := recoveryRecipient(private.PublicKey().Bytes()).String()
	return fault.New(fault.Invalid, "open", "data keys", fmt.Sprintf("%s is the key %s, which does not open %s; "+
		"the cluster's recovery keys are: %s", path, own, strings.Join(closed, ", "), cmp.Or(datakey.Join(is), "none")))
}

// parseRecoveryKey reads the private part of a recovery key: 32 bytes in base64.
func parseRecoveryKey(text string) (hpke.PrivateKey, error) {
	plain, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace([]byte(text))))
	if err == nil && len(plain) != keySize {
		err = fmt.Errorf("it has %d bytes, a key has %d", len(plain), keySize)
	}
	if err != nil {
		return nil, fault.WithHint(fault.Wrap(err, fault.Invalid, "read", "a recovery key"),
			"give the file that the first server has made as "+recoveryFile+", or a key of X25519 in base64")
	}
	return kem.NewPrivateKey(plain)
}

// Rewrap makes a saved state one that the present servers can open, before it takes the place of theirs: what any of
// them, or a recovery key (empty: none), opens of it is wrapped for all of them. What nobody here opens stays as it is.
func (k *Keys) Rewrap(saved *state.Store, present *state.Snap, recovery string) error {
	var other hpke.PrivateKey
	if recovery != "" {
		var err error
		if other, err = parseRecoveryKey(recovery); err != nil {
			return err
		}
	}
	s := saved.Snapshot()
	var next []*datakey.Key
	for key := range s.DataKeys(nil) {
		plain, err := k.openSaved(s, present, key, other)
		if err != nil {
			continue // whoever restores is told what stays closed
		}
		now, err := rewrapped(s, key, plain, k.recipients(present, nil))
		if err != nil {
			return err
		}
		next = append(next, now)
	}
	st := s.Stamp()
	st.Index++
	return saved.Write(st, func(tx *state.Tx) error {
		for _, key := range next {
			tx.PutDataKey(key)
		}
		return nil
	})
}

func (k *Keys) openSaved(
	saved, present *state.Snap, key *datakey.Key, other hpke.PrivateKey,
) ([]byte, error) {
	plain, err := k.Keyring.dataKey(saved, key.ID)
	if err == nil {
		return plain, nil
	}
	if plain, err := k.Keyring.dataKey(present, key.ID); err == nil {
		return plain, nil
	}
	if other != nil {
		return unwrap(saved.Meta(nil).ClusterID, key, other)
	}
	return nil, err
}

// rewrapped is a key of a saved state as it is for the present servers: those that it was for then are not, and the
// recovery keys are as they were.
func rewrapped(saved *state.Snap, key *datakey.Key, plain []byte, to []datakey.Recipient) (*datakey.Key, error) {
	var gone []datakey.Holder
	for _, h := range key.Holders() {
		if h.Kind == datakey.Server {
			gone = append(gone, h)
		}
	}
	var wraps []datakey.Wrap
	for _, r := range to {
		w, err := wrap(saved.Meta(nil).ClusterID, key.ID, plain, r)
		if err != nil {
			return nil, err
		}
		wraps = append(wraps, w)
	}
	return key.Without(gone...).With(wraps...), nil
}
