package server

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/model/datakey"
	"berth/internal/model/partition"
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

// Given a variable whose lock somebody holds, when another one who may write it looks, writes or asks for the lock,
// then he learns that it is held and not by which id, with which he could release it; the holder goes on seeing it, and
// so do those who run the cluster.
func TestTheIDOfALockIsForWhoHasIt(t *testing.T) {
	_, here, _ := serves(t, Config{})
	first, err := wire.ACLBootstrap.Call(wire.For(t.Context(), wire.Person{Local: true}), here,
		&wire.ACLBootstrapRequest{})
	if err != nil {
		t.Fatal(err)
	}
	manager := wire.For(t.Context(), wire.Person{Token: first.Secret.Secret()})
	const rules = "namespace \"default\" {\nvariables {\npath \"app/*\" {\n" +
		"capabilities = [\"read\", \"write\", \"destroy\"]\n}\n}\n}\n"
	_, err = wire.ACLPolicyPut.Call(manager, here, &wire.ACLPolicyPutRequest{Name: "w", Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	made, err := wire.ACLTokenPut.Call(manager, here,
		&wire.ACLTokenPutRequest{Name: "w", Type: acl.ClientToken, Policies: []string{"w"}})
	if err != nil {
		t.Fatal(err)
	}
	writer := wire.For(t.Context(), wire.Person{Token: made.Secret.Secret()})
	ask := &wire.VariableAcquireRequest{
		Namespace: "default",
		Path:      "app/leader",
		Lock:      variable.Lock{TTL: variable.MinTTL},
	}
	held, err := wire.VariableAcquire.Call(writer, here, ask)
	if err != nil || held.Conflict != "" || held.Item.Lock.ID == "" {
		t.Fatalf("%+v, %v", held, err)
	}
	id := held.Item.Lock.ID
	of := func(lock string) *wire.VariableLockRequest {
		return &wire.VariableLockRequest{Namespace: "default", Path: "app/leader", Lock: lock}
	}
	put := func(lock string) *wire.VariablePutRequest {
		return &wire.VariablePutRequest{
			Namespace: "default",
			Path:      "app/leader",
			Items:     wire.Secrets{Values: map[string]string{"k": "v"}},
			Lock:      lock,
		}
	}
	type seen = func() (*variable.Variable, error)
	written := func(out *wire.VariableWritten, err error) (*variable.Variable, error) {
		if err != nil {
			return nil, err
		}
		return out.Item, nil
	}
	read := func(ctx context.Context) (*variable.Variable, error) {
		out, err := wire.VariableGet.Call(ctx, here,
			&wire.Ref[string]{Query: wire.Query{Namespace: "default"}, ID: "app/leader"})
		if err != nil {
			return nil, err
		}
		return out.Item, nil
	}
	for what, c := range map[string]struct {
		shown string
		look  seen
	}{
		"acquires": {"", func() (*variable.Variable, error) {
			return written(wire.VariableAcquire.Call(writer, here, ask))
		}},
		"writes": {"", func() (*variable.Variable, error) {
			return written(wire.VariablePut.Call(writer, here, put("")))
		}},
		"renews by none": {"", func() (*variable.Variable, error) {
			return written(wire.VariableRenew.Call(writer, here, of("")))
		}},
		"releases another": {"", func() (*variable.Variable, error) {
			return written(wire.VariableRelease.Call(writer, here, of("x")))
		}},
		"deletes": {"", func() (*variable.Variable, error) {
			return written(wire.VariableDelete.Call(writer, here,
				&wire.VariableDeleteRequest{Namespace: "default", Path: "app/leader"}))
		}},
		"reads": {"", func() (*variable.Variable, error) { return read(writer) }},
		"lists": {"", func() (*variable.Variable, error) {
			out, err := wire.VariableList.Call(writer, here, &wire.Query{Namespace: "default"})
			if err != nil {
				return nil, err
			}
			return out.Items[0], nil
		}},
		"runs the cluster": {id, func() (*variable.Variable, error) { return read(manager) }},
		"renews": {id, func() (*variable.Variable, error) {
			return written(wire.VariableRenew.Call(writer, here, of(id)))
		}},
		"writes by it": {id, func() (*variable.Variable, error) {
			return written(wire.VariablePut.Call(writer, here, put(id)))
		}},
	} {
		v, err := c.look()
		if err != nil || v == nil || v.Lock == nil || v.Lock.ID != c.shown {
			t.Errorf("who %s: %+v, %v; want the id %q", what, v, err, c.shown)
		}
	}
}

// Given bounds of what a namespace may have, then what does not fit is refused with the reason, however many write at
// once, also a lock that would make a variable; what takes no more than what it replaces is written, and another
// namespace has bounds of its own.
func TestANamespaceHoldsSoManyVariables(t *testing.T) {
	_, here, _ := serves(t, Config{Variables: variable.Bounds{Number: 5, Bytes: 1 << 20}})
	ctx := wire.For(t.Context(), wire.Person{Local: true})
	put := func(ns ids.Namespace, path string, bytes int) error {
		_, err := wire.VariablePut.Call(ctx, here, &wire.VariablePutRequest{
			Namespace: ns,
			Path:      path,
			Items:     wire.Secrets{Values: map[string]string{"k": strings.Repeat("v", bytes)}},
		})
		return err
	}
	var written, refused atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			switch err := put("default", fmt.Sprint("app/", i), 10); {
			case err == nil:
				written.Add(1)
			case fault.Has(err, fault.Invalid) && strings.Contains(err.Error(), "at most 5 are allowed"):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if written.Load() != 5 || refused.Load() != 15 {
		t.Errorf("%d were written, %d refused", written.Load(), refused.Load())
	}
	list, err := wire.VariableList.Call(ctx, here, &wire.Query{Namespace: "default"})
	if err != nil || len(list.Items) != 5 {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := put("default", list.Items[0].Path, 20); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	_, err = wire.VariableAcquire.Call(ctx, here, &wire.VariableAcquireRequest{
		Namespace: "default",
		Path:      "app/leader",
		Lock:      variable.Lock{TTL: variable.MinTTL},
	})
	if !fault.Has(err, fault.Invalid) {
		t.Errorf("a lock of what is not there: %v", err)
	}
	_, err = wire.NamespacePut.Call(ctx, here, &wire.NamespacePutRequest{Namespace: partition.Namespace{Name: "shop"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := put("shop", "app/one", 10); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
}
