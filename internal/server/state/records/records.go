// Package records owns the form of the stream that a snapshot of the state is: records, each with its length before it.
// The state imports it.
package records

import (
	"encoding/binary"
	"fmt"
	"io"

	"berth/internal/wire"
)

// maxRecord bounds one record, in bytes.
const maxRecord = 64 << 20

// Record is one object of a snapshot. The first one has the format, the last one the count of those between.
type Record struct {
	Format uint64 `cbor:"f,omitempty"`
	Table  string `cbor:"t,omitempty"`
	Object []byte `cbor:"o,omitempty"`
	Count  uint64 `cbor:"n,omitempty"`
}

// Write appends a record to the stream.
func Write(w io.Writer, r Record) error {
	data, err := wire.Encode(r)
	if err != nil {
		return err
	}
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(data)))
	if _, err := w.Write(size[:]); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// Read takes the next record off the stream, or returns io.EOF at its end.
func Read(r io.Reader) (Record, error) {
	var size [4]byte
	var out Record
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return out, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxRecord {
		return out, fmt.Errorf("a record of %d bytes; the bound is %d", n, maxRecord)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return out, err
	}
	return out, wire.DecodeStrict(data, &out)
}
