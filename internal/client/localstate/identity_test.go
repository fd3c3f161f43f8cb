package localstate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/kv"
)

// identify opens the store beneath dir, asks who the node is and closes it.
func identify(t *testing.T, dir string, takeCopy bool) (Identity, bool, error) {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	id, taken, err := s.Identity(takeCopy)
	if cerr := s.Close(); cerr != nil {
		t.Fatal(cerr)
	}
	return id, taken, err
}

// known is identify where nothing may fail.
func known(t *testing.T, dir string, takeCopy, wantTaken bool) Identity {
	t.Helper()
	id, taken, err := identify(t, dir, takeCopy)
	if err != nil || taken != wantTaken || !ids.IsUUID(string(id.Node)) || id.Secret.Empty() {
		t.Fatalf("node %q, secret empty %v, taken %v, %v", id.Node, id.Secret.Empty(), taken, err)
	}
	return id
}

func loseStore(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "client.db")); err != nil {
		t.Fatal(err)
	}
}

func same(x, y Identity) bool { return x.Node == y.Node && x.Secret.Reveal() == y.Secret.Reveal() }

// Given a node whose store is there, then it stays who it is whatever the copy says, and the copy follows the store.
func TestTheCopyOfTheIdentityFollowsTheStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "client")
	path := dir + ".identity"
	first := known(t, dir, false, false)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"it is gone":     func() error { return os.Remove(path) },
		"it is garbage":  func() error { return os.WriteFile(path, []byte("garbage"), 0o600) },
		"it is another":  func() error { return copyOf(path, identity{Node: "other", Credential: []byte("other")}) },
		"nothing was up": func() error { return nil },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if got := known(t, dir, true, false); !same(got, first) {
			t.Errorf("%s: the node is %s, it was %s", name, got.Node, first.Node)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != string(good) {
			t.Errorf("%s: the copy does not follow the store: %v", name, err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
			t.Errorf("%s: the copy is %v, %v", name, st.Mode(), err)
		}
	}
}

func copyOf(path string, id identity) error {
	data, err := Codec.Encode(id)
	return errors.Join(err, os.WriteFile(path, data, 0o600))
}

// Given a lost store, when tasks of the node run, then it is the node that it was; without them it is another, and the
// copy is that one's.
func TestALostStoreKeepsItsIdentityForTasksThatRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "client")
	first := known(t, dir, false, false)
	loseStore(t, dir)
	if got := known(t, dir, true, true); !same(got, first) {
		t.Fatalf("with tasks the node is %s, it was %s", got.Node, first.Node)
	}
	if got := known(t, dir, false, false); !same(got, first) {
		t.Errorf("what was taken is not in the store: the node is %s", got.Node)
	}

	loseStore(t, dir)
	second := known(t, dir, false, false)
	if second.Node == first.Node || second.Secret.Reveal() == first.Secret.Reveal() {
		t.Fatal("without tasks the node is the same")
	}
	loseStore(t, dir)
	if got := known(t, dir, true, true); !same(got, second) {
		t.Errorf("the copy is that of %s, not of %s", got.Node, second.Node)
	}

	loseStore(t, dir)
	if err := os.Remove(dir + ".identity"); err != nil {
		t.Fatal(err)
	}
	if got := known(t, dir, true, false); got.Node == second.Node {
		t.Error("the node is the same with nothing left of it")
	}
}

// Given a lost store and a copy that tells nobody, when tasks of the node run, then that is refused with the way out,
// and neither the copy nor the store is given an identity of its own.
func TestADamagedCopyOfTheIdentityIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"no node":       func(p string) error { return copyOf(p, identity{Credential: []byte("secret")}) },
		"no credential": func(p string) error { return copyOf(p, identity{Node: "n"}) },
		"garbage":       func(p string) error { return os.WriteFile(p, []byte("garbage"), 0o600) },
		"nothing in it": func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"a directory":   func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "client")
			path := dir + ".identity"
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path) // a directory has none
			_, taken, err := identify(t, dir, true)
			if !fault.Has(err, fault.Internal) || taken || !strings.Contains(err.Error(), path) {
				t.Fatalf("taken %v, %v", taken, err)
			}
			if name != "a directory" && !strings.Contains(err.Error(), "restore the store from a copy") {
				t.Errorf("no way out: %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the copy was written over")
			}
			s, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			err = s.KV.View(func(tx *kv.Tx) error {
				var stored identity
				if ok, err := tx.Get(bucketMeta, keyIdentity, &stored); ok || err != nil {
					t.Errorf("the store has an identity: %v", err)
				}
				return nil
			})
			if err := errors.Join(err, s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
