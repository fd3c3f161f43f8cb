package kv

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/testkit/powerloss"
)

// Given a store that is written to, when the power fails at any moment, then the store opens, every transaction that
// has returned is in it, and no other but the next one, whole.
func TestAPowerLossTakesNoTransaction(t *testing.T) {
	d := powerloss.Mount(t, powerloss.Config{Cuts: 30})
	s := openTest(t, filepath.Join(d.Dir, "kv.db"))
	d.Ack()
	const writes = 30
	value := func(i int) string { return strings.Repeat(fmt.Sprintf("value %d,", i), 1+i*40) }
	for i := range writes {
		err := s.Update(func(tx *Tx) error {
			if i%5 == 4 {
				if err := tx.Delete("data", fmt.Sprint(i-4)); err != nil {
					return err
				}
			}
			if err := tx.Put("data", fmt.Sprint(i), value(i)); err != nil {
				return err
			}
			return tx.Put("meta", "count", i+1)
		})
		if err != nil {
			t.Fatal(err)
		}
		d.Ack()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d.Each(func(t *testing.T, c powerloss.Cut, dir string) {
		s := openTest(t, filepath.Join(dir, "kv.db"))
		err := s.View(func(tx *Tx) error {
			count := 0
			if _, err := tx.Get("meta", "count", &count); err != nil {
				return err
			}
			if acked := c.Acked - 1; count < acked || count > acked+1 {
				t.Errorf("%d transactions are there, %d were acknowledged", count, acked)
			}
			want := 0
			for i := range count {
				if i%5 == 0 && i+4 < count {
					continue
				}
				want++
				got := ""
				if _, err := tx.Get("data", fmt.Sprint(i), &got); err != nil || got != value(i) {
					t.Errorf("transaction %d: %d bytes, %v", i, len(got), err)
				}
			}
			if keys := tx.Keys("data"); len(keys) != want {
				t.Errorf("%d records, want %d: %q", len(keys), want, keys)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// Given a store that is made, when the power fails at any moment, then the next run opens it or makes it.
func TestAStoreThatWasCutOffInItsMakingOpens(t *testing.T) {
	d := powerloss.Mount(t, powerloss.Config{Draws: 12})
	if err := openTest(t, filepath.Join(d.Dir, "kv.db")).Close(); err != nil {
		t.Fatal(err)
	}
	d.Each(func(t *testing.T, _ powerloss.Cut, dir string) {
		if err := put(openTest(t, filepath.Join(dir, "kv.db")), "first", 10); err != nil {
			t.Error(err)
		}
	})
}
