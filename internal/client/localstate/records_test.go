package localstate

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/lineage"
	"berth/internal/port/kv"
)

// Given a node's store in which one letter of a record of the node itself is another, when it is read, then it is
// refused with its path and what to do, and a check of the store names the record.
func TestADamagedRecordOfTheNodeItselfIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		word  string // of the record
		write func(*Store) error
		read  func(*Store) error
		named string
	}{
		"seen": {
			word:  "lineage-of-servers",
			write: func(s *Store) error { return s.PutSeen(lineage.Point{Incarnation: "lineage-of-servers"}, nil) },
			read:  func(s *Store) error { _, err := s.Seen(); return err },
			named: "client-meta/seen",
		},
		"home": {
			word:  "/home/of/records",
			write: func(s *Store) error { return s.PutHome("/home/of/records", nil) },
			read:  func(s *Store) error { _, err := s.Home(); return err },
			named: "client-meta/home",
		},
		"identity": {
			word: "secret-of-this-node",
			write: func(s *Store) error {
				return s.PutIdentity(Identity{"n1", redact.New("secret-of-this-node")}, redact.Secret{})
			},
			read:  func(s *Store) error { _, _, err := s.Identity(); return err },
			named: "client-meta/identity",
		},
		"session": {
			word:  "epoch-of-the-start",
			write: func(s *Store) error { return s.AcceptSession("epoch-of-the-start", lineage.Point{}) },
			read:  func(s *Store) error { _, err := s.BeginSession(); return err },
			named: "client-meta/session",
		},
		"metadata": {
			word: "rack-of-the-node",
			write: func(s *Store) error {
				value := "rack-of-the-node"
				return s.PutNodeMeta(map[string]*string{"rack": &value})
			},
			read:  func(s *Store) error { _, err := s.NodeMeta(); return err },
			named: "client-meta/node-meta",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "client")
			path := filepath.Join(dir, "client.db")
			s, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.write(s); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			other := "X" + c.word[1:]
			damaged := bytes.ReplaceAll(whole, []byte(c.word), []byte(other))
			if bytes.Equal(whole, damaged) {
				t.Fatalf("%q is not in the store", c.word)
			}
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			_, others, err := Check(dir)
			if err != nil || len(others) != 1 || !strings.Contains(others[0].Error(), c.named) ||
				!strings.Contains(others[0].Error(), path) {
				t.Errorf("the check says %v, %v", others, err)
			}
			if s, err = Open(dir); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			err = c.read(s)
			for _, said := range []string{path, c.named, "it is damaged", "Restore the file"} {
				if !fault.Has(err, fault.Internal) || !strings.Contains(err.Error(), said) {
					t.Errorf("it does not say %q: %v", said, err)
				}
			}
		})
	}
}

// Given a damaged record of an alloc's task, when a store is checked, then the alloc has it, and nothing else has.
func TestADamagedRecordOfATaskIsItsAllocs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "client")
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutTask("a1", "web", &Task{Attempt: 3}); err != nil {
		t.Fatal(err)
	}
	if err := s.KV.Update(func(tx *kv.Tx) error { return tx.Put(bucketTasks, "a2/web", "no task") }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	l, others, err := Check(dir)
	if err != nil || len(others) > 0 || len(l.Damaged) != 1 || l.Damaged["a2"] == nil ||
		l.Tasks["a1"]["web"].Attempt != 3 {
		t.Errorf("it holds %+v, and beside that %v: %v", l, others, err)
	}
}
