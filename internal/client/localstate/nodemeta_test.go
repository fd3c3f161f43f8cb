package localstate_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/internal/client/localstate"
	"berth/internal/port/kv"
	"berth/internal/wire"
)

// Given a key that was taken away from a node's metadata, when the agent starts again, then it still is.
func TestWhatWasTakenAwayStaysAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "client.db")
	one := "1"
	said := map[string]*string{"rack": &one, "old": nil}
	for again := range 2 {
		store, err := kv.Open(path, kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict})
		if err != nil {
			t.Fatal(err)
		}
		s := &localstate.Store{KV: store}
		if again == 0 {
			err = s.PutNodeMeta(said)
		} else if got, readErr := s.NodeMeta(); readErr != nil || !cmp.Equal(said, got) {
			t.Errorf("it reads %v, %v", got, readErr)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
