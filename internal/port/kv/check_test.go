package kv_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/port/kv"
)

// written is a store with several buckets, records of more than a page, deep trees and free pages.
func written(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kv.db")
	s, err := kv.Open(path, kv.Codec{Encode: json.Marshal, Decode: json.Unmarshal})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		err := s.Update(func(tx *kv.Tx) error {
			for i := range 500 {
				key := fmt.Sprintf("%04d", i)
				if err := tx.Put("many", key, strings.Repeat("x", 20+(i*7+round)%100)); err != nil {
					return err
				}
				if i%50 == round {
					if err := tx.Delete("many", key); err != nil {
						return err
					}
				}
			}
			return tx.Put(fmt.Sprintf("bucket %d", round), "large", strings.Repeat("y", 3000*(round+1)))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// everything reads every record of a store and writes one; what it decodes does not matter, that it comes back does.
func everything(t *testing.T, path string) error {
	t.Helper()
	s, err := kv.Open(path, kv.Codec{Encode: json.Marshal, Decode: json.Unmarshal})
	if err != nil {
		return err
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	return s.Update(func(tx *kv.Tx) error {
		for _, b := range []string{"many", "bucket 0", "bucket 1", "bucket 2", "bucket 3"} {
			err := kv.All(tx, b, func(string, *string) error { return nil }, func(string, error) error { return nil })
			if err != nil {
				return err
			}
		}
		return tx.Put("many", "after", "it")
	})
}

// Given a store whose file is damaged, when it is opened, then it is refused with its path, or it can be read and
// written; neither a panic nor a signal ends the program.
func TestADamagedStoreIsRefusedWithItsPath(t *testing.T) {
	whole, err := os.ReadFile(written(t))
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	fill := func(from, to int) func([]byte) []byte {
		r := rand.New(rand.NewPCG(uint64(from), uint64(to)))
		return func(b []byte) []byte {
			for i := from; i < min(to, len(b)); i++ {
				b[i] = byte(r.Uint32())
			}
			return b
		}
	}
	for name, c := range map[string]struct {
		damage func([]byte) []byte
		opens  bool
	}{
		"one meta page":        {fill(0, page), true},
		"the other meta page":  {fill(page, 2*page), true},
		"both meta pages":      {fill(0, 2*page), false},
		"the middle":           {fill(2*page, len(whole)-page), false},
		"all but the metas":    {fill(2*page, len(whole)), false},
		"zeros in the middle":  {func(b []byte) []byte { clear(b[2*page : len(b)/2]); return b }, false},
		"the first half alone": {func(b []byte) []byte { return b[:len(b)/2] }, false},
		"one page alone":       {func(b []byte) []byte { return b[:page] }, false},
		"a hundred bytes":      {func(b []byte) []byte { return b[:100] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kv.db")
			if err := os.WriteFile(path, c.damage(append([]byte(nil), whole...)), 0o600); err != nil {
				t.Fatal(err)
			}
			err := everything(t, path)
			switch {
			case c.opens && err != nil:
				t.Errorf("it was refused: %v", err)
			case !c.opens && (!fault.Has(err, fault.Internal) || !strings.Contains(err.Error(), path)):
				t.Errorf("got %v; it should be refused with its path", err)
			case name == "the first half alone" && !strings.Contains(err.Error(), "it is cut off"):
				t.Errorf("it does not say that the end is missing: %v", err)
			}
		})
	}
}

// Whatever page of a store is damaged, it is refused, or all of it can be read and it can be written.
func TestNoDamagedPageEndsTheProgram(t *testing.T) {
	whole, err := os.ReadFile(written(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kv.db")
	refused := 0
	r := rand.New(rand.NewPCG(1, 2))
	try := func(damaged []byte) {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if everything(t, path) != nil {
			refused++
		}
	}
	for page := 0; page < len(whole)/4096; page++ {
		for _, width := range []int{8, 64, 4096} { // of what is damaged: in the header, in the records, all
			damaged := append([]byte(nil), whole...)
			at := page * 4096
			if width == 64 {
				at += 16
			}
			for i := range width {
				damaged[at+i] = byte(r.Uint32())
			}
			try(damaged)
		}
	}
	if refused == 0 {
		t.Error("no damage was found")
	}
}

// A bucket that was made with the file, and is gone, is damage.
func TestAMissingBucketIsDamage(t *testing.T) {
	path := written(t)
	if err := kv.Check(path, "many", "bucket 3"); err != nil {
		t.Error(err)
	}
	if err := kv.Check(path, "many", "stable"); !fault.Has(err, fault.Internal) {
		t.Errorf("without a bucket that was asked for: %v", err)
	}
}

// Given a store in which a single number of the structure is another, so that nothing but the structure shows it, then
// it is refused for that: were it written to, what it holds would be lost.
func TestDamageOfTheStructureIsFound(t *testing.T) {
	const page = 4096
	const header, element = 16, 16
	order := binary.NativeEndian
	whole, err := os.ReadFile(written(t))
	if err != nil {
		t.Fatal(err)
	}
	newest := whole[header:]
	if other := whole[page+header:]; order.Uint64(other[48:]) > order.Uint64(newest[48:]) {
		newest = other
	}
	root, free := order.Uint64(newest[16:]), order.Uint64(newest[32:])
	// pages yields those of a kind with at least two records, in use or not.
	pages := func(b []byte, kind uint16) (out [][]byte) {
		for at := 2 * page; at < len(b); at += page {
			p := b[at : at+page]
			if order.Uint64(p) == uint64(at/page) && order.Uint16(p[8:]) == kind && order.Uint16(p[10:]) >= 2 {
				out = append(out, p)
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		damage func(b []byte)
		says   string
	}{
		"a page in use is called free": {func(b []byte) {
			order.PutUint64(b[free*page+header:], root)
		}, fmt.Sprintf("it calls page %d free, which is not", root)},
		"a page is called free twice": {func(b []byte) {
			list := b[free*page+header:]
			copy(list[8:16], list[:8])
		}, "free, which is not"},
		"two records lead to one page": {func(b []byte) {
			for _, p := range pages(b, 1) {
				copy(p[header+element+8:header+2*element], p[header+8:header+element])
			}
		}, "it is used twice"},
		"two records have one key": {func(b []byte) {
			for _, p := range pages(b, 2) { // the place of a leaf's key is counted from its record
				first, second := p[header:header+element], p[header+element:header+2*element]
				copy(second, first)
				order.PutUint32(second[4:], order.Uint32(first[4:])-element)
			}
		}, "record 1 is out of order"},
		"both descriptions are older or newer than they were": {func(b []byte) {
			b[header+48]++
			b[page+header+48]++
		}, "neither of its first two pages is whole"},
	} {
		path := filepath.Join(t.TempDir(), "kv.db")
		damaged := append([]byte(nil), whole...)
		c.damage(damaged)
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{kv.Check(path), everything(t, path)} {
			if !fault.Has(err, fault.Internal) || !strings.Contains(err.Error(), path) ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
