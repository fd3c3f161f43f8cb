package server

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/datakey"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/recovery"
	"berth/internal/server/keyring"
	"berth/internal/server/state"
)

// recoveryHolders are the recovery keys that can open every data key of a state.
func recoveryHolders(s *state.Snap, w *state.Watch) string {
	var out []datakey.Holder
	for k := range s.DataKeys(w) {
		for _, h := range k.Holders() {
			if h.Kind == datakey.Recovery {
				out = append(out, h)
			}
		}
	}
	return datakey.Join(out)
}

func loaded(t *testing.T, s *state.Snap) *state.Store {
	t.Helper()
	out := state.New()
	if err := out.Restore(bytes.NewReader(persisted(t, s))); err != nil {
		t.Fatal(err)
	}
	return out
}

// Given a new cluster that nobody has named recovery keys for, then it makes one and says where; a state of it opens
// with that key in a cluster that knows none of its servers, and is then one that the present server opens. Without the
// key, and with another, it stays closed.
func TestARecoveryKeyOpensAStateElsewhere(t *testing.T) {
	dir := t.TempDir()
	before(t, dir)
	s := start(t, Config{DataDir: dir, Name: "server"})
	first := ""
	for k := range s.Store().Snapshot().DataKeys(nil) {
		first = k.ID
	}
	snap := reached(t, s, sealedWith(first))
	path := filepath.Join(dir, "keyring", "recovery.key")
	key, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if recoveryHolders(snap, nil) == "" {
		t.Error("nothing is wrapped for it")
	}
	elsewhere := start(t, Config{DataDir: t.TempDir(), Name: "another"})
	k, present := keysOf(t, elsewhere), elsewhere.Store().Snapshot()
	wrong := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	for _, text := range []string{"", wrong} {
		saved := loaded(t, snap)
		if err := k.Rewrap(saved, present, text); err != nil {
			t.Fatal(err)
		}
		if bad, all := k.Keyring.Unopened(saved.Snapshot()); len(bad) != all {
			t.Errorf("with %q it opens %d of %d", text, all-len(bad), all)
		}
	}
	if err := k.Rewrap(loaded(t, snap), present, "half"); err == nil {
		t.Error("what is no key was taken")
	}
	saved := loaded(t, snap)
	if err := k.Rewrap(saved, present, string(key)); err != nil {
		t.Fatal(err)
	}
	now := saved.Snapshot()
	if bad, all := k.Keyring.Unopened(now); len(bad) > 0 || all != 4 {
		t.Errorf("of %d it does not open %v", all, bad)
	}
	m, err := k.Keyring.Open(now, "db", now.Secret(nil, "db").Data)
	if err != nil || m.Reveal()["password"] != "canary-31" {
		t.Errorf("%d values, %v", len(m), err)
	}
	if got := datakey.Join(now.DataKey(nil, first).Holders()); !strings.HasPrefix(got, "server another, recovery ") ||
		strings.Contains(got, "server server") {
		t.Errorf("it is for %s", got)
	}
}

// Given a saved state of the same cluster, when keys were rotated since, then what takes its place has the new ones,
// too, and what was sealed before and since opens.
func TestAStateThatIsPutBackKeepsTheKeysThatCameSince(t *testing.T) {
	s := start(t, Config{DataDir: t.TempDir(), Name: "server"})
	k := keysOf(t, s)
	snap := reached(t, s, func(s *state.Snap, w *state.Watch) bool {
		active := s.ActiveDataKey(w)
		return s.Authority(w) != nil && active != nil && s.SigningKey(w, active.ID) != nil
	})
	old := snap.ActiveDataKey(nil).ID
	since, _, err := k.Rotate(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	saved := loaded(t, snap)
	if err := k.Rewrap(saved, s.Store().Snapshot(), ""); err != nil {
		t.Fatal(err)
	}
	sealed, err := k.Keyring.Seal(s.Store().Snapshot(), "since", redact.MapOf(map[string]string{"a": "b"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recovery.Restored(saved, s.Store().Snapshot(), 0, &recovery.Begin{
		Incarnation: ids.New(),
		Mark:        "m",
		Cause:       "a restore",
		Schema:      fsm.Schema(),
	}); err != nil {
		t.Fatal(err)
	}
	now := saved.Snapshot()
	if m, err := k.Keyring.Open(now, "since", sealed); err != nil || m.Reveal()["a"] != "b" {
		t.Errorf("what was sealed since the state was saved: %v", err)
	}
	if bad, all := k.Keyring.Unopened(now); len(bad) > 0 || all != 5 {
		t.Errorf("of %d it does not open %v", all, bad)
	}
	for _, id := range []string{old, since.ID} {
		if now.SigningKey(nil, id) == nil {
			t.Errorf("what was signed with key %s is believed no more", id)
		}
	}
	if kept := now.DataKey(nil, since.ID); kept == nil || kept.State != datakey.Inactive ||
		now.ActiveDataKey(nil).ID != old {
		t.Errorf("the key that came since is %+v", kept)
	}
}

// Given recovery keys that the configuration names, then data keys are for them and for no other; with none, for
// servers alone, and no key is made.
func TestRecoveryKeysAreThoseOfTheConfiguration(t *testing.T) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text := base64.StdEncoding.EncodeToString(private.PublicKey().Bytes())
	said, err := keyring.ParseRecovery([]string{text})
	if err != nil {
		t.Fatal(err)
	}
	none, err := keyring.ParseRecovery([]string{"none"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.ParseRecovery([]string{"none", text}); err == nil {
		t.Error("none was taken for a key")
	}
	dir, made := t.TempDir(), ""
	for i, c := range []struct {
		Recovery keyring.Recovery
		is       func(has string) bool
	}{
		{keyring.Recovery{}, func(has string) bool { made = has; return strings.Count(has, "recovery") == 1 }},
		{said, func(has string) bool { return strings.Count(has, "recovery") == 1 && has != made }},
		{keyring.Recovery{}, func(has string) bool { return strings.Count(has, "recovery") == 1 && has != made }},
		{none, func(has string) bool { return has == "" }},
	} {
		s := start(t, Config{DataDir: dir, Name: "server", Recovery: c.Recovery})
		reached(t, s, func(s *state.Snap, w *state.Watch) bool { return c.is(recoveryHolders(s, w)) })
		if err := s.stop(); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	dir = t.TempDir()
	start(t, Config{DataDir: dir, Name: "server", Recovery: none})
	if _, err := os.Stat(filepath.Join(dir, "keyring", "recovery.key")); err == nil {
		t.Error("a recovery key was made")
	}
}
