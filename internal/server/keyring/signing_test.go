package keyring_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/server/keyring"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// lead lets the keyring's part lead until there is a key and the log says what is wanted, and returns the key.
func lead(t *testing.T, c *localstate.Cluster, k *keyring.Keyring, says string) *state.SigningKey {
	t.Helper()
	var said safeBuffer
	s := &keyring.Signing{Keyring: k, Store: c.Store, Proposer: c, Log: slog.New(slog.NewTextHandler(&said, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var key *state.SigningKey
	for deadline := time.Now().Add(time.Minute); key == nil ||
		!strings.Contains(said.String(), says); time.Sleep(time.Millisecond) {
		for found := range c.Store.Snapshot().SigningKeys(nil) {
			key = found
		}
		if time.Now().After(deadline) {
			t.Fatalf("the key is %+v, the log says %q", key, said.String())
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if says == "" && said.String() != "" {
		t.Errorf("the log says %q", said.String())
	}
	return key
}

func TestAClusterHasOneSigningKeyForGood(t *testing.T) {
	c, k := localstate.New(t), open(t, t.TempDir())
	first := lead(t, c, k, "")
	m, err := k.Open(c.Store.Snapshot(), "signing key "+first.ID, first.Sealed)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := base64.StdEncoding.DecodeString(m.Reveal()["private"])
	if err != nil || len(seed) != ed25519.SeedSize {
		t.Fatalf("%d bytes of a private key, %v", len(seed), err)
	}
	message := []byte("signed")
	if !ed25519.Verify(first.Public, message, ed25519.Sign(ed25519.NewKeyFromSeed(seed), message)) {
		t.Error("the private part does not belong to the public one")
	}
	if bytes.Contains(first.Sealed, seed) || first.Algorithm != keyring.EdDSA || first.Created.IsZero() {
		t.Errorf("the key is %+v", first)
	}
	if again := lead(t, c, k, ""); again.ID != first.ID || !bytes.Equal(again.Public, first.Public) {
		t.Errorf("the next leader made another key: %+v", again)
	}
	other := lead(t, c, open(t, t.TempDir()), "cannot be used by this server")
	if other.ID != first.ID {
		t.Errorf("a server that cannot open the key replaced it: %+v", other)
	}
}

// safeBuffer may be read while it is written.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
