package kv_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/port/kv"
)

type record struct{ Name string }

func open(t *testing.T, path string) *kv.Store {
	t.Helper()
	s, err := kv.Open(path, kv.Codec{Encode: json.Marshal, Decode: json.Unmarshal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestARecordSurvivesReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	s := open(t, path)
	if err := s.Update(func(tx *kv.Tx) error { return tx.Put("b", "k", record{"v"}) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	var got record
	err := s.View(func(tx *kv.Tx) error {
		ok, err := tx.Get("b", "k", &got)
		if !ok {
			t.Error("the record is gone")
		}
		return err
	})
	if err != nil || got.Name != "v" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestAFailedTransactionChangesNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "kv.db"))
	stop := errors.New("stop")
	err := s.Update(func(tx *kv.Tx) error {
		if err := tx.Put("b", "k", record{"v"}); err != nil {
			return err
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Fatalf("got %v", err)
	}
	_ = s.View(func(tx *kv.Tx) error {
		if keys := tx.Keys("b"); len(keys) != 0 {
			t.Errorf("keys %v were kept", keys)
		}
		return nil
	})
}

func TestASecondOpenerIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	open(t, path)
	_, err := kv.Open(path, kv.Codec{})
	if !fault.Has(err, fault.Busy) {
		t.Fatalf("got %v, want a busy fault", err)
	}
}

func TestADamagedRecordIsHandedOver(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "kv.db"))
	if err := s.Update(func(tx *kv.Tx) error {
		if err := tx.Put("b", "bad", "a string"); err != nil {
			return err
		}
		return tx.Put("b", "good", record{"v"})
	}); err != nil {
		t.Fatal(err)
	}
	var good, bad []string
	_ = s.View(func(tx *kv.Tx) error {
		return kv.All(tx, "b",
			func(k string, _ *record) error { good = append(good, k); return nil },
			func(k string, _ error) error { bad = append(bad, k); return nil })
	})
	if !slices.Equal(good, []string{"good"}) || !slices.Equal(bad, []string{"bad"}) {
		t.Fatalf("good %v, bad %v", good, bad)
	}
}
