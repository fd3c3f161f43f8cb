package keyring_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/redact"
	"berth/internal/model/datakey"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/keyring"
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

// begun are the keys of a cluster whose first data key is made, as server s1 has them.
func begun(t *testing.T) (*localstate.Cluster, *keyring.Keys) {
	t.Helper()
	c := localstate.New(t)
	k := &keyring.Keys{
		Keyring:  created(t),
		Store:    c.Store,
		Proposer: c,
		Name:     "s1",
		Dev:      true,
		Log:      slog.New(slog.DiscardHandler),
	}
	if err := k.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, k
}

// Given more sealed entries than are sealed anew in one command, when the keys are rotated in full, then nothing is
// sealed with the old key any more, which can go.
func TestAFullRotationLeavesNothing(t *testing.T) {
	c, k := begun(t)
	first := c.Store.Snapshot().ActiveDataKey(nil).ID
	const secrets = 600
	for i := range secrets {
		name := fmt.Sprint("db", i)
		data, err := k.Keyring.Seal(c.Store.Snapshot(), name, redact.MapOf(map[string]string{"password": name}))
		if err != nil {
			t.Fatal(err)
		}
		c.Must(t, &fsm.SecretPut{Name: name, Data: data})
	}
	second, _, err := k.Rotate(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Store.Snapshot()
	all := keys.Entries(s, nil)
	for _, e := range all {
		if !datakey.Under(e.Sealed, second.ID) {
			t.Fatalf("%s is sealed with the key of before", e.Name)
		}
	}
	if bad, n := k.Keyring.Unopened(s); len(all) < secrets || n < secrets || len(bad) > 0 {
		t.Errorf("of %d entries %d do not open", n, len(bad))
	}
	if _, err := k.Remove(t.Context(), first); err != nil {
		t.Error(err)
	}
}

// Given two data keys, then a server that can open one of them says that it cannot open both, whichever it is: were it
// the last one, the other would be lost.
func TestWhoOpensOneKeyDoesNotOpenAll(t *testing.T) {
	c, k := begun(t)
	if _, _, err := k.Rotate(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		other := created(t)
		name := fmt.Sprint("other", i)
		wraps, err := k.Keyring.WrapFor(c.Store.Snapshot(), name, other.Public())
		if err != nil || len(wraps.Wraps) != 2 {
			t.Fatalf("%+v, %v", wraps, err)
		}
		second := wraps.Wraps[1-i].Key
		wraps.Wraps = wraps.Wraps[i : i+1]
		c.Must(t, wraps)
		if err := other.Opens(c.Store.Snapshot()); err == nil || !strings.Contains(err.Error(), second) {
			t.Errorf("without key %s: %v", second, err)
		}
		wraps, err = k.Keyring.WrapFor(c.Store.Snapshot(), name, other.Public())
		if err != nil || len(wraps.Wraps) != 1 {
			t.Fatalf("%+v, %v", wraps, err)
		}
		c.Must(t, wraps)
		if err := other.Opens(c.Store.Snapshot()); err != nil {
			t.Errorf("with both: %v", err)
		}
	}
}

// Given a server that was removed, then no key that is made later is wrapped for it, though its record has its public
// key; for those that are there each is.
func TestAServerThatIsGoneGetsNoKey(t *testing.T) {
	c, k := begun(t)
	own := map[string][]byte{"s1": k.Keyring.Public()}
	c.Must(t, &joining.AdmissionPut{Admission: trust.Admission{
		ID:      "t",
		Hash:    []byte{1},
		Role:    trust.Server,
		Uses:    3,
		Expires: time.Now().Add(time.Hour),
	}})
	for _, name := range []string{"s2", "s3"} {
		own[name] = created(t).Public()
		c.Must(t, &joining.Join{
			Role:  trust.Server,
			ID:    name,
			Key:   trust.KeyID(name),
			Token: "t",
			Hash:  []byte{1},
			Seal:  own[name],
		})
	}
	holders := func() (names []string) {
		t.Helper()
		key, _, err := k.Rotate(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		for name, public := range own {
			if c.Store.Snapshot().DataKey(nil, key.ID).For(public) != nil {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	if got := holders(); !slices.Equal(got, []string{"s1", "s2", "s3"}) {
		t.Errorf("a key is for %v", got)
	}
	c.Must(t, &joining.ServerRemove{Name: "s2"})
	if got := holders(); !slices.Equal(got, []string{"s1", "s3"}) {
		t.Errorf("after s2 was removed a key is for %v", got)
	}
}
