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

// copyPath is where the copy of the identity lies: beside the store's directory, so that it outlives that too.
func (s *Store) copyPath() string { return s.dir + ".identity" }

// Identity returns the node's identity, made at the first call. A copy lies beside the store, so that a node whose
// store was lost under its running tasks is still the node that the servers know: takeCopy says that such tasks live,
// and taken that it happened. Without them a lost store means another node.
func (s *Store) Identity(takeCopy bool) (id Identity, taken bool, err error) {
	var stored identity
	err = s.KV.Update(func(tx *kv.Tx) error {
		ok, err := tx.Get(bucketMeta, keyIdentity, &stored)
		if err != nil || ok {
			return err
		}
		if taken, err = s.readCopy(takeCopy, &stored); err != nil {
			return err
		}
		if !taken {
			stored = identity{Node: ids.Node(ids.New()), Credential: []byte(ids.New())}
		}
		return tx.Put(bucketMeta, keyIdentity, stored)
	})
	if err == nil {
		err = s.writeCopy(stored)
	}
	return Identity{Node: stored.Node, Secret: redact.New(string(stored.Credential))}, taken, err
}

func (s *Store) readCopy(wanted bool, id *identity) (bool, error) {
	if !wanted {
		return false, nil
	}
	path := s.copyPath()
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fault.Wrap(err, fault.Internal, "read", path)
	}
	if err := Codec.Decode(data, id); err != nil || id.Node == "" || len(id.Credential) == 0 {
		return false,
			fault.WithHint(
				fault.New(fault.Internal, "read", path,
					"it is damaged, and the node's store is lost, while tasks of the node run"),
				"restore the store from a copy, or stop what runs, move both files away and start as another node")
	}
	return true, nil
}

// writeCopy keeps the copy equal to the store, durably.
func (s *Store) writeCopy(id identity) error {
	path := s.copyPath()
	data, err := Codec.Encode(id)
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
