package server

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/datakey"
	"berth/internal/model/trust"
	"berth/internal/port/raftlog"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/keyring"
	"berth/internal/server/state"
)

// before makes the directory of a server from before there were data keys: what it sealed, with its own key, is in its
// log.
func before(t *testing.T, dir string) (ring *keyring.Keyring, signing string) {
	t.Helper()
	ring, err := keyring.Create(filepath.Join(dir, "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	none := state.New().Snapshot()
	seal := func(name, key, value string) []byte {
		sealed, err := ring.Seal(none, name, redact.MapOf(map[string]string{key: value}))
		if err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	store := state.New()
	log := raftlog.New(raftlog.Config{
		Dir:         filepath.Join(dir, "raft"),
		ID:          "server",
		SegmentSize: 1 << 20,
		Reserve:     1 << 20,
	}, fsm.New(store))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx) }()
	for lead, changed := log.Leadership(); !lead.Leading; lead, changed = log.Leadership() {
		<-changed
	}
	signing = ids.New()
	for _, cmd := range []fsm.Command{
		&fsm.Bootstrap{ClusterID: ids.New(), Incarnation: ids.New(), Schema: joining.Schema},
		&keys.SigningKeyPut{
			ID:        signing,
			Algorithm: keyring.EdDSA,
			Public:    public,
			Sealed: seal("signing key "+signing, "private",
				base64.StdEncoding.EncodeToString(private.Seed())),
		},
		&fsm.SecretPut{Name: "db", Data: seal("db", "password", "canary-31")},
	} {
		data, err := fsm.Encode(cmd, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := log.Apply(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return ring, signing
}

// keysOf are the keys of a running server, as a person has them changed.
func keysOf(t *testing.T, s running) *keyring.Keys {
	t.Helper()
	ring, err := keyring.Open(filepath.Join(s.cfg.DataDir, "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	return &keyring.Keys{
		Keyring:  ring,
		Store:    s.Store(),
		Proposer: s,
		Name:     s.cfg.Name,
		Log:      s.cfg.Log,
	}
}

// opened are the data keys of a state in clear, by the root key of a server: as they must be opened for ever.
func opened(t *testing.T, root []byte, s *state.Snap) [][]byte {
	t.Helper()
	seed, err := hkdf.Key(sha256.New, root, nil, "berth hpke key of a server", 32)
	if err != nil {
		t.Fatal(err)
	}
	private, err := hpke.DHKEM(ecdh.X25519()).DeriveKeyPair(seed)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for k := range s.DataKeys(nil) {
		info := "berth data key\x00" + s.Meta(nil).ClusterID + "\x00" + k.ID
		plain, err := hpke.Open(private, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(info), k.Wraps[0].Sealed)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, plain)
	}
	return out
}

// reached waits until the keys of a state are as they are wanted.
func reached(t *testing.T, s running, is func(*state.Snap, *state.Watch) bool) *state.Snap {
	t.Helper()
	for {
		w := state.NewWatch()
		if snap := s.Store().Snapshot(); is(snap, w) {
			return snap
		}
		if err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// sealedWith says whether all that is sealed in a state is sealed with one key.
func sealedWith(id string) func(*state.Snap, *state.Watch) bool {
	return func(s *state.Snap, w *state.Watch) bool {
		for _, e := range keys.Entries(s, w) {
			if !datakey.Under(e.Sealed, id) {
				return false
			}
		}
		return s.Authority(w) != nil && s.DataKey(w, id) != nil
	}
}

// Given the directory of a server from before there were data keys, when this version starts on it, then all that was
// sealed is sealed with a data key, opens as before, and opens for another server that it is wrapped for; started again
// it makes no other key.
func TestADirectoryFromBeforeDataKeysIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	ring, signing := before(t, dir)
	s := start(t, Config{DataDir: dir, Name: "server"})
	snap := reached(t, s, sealedWith(signing))
	if snap.Meta(nil).Schema < keys.Schema {
		t.Errorf("the cluster is at schema %d", snap.Meta(nil).Schema)
	}
	if n := len(keys.Entries(snap, nil)); n != 3 {
		t.Errorf("%d entries are sealed", n)
	}
	other, err := keyring.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if bad, all := other.Unopened(snap); len(bad) != all {
		t.Errorf("a server that nothing is wrapped for opens %d", all-len(bad))
	}
	wraps, err := ring.WrapFor(snap, "s2", other.Public())
	if err != nil || len(wraps.Wraps) != 1 {
		t.Fatalf("%+v, %v", wraps, err)
	}
	if _, _, err := s.Propose(t.Context(), wraps); err != nil {
		t.Fatal(err)
	}
	snap = s.Store().Snapshot()
	for name, k := range map[string]*keyring.Keyring{"the first": ring, "the second": other} {
		if bad, all := k.Unopened(snap); len(bad) > 0 || all != 4 || k.Opens(snap) != nil {
			t.Errorf("%s does not open %v of %d: %v", name, bad, all, k.Opens(snap))
		}
		m, err := k.Open(snap, "db", snap.Secret(nil, "db").Data)
		if err != nil || m.Reveal()["password"] != "canary-31" {
			t.Errorf("%s has %d values, %v", name, len(m), err)
		}
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{DataDir: dir, Name: "server"})
	n := 0
	for range s.Store().Snapshot().DataKeys(nil) {
		n++
	}
	if n != 1 {
		t.Errorf("there are %d data keys", n)
	}
}

// Given a server that joins with its public key, then the one that leads wraps the data keys for it without being
// asked, also those that are made later. One that is taken away has no wraps, and gets none; the last that can open a
// key stays.
func TestWhoJoinsCanOpenEveryDataKey(t *testing.T) {
	s := start(t, Config{DataDir: t.TempDir(), Name: "server"})
	other, err := keyring.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	token := &trust.Admission{
		ID:      "t",
		Hash:    []byte{1},
		Role:    trust.Server,
		Uses:    1,
		Expires: time.Now().Add(time.Hour),
	}
	for _, cmd := range []fsm.Command{
		&joining.AdmissionPut{Admission: *token},
		&joining.Join{
			Role:  trust.Server,
			ID:    "s2",
			Key:   "k",
			Token: "t",
			Hash:  []byte{1},
			Seal:  other.Public(),
		},
	} {
		if _, _, err := s.Propose(t.Context(), cmd); err != nil {
			t.Fatal(err)
		}
	}
	opens := func(count int) func(*state.Snap, *state.Watch) bool {
		return func(s *state.Snap, w *state.Watch) bool {
			n := 0
			for range s.DataKeys(w) {
				n++
			}
			return n == count && other.Opens(s) == nil
		}
	}
	reached(t, s, opens(1))
	k := keysOf(t, s)
	if _, _, err := k.Rotate(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	snap := reached(t, s, opens(2))
	if bad, _ := other.Unopened(snap); len(bad) > 0 {
		t.Errorf("it does not open %v", bad)
	}
	gone, err := keyring.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	wraps, err := k.Keyring.WrapFor(snap, "s3", gone.Public())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Propose(t.Context(), wraps); err != nil || gone.Opens(s.Store().Snapshot()) != nil {
		t.Fatalf("%v, %v", err, gone.Opens(s.Store().Snapshot()))
	}
	if _, err := k.Unwrap(t.Context(), "s3"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Rotate(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for key := range reached(t, s, opens(3)).DataKeys(nil) {
		if key.For(gone.Public()) != nil {
			t.Errorf("it can open %s", key.ID)
		}
	}
	last := &keys.Unwrap{Holders: []datakey.Holder{
		{Kind: datakey.Server, Name: "server"},
		{Kind: datakey.Server, Name: "s2"},
	}}
	if _, _, err := s.Propose(t.Context(), last); err == nil {
		t.Error("no server can open the keys any more")
	}
}

// Given sealed entries, when the keys are rotated, then the cluster signs and seals with the new ones, and the old one
// cannot be removed while anything is sealed with it: it says how much. Rotated in full, nothing is, and it goes with
// the signing key that came with it.
func TestARotatedKeyGoesWhenNothingIsSealedWithIt(t *testing.T) {
	dir := t.TempDir()
	_, first := before(t, dir)
	s := start(t, Config{DataDir: dir, Name: "server"})
	reached(t, s, sealedWith(first))
	k := keysOf(t, s)
	if _, err := k.Remove(t.Context(), first); err == nil {
		t.Error("the active key was removed")
	}
	second, _, err := k.Rotate(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	snap := s.Store().Snapshot()
	if snap.ActiveDataKey(nil).ID != second.ID || snap.SigningKey(nil, second.ID) == nil ||
		snap.DataKey(nil, first).State != datakey.Inactive {
		t.Errorf("the first is %+v", snap.DataKey(nil, first))
	}
	if _, err := k.Remove(t.Context(), first); err == nil ||
		!bytes.Contains([]byte(err.Error()), []byte("entries sealed with it: 3")) {
		t.Errorf("it is removed with %v", err)
	}
	third, _, err := k.Rotate(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	snap = s.Store().Snapshot()
	if !sealedWith(third.ID)(snap, nil) || snap.DataKey(nil, first).State != datakey.Deprecated {
		t.Errorf("the first is %+v", snap.DataKey(nil, first))
	}
	if bad, _ := k.Keyring.Unopened(snap); len(bad) > 0 {
		t.Errorf("it does not open %v", bad)
	}
	late, err := k.Keyring.Seal(snap, "late", redact.MapOf(map[string]string{"a": "b"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Remove(t.Context(), first); err != nil {
		t.Error(err)
	}
	snap = s.Store().Snapshot()
	if snap.DataKey(nil, first) != nil || snap.SigningKey(nil, first) != nil {
		t.Error("it is still there")
	}
	// What was sealed with a key that has gone since is not stored.
	copy(late[1:], first)
	if _, _, err := s.Propose(t.Context(), &fsm.SecretPut{Name: "late", Data: late}); err == nil {
		t.Error("what nobody can open was stored")
	}
}

// Given a server that has sealed secrets, then no data key is in clear in its directory, and none in a saved state.
func TestDataKeysNeverReachTheDiskInClear(t *testing.T) {
	dir := t.TempDir()
	before(t, dir)
	s := start(t, Config{DataDir: dir, Name: "server"})
	if _, _, err := keysOf(t, s).Rotate(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if err := s.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	root, err := os.ReadFile(filepath.Join(dir, "keyring", "root.key"))
	if err != nil {
		t.Fatal(err)
	}
	plain := opened(t, root, s.Store().Snapshot())
	if len(plain) != 2 {
		t.Fatalf("%d keys", len(plain))
	}
	saved := persisted(t, s.Store().Snapshot())
	files := 0
	for _, key := range append(plain, root, []byte("canary-31")) {
		if bytes.Contains(saved, key) {
			t.Error("the saved state shows a key")
		}
		err := filepath.WalkDir(filepath.Join(dir, "raft"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			files++
			data, err := os.ReadFile(path)
			if bytes.Contains(data, key) {
				t.Errorf("%s shows a key", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 8 {
		t.Errorf("only %d files were looked at", files)
	}
}
