package localstate

import (
	"errors"
	"io/fs"
	"os"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/port/kv"
)

// Identity is who this node is. The secret authenticates it.
type Identity struct {
	Node   ids.Node
	Secret redact.Secret
}

// identity is how it is stored, in files that only their owner can read.
type identity struct {
	Node       ids.Node
	Credential []byte
}

func (i identity) open() Identity {
	if i.Node == "" {
		return Identity{}
	}
	return Identity{Node: i.Node, Secret: redact.New(string(i.Credential))}
}

// copyPath is where the copy of the identity lies: beside the store's directory, so that it outlives that too.
func (s *Store) copyPath() string { return IdentityPath(s.dir) }

// IdentityPath is where the copy of the identity lies of the store beneath dir.
func IdentityPath(dir string) string { return dir + ".identity" }

// Identity returns who the node is; known is false if the store does not say. The copy beside the store follows it.
func (s *Store) Identity() (id Identity, known bool, err error) {
	var stored identity
	known, err = s.own(keyIdentity, &stored)
	if err == nil && known {
		err = s.writeCopy(stored)
	}
	return stored.open(), known, err
}

// PutIdentity writes down who the node is, in the store and then in the copy. readmit is the token by which the servers
// are to accept it although it follows none of its sessions; empty: it needs none.
func (s *Store) PutIdentity(id Identity, readmit redact.Secret) error {
	stored := identity{Node: id.Node, Credential: []byte(id.Secret.Reveal())}
	err := s.KV.Update(func(tx *kv.Tx) error {
		if err := tx.Put(bucketMeta, keyIdentity, stored); err != nil {
			return err
		}
		return tx.Put(bucketMeta, keySession, Session{Readmit: []byte(readmit.Reveal())})
	})
	if err != nil {
		return err
	}
	return s.writeCopy(stored)
}

// IdentityCopy returns what the copy beside the store says; its node is empty if there is none. damaged: there is one,
// and it says nothing.
func (s *Store) IdentityCopy() (id Identity, damaged bool, err error) {
	path := s.copyPath()
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Identity{}, false, nil
	case err != nil:
		return Identity{}, false, fault.Wrap(err, fault.Internal, "read", path)
	}
	var stored identity
	err = Codec.DecodeFile(keyIdentity, data, &stored)
	if err != nil || stored.Node == "" || len(stored.Credential) == 0 {
		return Identity{}, true, nil
	}
	return stored.open(), false, nil
}

// IdentityBeside is IdentityCopy of the store beneath dir, which need not be there.
func IdentityBeside(dir string) (id Identity, damaged bool, err error) {
	return (&Store{dir: dir}).IdentityCopy()
}

// NodeBeside returns whose store lies beneath dir, by the copy of its identity beside it; empty: it does not say.
func NodeBeside(dir string) (ids.Node, error) {
	id, _, err := IdentityBeside(dir)
	return id.Node, err
}

// writeCopy keeps the copy equal to the store, durably.
func (s *Store) writeCopy(id identity) error {
	path := s.copyPath()
	data, err := Codec.EncodeFile(keyIdentity, id)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "encode", path)
	}
	if old, err := os.ReadFile(path); err == nil && string(old) == string(data) {
		return nil
	}
	if err := durable.WriteFile(path, data, 0o600); err != nil {
		return fault.Wrap(err, fault.Internal, "write", path)
	}
	return nil
}
