package kv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"
)

// A record is kept with a checksum of its bucket, its key and its bytes, because the library's file has one of its
// first two pages alone: a flipped bit in a record would pass for what was written. The checksum stands before the
// record as the number of a CBOR tag (RFC 8949 §3.4). Programs that know no checksums skip a tag that they do not
// know, so that a node can be put back to one; what they write has none, and is taken as it is.
const (
	tag32     = 0xda    // a tag whose number has four bytes
	tagMajor  = 0b110   // the upper three bits of the first byte of every tag
	tagOwn    = 1 << 31 // no tag with a meaning of its own is that high
	sealBytes = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(bucket, key string, record []byte) uint32 {
	sum := crc32.Update(0, castagnoli, []byte(bucket+"\x00"+key+"\x00"))
	return crc32.Update(sum, castagnoli, record) | tagOwn
}

// seal puts the checksum before a record.
func seal(bucket, key string, record []byte) []byte {
	out := make([]byte, sealBytes, sealBytes+len(record))
	out[0] = tag32
	binary.BigEndian.PutUint32(out[1:], checksum(bucket, key, record))
	return append(out, record...)
}

// errDamaged is the error of a record that is not what was written.
var errDamaged = errors.New("it is damaged: its checksum is not that of its bytes")

// unseal returns the record of what is stored.
func unseal(bucket, key string, stored []byte) ([]byte, error) {
	switch {
	case len(stored) == 0 || stored[0]>>5 != tagMajor:
		return stored, nil // written without
	case stored[0] != tag32 || len(stored) < sealBytes:
		return nil, errDamaged // no record begins with a tag
	}
	record := stored[sealBytes:]
	if binary.BigEndian.Uint32(stored[1:]) != checksum(bucket, key, record) {
		return nil, errDamaged
	}
	return record, nil
}

// DamagedRecord is one that is not what was written, and why.
type DamagedRecord struct {
	Bucket, Key string
	Err         error
}

// EncodeFile encodes what lies in a file of its own, of a kind that it names, with a checksum as records have it.
func (c Codec) EncodeFile(kind string, v any) ([]byte, error) {
	data, err := c.Encode(v)
	if err != nil {
		return nil, err
	}
	return seal(kind, "", data), nil
}

// DecodeFile decodes what EncodeFile has made for the same kind, or was written without a checksum.
func (c Codec) DecodeFile(kind string, data []byte, v any) error {
	record, err := unseal(kind, "", data)
	if err != nil {
		return err
	}
	return c.Decode(record, v)
}

// anything is what every record decodes into that is well-formed.
type anything struct{}

func (*anything) UnmarshalCBOR([]byte) error { return nil }

// Damaged lists the records whose checksums are not those of their bytes, or that are not well-formed.
func (s *Store) Damaged() (out []DamagedRecord, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				bucket, key := string(name), string(k)
				record, err := unseal(bucket, key, v)
				if err == nil {
					err = s.codec.Decode(record, new(anything))
				}
				if err != nil {
					err = fmt.Errorf("record %s/%s: %w", bucket, key, err)
					out = append(out, DamagedRecord{bucket, key, err})
				}
				return nil
			})
		})
	})
	return out, err
}
