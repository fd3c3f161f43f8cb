// Package keyring owns the keys that secrets are sealed with: those of volumes, and the private parts of the keys that
// the cluster signs with and of the authority that issues its certificates. Data keys lie in the replicated state,
// beside what is sealed with them, each wrapped for every server and for the recovery keys that people keep. What opens
// the wraps of a server, its root key, lies in a file of its data directory and never in the state. Only package server
// constructs it.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/datakey"
	"berth/internal/server/state"
	"berth/internal/wire"
)

const (
	keySize  = 32
	saltSize = 16
	keyFile  = "root.key"
)

// Keyring seals and opens sets of secrets.
type Keyring struct {
	root   []byte
	own    hpke.PrivateKey
	path   string
	opened sync.Map // data keys, []byte, by their wraps
}

// Create is Open, and makes the key where there is none: a file that only its owner may read, on disk before it is
// used.
func Create(dir string) (*Keyring, error) {
	if Missing(dir) {
		path := filepath.Join(dir, keyFile)
		root := make([]byte, keySize)
		_, _ = rand.Read(root) // crypto/rand.Read never fails
		if err := writeKey(dir, path, root); err != nil {
			return nil, fault.Wrap(err, fault.Internal, "make key", path)
		}
	}
	return Open(dir)
}

// Unstored is a key that is on no disk: it opens nothing that there is.
func Unstored() (*Keyring, error) {
	root := make([]byte, keySize)
	_, _ = rand.Read(root) // crypto/rand.Read never fails
	own, err := ownKey(root)
	return &Keyring{root: root, own: own, path: "a key that is on no disk"}, err
}

// Missing reports whether dir holds no root key: then Create makes one, and Open refuses.
func Missing(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, keyFile))
	return errors.Is(err, fs.ErrNotExist)
}

// Open reads the root key in dir. One that is missing or damaged is refused: another would open nothing.
func Open(dir string) (*Keyring, error) {
	path := filepath.Join(dir, keyFile)
	root, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.WithHint(
			fault.New(fault.Invalid, "open key", path, "it is missing, and what is sealed in the servers' state was "+
				"sealed with it; no other was made, and nothing was started"),
			"restore the file from a copy; without it no stored secret can be opened. Or, to begin with an empty state, "+
				"move "+filepath.Dir(dir)+" away: what runs goes on")
	}
	const restore = "restore the file from a copy; without it no stored secret can be opened"
	if err != nil {
		return nil, fault.WithHint(fault.Wrap(err, fault.Internal, "open key", path), restore)
	}
	if len(root) != keySize {
		return nil, fault.WithHint(
			fault.New(fault.Invalid, "open key", path,
				fmt.Sprintf("it has %d bytes, a key has %d", len(root), keySize)), restore)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "open key", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fault.WithHint(
			fault.New(fault.Denied, "open key", path, fmt.Sprintf("others may use it (mode %04o)", info.Mode().Perm())),
			"chmod 600 "+path)
	}
	own, err := ownKey(root)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "open key", path)
	}
	return &Keyring{root: root, own: own, path: path}, nil
}

// writeKey writes a new key beside its place and links it there, so that a crash leaves a whole key or none.
func writeKey(dir, path string, key []byte) error {
	if err := durable.MakeDir(dir, 0o700); err != nil {
		return err
	}
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(key)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(tmp, path) // fails if the key is there: it is never replaced
	}
	if err == nil {
		err = errors.Join(os.Remove(tmp), durable.SyncDir(dir))
	}
	return err
}

// Seal encrypts a set of secrets for the entry of that name, with the data key that is the active one of a state: bytes
// sealed under one name don't open under another. While a state has no data keys yet, the server's own key seals.
func (k *Keyring) Seal(s *state.Snap, name string, m redact.Map) ([]byte, error) {
	active := s.ActiveDataKey(nil)
	if active == nil {
		return seal(k.root, datakey.Root(), name, m)
	}
	key, err := k.dataKey(s, active.ID)
	if err != nil {
		return nil, fault.Note(err, "seal secrets", name)
	}
	return seal(key, datakey.Head(active.ID), name, m)
}

func seal(key, head []byte, name string, m redact.Map) ([]byte, error) {
	plain, err := wire.Encode(m.Reveal())
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "seal secrets", name)
	}
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt)
	aead, err := newCipher(key, name, salt)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "seal secrets", name)
	}
	// The key is made for this one message, by its salt: a fixed nonce is used once with it.
	return aead.Seal(append(head, salt...), make([]byte, aead.NonceSize()), plain, []byte(name)), nil
}

// Open decrypts what Seal made under the same name, with the data keys of a state.
func (k *Keyring) Open(s *state.Snap, name string, sealed []byte) (redact.Map, error) {
	plain, err := k.open(s, name, sealed)
	if err != nil {
		return nil, fault.WithHint(fault.Wrap(err, fault.Internal, "open secrets", name),
			"they were sealed with another key than "+k.path+" opens; register them again")
	}
	var m map[string]string
	if err := wire.DecodeStrict(plain, &m); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "open secrets", name)
	}
	return redact.MapOf(m), nil
}

func (k *Keyring) open(s *state.Snap, name string, sealed []byte) ([]byte, error) {
	id, rest, ok := datakey.Split(sealed)
	if !ok || len(rest) < saltSize {
		return nil, errors.New("the stored form is not known")
	}
	key := k.root
	if id != "" {
		var err error
		if key, err = k.dataKey(s, id); err != nil {
			return nil, err
		}
	}
	aead, err := newCipher(key, name, rest[:saltSize])
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, make([]byte, aead.NonceSize()), rest[saltSize:], []byte(name))
}

// newCipher is that of one sealed entry.
func newCipher(root []byte, name string, salt []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, root, salt, "berth secrets "+name, keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
