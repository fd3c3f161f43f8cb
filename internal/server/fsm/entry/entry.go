// Package entry owns the form of an entry of the log: a command in its envelope. Only package fsm imports it.
package entry

import "fmt"

// Entry is a command in the log.
type Entry struct {
	Name    string `cbor:"c"`
	Schema  uint64 `cbor:"s"`
	Time    int64  `cbor:"t"` // the proposer's, nanoseconds since the epoch
	Payload Lent   `cbor:"p"`
}

// Lent is a byte string that is read where it lies: what it is decoded from stays as it is as long as it is used. An
// entry's command is most of it, and would be copied for the time in which it is decoded.
type Lent []byte

// UnmarshalCBOR implements cbor.Unmarshaler: the item is whole (RFC 8949 §3).
func (l *Lent) UnmarshalCBOR(item []byte) error {
	const byteString, oneByte = 2, 24
	kind, size := item[0]>>5, int(item[0]&31)
	head := 1
	if size >= oneByte {
		head += 1 << (size - oneByte)
	}
	if kind != byteString || head > min(9, len(item)) {
		return fmt.Errorf("an item that begins with %#x is no byte string of a known length", item[0])
	}
	*l = item[head:]
	return nil
}
