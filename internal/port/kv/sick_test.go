package kv

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"berth/internal/base/fault"
)

func openTest(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path, Codec{Encode: json.Marshal, Decode: json.Unmarshal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(s *Store, key string, size int) error {
	return s.Update(func(tx *Tx) error { return tx.Put("b", key, make([]byte, size)) })
}

func TestAfterAFailedWriteNothingMoreIsWritten(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "kv.db"))
	if err := put(s, "first", 10); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Close(); err != nil { // from here on every transaction fails
		t.Fatal(err)
	}
	err := put(s, "second", 10)
	if !fault.Has(err, fault.Internal) {
		t.Fatalf("got %v", err)
	}
	if s.sick.Load() == nil {
		t.Error("the store would go on writing")
	}
}

func TestAFullDiskLosesNothingAndPasses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "kv.db")
	s := openTest(t, path)
	if err := put(s, "small", 10); err != nil {
		t.Fatal(err)
	}
	err := put(s, "large", 4<<20)
	if !fault.Has(err, fault.Exhausted) {
		t.Fatalf("a full disk answered %v", err)
	}
	if err := put(s, "small too", 10); err != nil {
		t.Errorf("after the large one was refused: %v", err)
	}
	if err := s.View(func(tx *Tx) error {
		if keys := tx.Keys("b"); len(keys) != 2 {
			t.Errorf("it holds %q", keys)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestEndsAreWrittenOnAFullDisk: given a store on a disk that others have filled to the last byte, when records are
// changed and added, then they are written, until what was set aside is used up.
func TestEndsAreWrittenOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := openTest(t, filepath.Join(dir, "kv.db"))
	if err := put(s, "small", 10); err != nil {
		t.Fatal(err)
	}
	full, err := os.Create(filepath.Join(dir, "full"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = full.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) || full.Close() != nil {
		t.Fatal(err)
	}
	for i := range 64 {
		if err := put(s, strconv.Itoa(i), 10_000); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	if err := put(s, "large", 16<<20); !fault.Has(err, fault.Exhausted) {
		t.Errorf("more than was set aside answered %v", err)
	}
}
