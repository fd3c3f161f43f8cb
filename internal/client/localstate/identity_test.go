package localstate

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/lineage"
)

// opened opens the store beneath dir until the test ends, or until the function that it returns is called.
func opened(t *testing.T, dir string) (*Store, func()) {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, func() {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func same(x, y Identity) bool { return x.Node == y.Node && x.Secret.Reveal() == y.Secret.Reveal() }

// Given a node whose store is there, then it is who the store says whatever the copy says, and the copy follows the
// store, readable by its owner alone.
func TestTheCopyOfTheIdentityFollowsTheStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "client")
	path := dir + ".identity"
	first := Identity{Node: ids.Node(ids.New()), Secret: redact.New("secret")}
	s, end := opened(t, dir)
	if id, known, err := s.Identity(); err != nil || known || id.Node != "" {
		t.Fatalf("an empty store knows %q: %t, %v", id.Node, known, err)
	}
	if err := s.PutIdentity(first, redact.Secret{}); err != nil {
		t.Fatal(err)
	}
	end()
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
		s, end := opened(t, dir)
		if got, known, err := s.Identity(); err != nil || !known || !same(got, first) {
			t.Errorf("%s: the node is %s, it was %s: %t, %v", name, got.Node, first.Node, known, err)
		}
		if got, damaged, err := s.IdentityCopy(); err != nil || damaged || !same(got, first) {
			t.Errorf("%s: the copy is of %q: %t, %v", name, got.Node, damaged, err)
		}
		end()
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

// TestACopyThatTellsNobodyIsDamaged: what is there and names no node is not the same as nothing.
func TestACopyThatTellsNobodyIsDamaged(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"no node":       func(p string) error { return copyOf(p, identity{Credential: []byte("secret")}) },
		"no credential": func(p string) error { return copyOf(p, identity{Node: "n"}) },
		"garbage":       func(p string) error { return os.WriteFile(p, []byte("garbage"), 0o600) },
		"another letter": func(p string) error {
			data, err := Codec.EncodeFile(keyIdentity, identity{Node: "n", Credential: []byte("secret")})
			damaged := bytes.Replace(data, []byte("secret"), []byte("sEcret"), 1)
			return errors.Join(err, os.WriteFile(p, damaged, 0o600))
		},
		"nothing in it": func(p string) error { return os.WriteFile(p, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "client")
			s, end := opened(t, dir)
			defer end()
			if id, damaged, err := s.IdentityCopy(); id.Node != "" || damaged || err != nil {
				t.Fatalf("without a copy: %q, %t, %v", id.Node, damaged, err)
			}
			if err := spoil(dir + ".identity"); err != nil {
				t.Fatal(err)
			}
			if id, damaged, err := s.IdentityCopy(); id.Node != "" || !damaged || err != nil {
				t.Errorf("the node is %q, damaged %t, %v", id.Node, damaged, err)
			}
		})
	}
}

// TestATokenIsKeptUntilAStartIsAccepted: each start shows it, and none after the one that was accepted.
func TestATokenIsKeptUntilAStartIsAccepted(t *testing.T) {
	s, end := opened(t, filepath.Join(t.TempDir(), "client"))
	defer end()
	waits := func(want bool, when string) {
		t.Helper()
		if got, err := s.Readmits(); err != nil || got != want {
			t.Errorf("%s it waits: %t, %v", when, got, err)
		}
	}
	waits(false, "in an empty store")
	if err := s.PutIdentity(Identity{Node: "n", Secret: redact.New("s")}, redact.New("token")); err != nil {
		t.Fatal(err)
	}
	var c Session
	for range 2 {
		var err error
		if c, err = s.BeginSession(); err != nil || string(c.Readmit) != "token" {
			t.Fatalf("a start shows %q, %v", c.Readmit, err)
		}
	}
	waits(true, "before it is accepted")
	if err := s.AcceptSession(c.Tried[1], lineage.Point{}); err != nil {
		t.Fatal(err)
	}
	waits(false, "once it was accepted")
	if c, err := s.BeginSession(); err != nil || len(c.Readmit) > 0 || c.Accepted == "" {
		t.Errorf("the next start: %+v, %v", c, err)
	}
}
