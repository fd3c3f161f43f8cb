// Package keyring owns the key that secrets are sealed with. The key lies in a file of the data directory and never in
// the replicated state; what it sealed lies in the state and is of no use without it: secrets of volumes, and the
// private parts of the key that the cluster signs with and of the authority that issues its certificates. Only package
// server constructs it.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/wire"
)

const (
	keySize  = 32
	saltSize = 16
	keyFile  = "root.key"
	// format is the first byte of everything sealed.
	format = 1
)

// Keyring seals and opens sets of secrets.
type Keyring struct {
	root []byte
	path string
}

// Create is Open, and makes the key where there is none: a file that only its owner may read, on disk before it is
// used.
func Create(dir string) (*Keyring, error) {
	if Missing(dir) {
		path := filepath.Join(dir, keyFile)
		if err := create(dir, path); err != nil {
			return nil, fault.Wrap(err, fault.Internal, "make key", path)
		}
	}
	return Open(dir)
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
	return &Keyring{root: root, path: path}, nil
}

// create writes a new key beside its place and links it there, so that a crash leaves a whole key or none.
func create(dir, path string) error {
	if err := durable.MakeDir(dir, 0o700); err != nil {
		return err
	}
	root := make([]byte, keySize)
	_, _ = rand.Read(root) // crypto/rand.Read never fails
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(root)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(tmp, path) // fails if the key is there: it is never replaced
	}
	if err == nil {
		err = errors.Join(os.Remove(tmp), durable.SyncDir(dir))
	}
	return err
}

// Seal encrypts a set of secrets for the entry of that name: bytes sealed under one name don't open under another.
func (k *Keyring) Seal(name string, m redact.Map) ([]byte, error) {
	plain, err := wire.Encode(m.Reveal())
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "seal secrets", name)
	}
	head := make([]byte, 1+saltSize)
	head[0] = format
	_, _ = rand.Read(head[1:])
	aead, err := k.cipher(name, head[1:])
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "seal secrets", name)
	}
	// The key is made for this one message, by its salt: a fixed nonce is used once with it.
	return aead.Seal(head, make([]byte, aead.NonceSize()), plain, []byte(name)), nil
}

// Open decrypts what Seal made under the same name.
func (k *Keyring) Open(name string, sealed []byte) (redact.Map, error) {
	broken := func(err error) error {
		return fault.WithHint(fault.Wrap(err, fault.Internal, "open secrets", name),
			"they were sealed with another key than "+k.path+"; register them again")
	}
	if len(sealed) < 1+saltSize || sealed[0] != format {
		return nil, broken(errors.New("the stored form is not known"))
	}
	salt, body := sealed[1:1+saltSize], sealed[1+saltSize:]
	aead, err := k.cipher(name, salt)
	if err != nil {
		return nil, broken(err)
	}
	plain, err := aead.Open(nil, make([]byte, aead.NonceSize()), body, []byte(name))
	if err != nil {
		return nil, broken(err)
	}
	var m map[string]string
	if err := wire.DecodeStrict(plain, &m); err != nil {
		return nil, broken(err)
	}
	return redact.MapOf(m), nil
}

func (k *Keyring) cipher(name string, salt []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, k.root, salt, "berth secrets "+name, keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
