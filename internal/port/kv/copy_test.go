package kv_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/port/kv"
)

// Given a store in use, when it is copied and written to before the copy is read, then the copy is whole and has what
// was there at that moment; writers do not wait for its reader, and nothing of it lies beside the store.
func TestACopyIsOfOneMoment(t *testing.T) {
	codec := kv.Codec{Encode: json.Marshal, Decode: json.Unmarshal}
	dir := t.TempDir()
	s, err := kv.Open(filepath.Join(dir, "kv.db"), codec)
	if err != nil {
		t.Fatal(err)
	}
	put := func(s *kv.Store, key, value string) {
		t.Helper()
		if err := s.Update(func(tx *kv.Tx) error { return tx.Put("b", key, value) }); err != nil {
			t.Fatal(err)
		}
	}
	put(s, "k", "before")
	// What a copy leaves that was cut off between making its file and taking its name away.
	if err := os.WriteFile(filepath.Join(dir, "kv.db.copy"), []byte("left"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, size, err := s.Copy()
	if err != nil {
		t.Fatal(err)
	}
	put(s, "k", "after")
	put(s, "large", string(make([]byte, 8<<20))) // the file grows, for which no reader may be there
	data, err := io.ReadAll(f)
	if err != nil || int64(len(data)) != size {
		t.Fatalf("%d bytes of %d: %v", len(data), size, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("beside the store lies %v: %v", files, err)
	}
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	copied, err := kv.Open(path, codec)
	if err != nil {
		t.Fatal(err)
	}
	value := ""
	err = copied.View(func(tx *kv.Tx) error {
		_, err := tx.Get("b", "k", &value)
		return err
	})
	if err != nil || value != "before" {
		t.Errorf("the copy has %q: %v", value, err)
	}
	if err := copied.Close(); err != nil {
		t.Fatal(err)
	}
}
