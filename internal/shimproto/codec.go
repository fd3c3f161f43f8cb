package shimproto

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Encoder appends numbered fields. A field is its number, its length and its bytes; zero values are left out.
type Encoder struct{ buf []byte }

// Bytes returns what was encoded so far.
func (e *Encoder) Bytes() []byte { return e.buf }

// Add appends a field even when it is empty: an element of a list.
func (e *Encoder) Add(field int, v string) {
	e.head(field, len(v))
	e.buf = append(e.buf, v...)
}

// Text appends a text that is not empty.
func (e *Encoder) Text(field int, v string) {
	if v != "" {
		e.Add(field, v)
	}
}

// List appends every element of a list.
func (e *Encoder) List(field int, list []string) {
	for _, v := range list {
		e.Add(field, v)
	}
}

// Int appends a number that is not zero.
func (e *Encoder) Int(field int, v int64) {
	if v != 0 {
		e.AddInt(field, v)
	}
}

// AddInt appends a number even when it is zero: an element of a list.
func (e *Encoder) AddInt(field int, v int64) {
	var b [binary.MaxVarintLen64]byte
	n := binary.PutVarint(b[:], v)
	e.head(field, n)
	e.buf = append(e.buf, b[:n]...)
}

// Bool appends true.
func (e *Encoder) Bool(field int, v bool) {
	if v {
		e.AddInt(field, 1)
	}
}

// Message appends a nested message, even an empty one.
func (e *Encoder) Message(field int, m interface{ encode(*Encoder) }) {
	var inner Encoder
	m.encode(&inner)
	e.head(field, len(inner.buf))
	e.buf = append(e.buf, inner.buf...)
}

func (e *Encoder) head(field, size int) {
	e.buf = binary.AppendUvarint(e.buf, uint64(field))
	e.buf = binary.AppendUvarint(e.buf, uint64(size))
}

var errCut = errors.New("the message is cut short")

// Value is one field's bytes.
type Value []byte

// Text copies the field out as text.
func (v Value) Text() string { return string(v) }

// Int reads the field as a number; a malformed one is zero, because a later version may have widened it.
func (v Value) Int() int64 {
	n, _ := binary.Varint(v)
	return n
}

// Bool reads the field as a truth value.
func (v Value) Bool() bool { return v.Int() != 0 }

// fields calls visit for every field of an encoded message, in order.
func fields(b []byte, visit func(field int, v Value) error) error {
	for len(b) > 0 {
		field, n := binary.Uvarint(b)
		if n <= 0 || field == 0 || field > 1<<20 {
			return errCut
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return errCut
		}
		b = b[n+m:]
		if err := visit(int(field), Value(b[:size])); err != nil {
			return fmt.Errorf("field %d: %w", field, err)
		}
		b = b[size:]
	}
	return nil
}
