// Package kv owns the node-local durable store: one bbolt file in the data directory that holds what must survive the
// agent. Every committed transaction is on disk before it returns; a step's result and the next step's intent share
// one.
package kv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
)

// Codec turns records into CBOR that begins with no tag. Decode must refuse unknown fields: skipping one would lose
// state.
type Codec struct {
	Encode func(any) ([]byte, error)
	Decode func([]byte, any) error
}

// Store is one open file. It is safe for concurrent use; transactions that write are serialised, and those that wait
// for each other are committed together.
type Store struct {
	path  string
	codec Codec
	db    *bolt.DB
	queue queue
	sick  atomic.Pointer[error] // a failed write after which nothing more is written
	aside atomic.Int64          // the size of the file for which space was set aside
}

// Open opens or creates the file. The file is locked: a second opener gets fault.Busy.
func Open(path string, codec Codec) (*Store, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, classify(err, "create store", path)
		}
	}
	// A store of no bytes knows nothing; what follows from that its owner decides.
	if st, err := os.Stat(path); err == nil && st.Size() > 0 {
		if err := Check(path); err != nil {
			return nil, err
		}
	}
	db, err := open(path)
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, held(path)
	case err != nil:
		return nil, classify(err, "open store", path)
	}
	// Whoever made it may have been killed before its name was synced.
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		return nil, errors.Join(classify(err, "open store", path), db.Close())
	}
	s := &Store{path: path, codec: codec, db: db}
	if err := s.setAside(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func held(path string) error {
	return fault.WithHint(fault.New(fault.Busy, "open store", path, "another process holds it"),
		"stop the other agent or use another data_dir")
}

func open(path string) (*bolt.DB, error) {
	return bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Millisecond, FreelistType: bolt.FreelistMapType})
}

// create makes an empty store beside its place and moves it there: one that is half made could not be told from one
// that was damaged.
func create(path string) error {
	made := path + ".new"
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := open(made)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	return os.Rename(made, path)
}

// Close waits for open transactions and closes the file.
func (s *Store) Close() error { return s.db.Close() }

// Size of the file in bytes.
func (s *Store) Size() int64 {
	st, err := os.Stat(s.path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// View runs fn on a consistent state.
func (s *Store) View(fn func(*Tx) error) error {
	return s.db.View(func(tx *bolt.Tx) error { return fn(&Tx{tx: tx, codec: s.codec}) })
}

// Copy returns the store as it is at one moment, whole, in a file that has no name and that the caller closes, and how
// many bytes it has. It is written by the time that Copy returns, so that a slow reader of the copy keeps no writer of
// the store waiting.
func (s *Store) Copy() (copied *os.File, size int64, err error) {
	path := s.path + ".copy"
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, classify(err, "copy store", s.path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, 0, classify(err, "copy store", s.path)
	}
	err = os.Remove(path)
	if err == nil {
		err = s.db.View(func(tx *bolt.Tx) (err error) {
			size, err = tx.WriteTo(f)
			return err
		})
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(classify(err, "copy store", s.path), f.Close())
	}
	return f, size, nil
}

func classify(err error, op, path string) error {
	kind := fault.Internal
	hint := ""
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		kind, hint = fault.Exhausted, "free some room on its file system; nothing was lost"
	}
	return fault.WithHint(fault.Wrap(err, kind, op, path), hint)
}

// Tx is a transaction.
type Tx struct {
	tx    *bolt.Tx
	codec Codec
}

// Put stores a record under a key in a bucket.
func (t *Tx) Put(bucket, key string, v any) error {
	data, err := t.codec.Encode(v)
	if err != nil {
		return fmt.Errorf("encode %s/%s: %w", bucket, key, err)
	}
	b, err := t.tx.CreateBucketIfNotExists([]byte(bucket))
	if err != nil {
		return err
	}
	return b.Put([]byte(key), seal(bucket, key, data))
}

// Get reads a record; false when there is none.
func (t *Tx) Get(bucket, key string, v any) (bool, error) {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return false, nil
	}
	data := b.Get([]byte(key))
	if data == nil {
		return false, nil
	}
	data, err := unseal(bucket, key, data)
	if err == nil {
		err = t.codec.Decode(data, v)
	}
	if err != nil {
		return false, fmt.Errorf("decode %s/%s: %w", bucket, key, err)
	}
	return true, nil
}

// Delete removes a record; removing what is not there is no error.
func (t *Tx) Delete(bucket, key string) error {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.Delete([]byte(key))
}

// Keys lists a bucket's keys in order.
func (t *Tx) Keys(bucket string) []string {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	var out []string
	c := b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		out = append(out, string(k))
	}
	return out
}

// All reads every record of a bucket in key order. A record that does not decode is handed to bad (which may stop the
// walk by returning an error), never dropped in silence.
func All[T any](t *Tx, bucket string, each func(key string, v *T) error, bad func(key string, err error) error) error {
	for _, k := range t.Keys(bucket) {
		v := new(T)
		if _, err := t.Get(bucket, k, v); err != nil {
			if err := bad(k, err); err != nil {
				return err
			}
			continue
		}
		if err := each(k, v); err != nil {
			return err
		}
	}
	return nil
}
