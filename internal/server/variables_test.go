package server

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/model/datakey"
	"berth/internal/model/variable"
	"berth/internal/server/fsm/keys"
	"berth/internal/wire"
)

// Given a variable, when it was written, locked and sealed anew with another data key, then what it holds is in no file
// of the server and in no saved state, it opens at its own path alone, its index is what it was, and the key that it
// was sealed with can go.
func TestWhatAVariableHoldsIsNowhereInClear(t *testing.T) {
	s, here, _ := serves(t, Config{})
	const canary = "canary-4711-of-a-variable"
	ctx := wire.For(t.Context(), wire.Person{Local: true})
	put, err := wire.VariablePut.Call(ctx, here, &wire.VariablePutRequest{
		Namespace: "default",
		Path:      "app/db",
		Items:     wire.Secrets{Values: map[string]string{"k" + canary: canary}},
	})
	if err != nil || put.Conflict != "" {
		t.Fatal(put, err)
	}
	old := s.Store().Snapshot().ActiveDataKey(nil).ID
	if _, err := wire.DataKeyRotate.Call(ctx, here, &wire.RotateRequest{Full: true}); err != nil {
		t.Fatal(err)
	}
	ref := &wire.Ref[string]{Query: wire.Query{Namespace: "default"}, ID: "app/db"}
	got, err := wire.VariableGet.Call(ctx, here, ref)
	if err != nil || got.Items.Values["k"+canary] != canary || got.Item.ModifyIndex != put.Item.ModifyIndex {
		t.Fatalf("%+v %v", got, err)
	}
	snap := s.Store().Snapshot()
	sealed := snap.Secret(nil, variable.SealedName("default", "app/db")).Data
	if datakey.Under(sealed, old) || keys.Uses(snap, old) != 0 {
		t.Error("it is sealed with the old key")
	}
	if _, err := wire.DataKeyRemove.Call(ctx, here, &wire.DataKeyRequest{ID: old}); err != nil {
		t.Errorf("the old key cannot go: %v", err)
	}
	var saved bytes.Buffer
	if err := snap.Persist(&saved); err != nil || bytes.Contains(saved.Bytes(), []byte(canary)) {
		t.Errorf("a saved state shows it (%v)", err)
	}
	files := 0
	err = filepath.WalkDir(s.cfg.DataDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(canary)) {
			t.Errorf("%s shows it", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files were read: %v", files, err)
	}
}
