package keyring_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/server/keyring"
	"berth/internal/server/state"
)

func open(t *testing.T, dir string) *keyring.Keyring {
	t.Helper()
	k, err := keyring.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// bare is a state without data keys: a server's own key seals in it.
func bare() *state.Snap { return state.New().Snapshot() }

func TestSecretsOpenWithTheSameKeyAndNameOnly(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	sealed, err := k.Seal(bare(), "vol", redact.MapOf(map[string]string{"user": "ann", "password": "canary-4711"}))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("canary")) || bytes.Contains(sealed, []byte("password")) {
		t.Error("the sealed form shows what it holds")
	}
	got, err := open(t, dir).Open(bare(), "vol", sealed) // another process, later
	if err != nil {
		t.Fatal(err)
	}
	if got.Reveal()["password"] != "canary-4711" || got.Reveal()["user"] != "ann" {
		t.Errorf("got %d values back", len(got))
	}
	if _, err := k.Open(bare(), "other", sealed); !fault.Has(err, fault.Internal) {
		t.Errorf("under another name: %v", err)
	}
	if _, err := open(t, t.TempDir()).Open(bare(), "vol", sealed); !fault.Has(err, fault.Internal) {
		t.Errorf("with another key: %v", err)
	}
	sealed[len(sealed)-1] ^= 1
	if _, err := k.Open(bare(), "vol", sealed); err == nil {
		t.Error("changed bytes were opened")
	}
}

func TestSealingTwiceNeverGivesTheSameBytes(t *testing.T) {
	k := open(t, t.TempDir())
	m := redact.MapOf(map[string]string{"a": "b"})
	x, err := k.Seal(bare(), "n", m)
	if err != nil {
		t.Fatal(err)
	}
	y, err := k.Seal(bare(), "n", m)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(x, y) {
		t.Error("equal secrets show as equal")
	}
}

func TestTheKeyFileIsGuarded(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	path := filepath.Join(dir, "root.key")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.Create(dir); !fault.Has(err, fault.Denied) {
		t.Errorf("a key that all may read was taken: %v", err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.Create(dir); !fault.Has(err, fault.Invalid) {
		t.Errorf("half a key was taken: %v", err)
	}
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.Create(dir); err == nil || !strings.Contains(err.Error(), "restore the file") {
		t.Errorf("a directory in its place: %v", err)
	}
}
