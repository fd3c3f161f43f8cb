package saved_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/base/savefile"
	"berth/internal/server/fsm"
	"berth/internal/server/keyring"
	"berth/internal/server/saved"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

func created(t *testing.T) *keyring.Keyring {
	t.Helper()
	k, err := keyring.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func file(t *testing.T, s *state.Snap) []byte {
	t.Helper()
	var data bytes.Buffer
	if err := s.Persist(&data); err != nil {
		t.Fatal(err)
	}
	out, err := savefile.Encode(savefile.Meta{ClusterID: "c"}, data.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Given a saved state with sealed secrets, then servers with the key that sealed them take it; those with another do
// not, though a part of it may open, and hear of the ways out; nor is anything taken that is no state.
func TestWhichSavedStatesAreTaken(t *testing.T) {
	own, other := created(t), created(t)
	c := localstate.New(t)
	put := func(name string, k *keyring.Keyring) {
		t.Helper()
		data, err := k.Seal(c.Store.Snapshot(), name, redact.MapOf(map[string]string{"password": name}))
		if err != nil {
			t.Fatal(err)
		}
		c.Must(t, &fsm.SecretPut{Name: name, Data: data})
	}
	put("one", own)
	put("two", own)
	whole := file(t, c.Store.Snapshot())
	put("strange", other)
	mixed := file(t, c.Store.Snapshot())
	refused := errors.New("no wrap for it")
	for name, s := range map[string]struct {
		file    []byte
		secrets saved.Secrets
		rewrap  func(*state.Store) error
		kind    fault.Kind
		says    string
	}{
		"its own key":       {whole, own, nil, 0, ""},
		"nothing is tried":  {mixed, nil, nil, 0, ""},
		"another key":       {whole, other, nil, fault.Denied, "sealed with another key"},
		"one of three":      {mixed, own, nil, fault.Denied, "-recovery-key-file"},
		"an empty state":    {file(t, state.New().Snapshot()), own, nil, fault.Invalid, "is empty"},
		"half a file":       {whole[:len(whole)/2], own, nil, fault.Invalid, "damaged"},
		"nobody to wrap it": {whole, own, func(*state.Store) error { return refused }, 0, refused.Error()},
	} {
		store, _, err := saved.Load(bytes.NewReader(s.file), s.secrets, s.rewrap)
		switch {
		case s.says == "" && (err != nil || store.Snapshot().Meta(nil) == nil):
			t.Errorf("%s: %v", name, err)
		case s.says != "" && (err == nil || store != nil || !strings.Contains(err.Error(), s.says)):
			t.Errorf("%s: it is taken, or refused by %v", name, err)
		case s.kind != 0 && !fault.Has(err, s.kind):
			t.Errorf("%s: %v", name, err)
		}
	}
}
