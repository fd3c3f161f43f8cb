package keyring_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"berth/internal/server/keyring"
	"berth/internal/testkit/localstate"
)

// Given a recovery key that was not moved away, when the servers start, then they say that it opens every secret if it
// does; of one that is damaged, or is another one, that it does not, by its path, why, and what to do. The check says
// the same.
func TestARecoveryKeyIsSaidToBeWhatItIs(t *testing.T) {
	const good, bad = "this file opens every secret", "does not open the secrets of the cluster"
	other := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)) + "\n"
	for name, c := range map[string]struct {
		text func(was string) string
		says []string
	}{
		"as it was made": {func(was string) string { return was }, []string{good, "move it to a safe place"}},
		"empty":          {func(string) string { return "" }, []string{bad, "it has 0 bytes"}},
		"half":           {func(was string) string { return was[:20] }, []string{bad, "a key has 32"}},
		"another one": {
			func(string) string { return other },
			[]string{bad, "which does not open", "recovery keys are"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ring, err := keyring.Create(dir)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "recovery.key")
			synctest.Test(t, func(t *testing.T) {
				cl := localstate.New(t)
				var said bytes.Buffer
				k := &keyring.Keys{
					Keyring:  ring,
					Store:    cl.Store,
					Proposer: cl,
					Name:     "s1",
					Log:      slog.New(slog.NewTextHandler(&said, nil)),
				}
				if err := k.Begin(t.Context()); err != nil {
					t.Fatal(err)
				}
				was, err := os.ReadFile(path)
				if err == nil {
					err = os.WriteFile(path, []byte(c.text(string(was))), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- k.Run(ctx) }()
				synctest.Wait()
				cancel()
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				for _, want := range append(c.says, path, "level=WARN") {
					if !strings.Contains(said.String(), want) {
						t.Errorf("it does not say %q: %s", want, &said)
					}
				}
				damaged := c.says[0] == bad
				if damaged && (strings.Contains(said.String(), good) || !strings.Contains(said.String(), "copy")) {
					t.Errorf("of a damaged key it says %s", &said)
				}
				for _, s := range []bool{true, false} {
					state := cl.Store.Snapshot()
					if !s {
						state = nil
					}
					there, err := keyring.CheckRecovery(dir, state)
					found := damaged && (s || name != "another one")
					if !there || (err != nil) != found || found && !strings.Contains(err.Error(), path) {
						t.Errorf("with a state: %v; the check says %v, %v", s, there, err)
					}
				}
			})
		})
	}
	if there, err := keyring.CheckRecovery(t.TempDir(), nil); there || err != nil {
		t.Errorf("where there is none: %v, %v", there, err)
	}
}
