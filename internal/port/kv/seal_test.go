package kv_test

import (
	"bytes"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"berth/internal/base/fault"
	"berth/internal/port/kv"
	"berth/internal/wire"
)

var cborCodec = kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict}

type numbers struct {
	Generation uint64
	Present    bool
	Path       string
}

var sealed = map[string]numbers{
	"one":   {Generation: 7, Present: true, Path: "/data/one"},
	"two":   {Generation: 1 << 40, Path: "/data/two"},
	"three": {Present: true},
}

// sealedStore is a closed store of some records.
func sealedStore(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kv.db")
	s, err := kv.Open(path, cborCodec)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(func(tx *kv.Tx) error {
		for key, v := range sealed {
			if err := tx.Put("b", key, v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// stored returns a record as it lies in the file of a closed store.
func stored(t *testing.T, path, key string) (out []byte) {
	t.Helper()
	if err := kv.Read(path, "b", key, func(v []byte) error { out = bytes.Clone(v); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// store puts bytes in the place of a record of a closed store.
func store(t *testing.T, path, key string, record []byte) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte("b")).Put([]byte(key), record) })
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// Given a store with a bit that is not what was written, in a record or its checksum or its key, when it is read, then
// the file is refused, or the record is handed over as damaged and named; the others are read.
func TestNoFlippedBitOfARecordIsTakenForWhatWasWritten(t *testing.T) {
	path := sealedStore(t)
	record := stored(t, path, "one")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(whole, append([]byte("one"), record...)) // bbolt has the value follow its key
	if at < 0 || len(record) < 20 {
		t.Fatalf("the record %x is not in the file", record)
	}
	for i := range (3 + len(record)) * 8 {
		damaged := bytes.Clone(whole)
		damaged[at+i/8] ^= 1 << (i % 8)
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := kv.OpenToRead(path, cborCodec)
		if fault.Has(err, fault.Internal) {
			continue // the key is out of order
		}
		if err != nil {
			t.Fatal(err)
		}
		read, bad := 0, 0
		err = s.View(func(tx *kv.Tx) error {
			return kv.All(tx, "b", func(key string, v *numbers) error {
				if read++; *v != sealed[key] {
					t.Errorf("bit %d: record %s is %+v", i, key, *v)
				}
				return nil
			}, func(string, error) error { bad++; return nil })
		})
		named, nerr := s.Damaged()
		if err != nil || nerr != nil || read != 2 || bad != 1 || len(named) != 1 || named[0].Bucket != "b" {
			t.Errorf("bit %d: %d records are read and %d damaged, named are %v: %v, %v", i, read, bad, named, err, nerr)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A record in the place of another one is not that.
func TestARecordInAnothersPlaceIsDamaged(t *testing.T) {
	path := sealedStore(t)
	store(t, path, "two", stored(t, path, "one"))
	s, err := kv.OpenToRead(path, cborCodec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	named, err := s.Damaged()
	if err != nil || len(named) != 1 || named[0].Key != "two" {
		t.Errorf("damaged are %v, %v", named, err)
	}
}

// Given a store of a program that knows no checksums, then its records are read; and such a program reads what this one
// has written, so that a node can be put back to it.
func TestRecordsWithoutChecksumAreReadAndThoseWithOneByEarlierPrograms(t *testing.T) {
	path := sealedStore(t)
	for key, v := range sealed {
		var got numbers
		if err := wire.DecodeStrict(stored(t, path, key), &got); err != nil || got != v {
			t.Errorf("an earlier program reads %+v, %v", got, err)
		}
	}
	plain, err := wire.Encode(numbers{Generation: 8})
	if err != nil {
		t.Fatal(err)
	}
	store(t, path, "one", plain)
	s, err := kv.Open(path, cborCodec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	read := func() (got numbers) {
		err := s.View(func(tx *kv.Tx) error {
			_, err := tx.Get("b", "one", &got)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := read(); got.Generation != 8 {
		t.Errorf("it is %+v", got)
	}
	if named, err := s.Damaged(); err != nil || len(named) > 0 {
		t.Errorf("damaged are %v, %v", named, err)
	}
	// Written anew it has one.
	if err := s.Update(func(tx *kv.Tx) error { return tx.Put("b", "one", read()) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if now := stored(t, path, "one"); !bytes.HasSuffix(now, plain) || len(now) != len(plain)+5 {
		t.Errorf("it is stored as %x", now)
	}
}

// A record that begins with another tag, or ends within its checksum, was damaged.
func TestAnotherTagIsDamage(t *testing.T) {
	path := sealedStore(t)
	record := stored(t, path, "one")
	for first := range 256 {
		if bits.OnesCount8(uint8(first)^record[0]) != 1 {
			continue
		}
		store(t, path, "one", append([]byte{byte(first)}, record[1:]...))
		s, err := kv.OpenToRead(path, cborCodec)
		if err != nil {
			t.Fatal(err)
		}
		var got numbers
		err = s.View(func(tx *kv.Tx) error {
			_, err := tx.Get("b", "one", &got)
			return err
		})
		if err == nil {
			t.Errorf("with %#x as its first byte it is read as %+v", first, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 5 {
		store(t, path, "two", slices.Clone(record[:n]))
		var got numbers
		s, err := kv.OpenToRead(path, cborCodec)
		if err != nil {
			t.Fatal(err)
		}
		err = s.View(func(tx *kv.Tx) error {
			_, err := tx.Get("b", "two", &got)
			return err
		})
		if err == nil {
			t.Errorf("of %d bytes it is read as %+v", n, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Given a file of its own, then no flipped bit of it is taken for what was written, nor a file of another kind; one of
// a program that knows no checksums is read.
func TestAFileHasAChecksumToo(t *testing.T) {
	want := sealed["one"]
	data, err := cborCodec.EncodeFile("a", want)
	if err != nil {
		t.Fatal(err)
	}
	var got numbers
	if err := cborCodec.DecodeFile("a", data, &got); err != nil || got != want {
		t.Errorf("it is read as %+v, %v", got, err)
	}
	if err := wire.DecodeStrict(data, &got); err != nil || got != want {
		t.Errorf("an earlier program reads %+v, %v", got, err)
	}
	if err := cborCodec.DecodeFile("b", data, &got); err == nil {
		t.Error("it is read as of another kind")
	}
	for i := range len(data) * 8 {
		damaged := bytes.Clone(data)
		damaged[i/8] ^= 1 << (i % 8)
		if err := cborCodec.DecodeFile("a", damaged, &got); err == nil {
			t.Errorf("with bit %d flipped it is read as %+v", i, got)
		}
	}
	plain, err := wire.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got = numbers{}
	if err := cborCodec.DecodeFile("a", plain, &got); err != nil || got != want {
		t.Errorf("without a checksum it is read as %+v, %v", got, err)
	}
}
