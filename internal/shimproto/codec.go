package shimproto

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Message is anything that can be a frame's payload. Its table names each field once, with its number, and serves both
// directions. Fields are sent in the order of the table; numbers are never reused.
type Message interface {
	table(*codec)
}

// Marshal encodes a message.
func Marshal(m Message) []byte {
	var c codec
	m.table(&c)
	return c.out
}

var errCut = errors.New("the message is cut short")

// Unmarshal decodes a message. Fields that it does not have are passed over.
func Unmarshal(b []byte, m Message) error {
	for len(b) > 0 {
		field, n := binary.Uvarint(b)
		if n <= 0 || field == 0 || field > 1<<20 {
			return errCut
		}
		size, k := binary.Uvarint(b[n:])
		if k <= 0 || size > uint64(len(b)-n-k) {
			return errCut
		}
		b = b[n+k:]
		c := codec{field: int(field), in: b[:size]}
		if m.table(&c); c.err != nil {
			return fmt.Errorf("field %d: %w", field, c.err)
		}
		b = b[size:]
	}
	return nil
}

// codec goes through a message's table in one direction: it appends the fields to what is sent, or it fills in the one
// that was received. A field is its number, its length and its bytes; a zero value is not sent.
type codec struct {
	out   []byte
	field int    // the number of the field that was received; 0: the message is sent
	in    []byte // its bytes
	err   error  // what is wrong with them
}

func (c *codec) sends() bool { return c.field == 0 }

// add appends a field.
func (c *codec) add(field int, v []byte) {
	c.out = binary.AppendUvarint(c.out, uint64(field))
	c.out = binary.AppendUvarint(c.out, uint64(len(v)))
	c.out = append(c.out, v...)
}

func (c *codec) addNumber(field int, v int64) {
	var b [binary.MaxVarintLen64]byte
	c.add(field, b[:binary.PutVarint(b[:], v)])
}

// number reads the field; a malformed one is zero, because a later version may have widened it.
func (c *codec) number() int64 {
	n, _ := binary.Varint(c.in)
	return n
}

func text(c *codec, field int, p *string) {
	switch {
	case c.field == field:
		*p = string(c.in)
	case c.sends() && *p != "":
		c.add(field, []byte(*p))
	}
}

func blob(c *codec, field int, p *[]byte) {
	switch {
	case c.field == field:
		*p = append([]byte(nil), c.in...)
	case c.sends() && len(*p) > 0:
		c.add(field, *p)
	}
}

func boolean(c *codec, field int, p *bool) {
	switch {
	case c.field == field:
		*p = c.number() != 0
	case c.sends() && *p:
		c.addNumber(field, 1)
	}
}

// integer is what the types of numbers are made of; all are sent alike.
type integer interface {
	~int | ~int64 | ~uint8 | ~uint32 | ~uint64
}

func number[T integer](c *codec, field int, p *T) {
	switch {
	case c.field == field:
		*p = T(c.number())
	case c.sends() && *p != 0:
		c.addNumber(field, int64(*p))
	}
}

// nested is a message that is always sent, even an empty one.
func nested(c *codec, field int, m Message) {
	switch {
	case c.field == field:
		c.err = Unmarshal(c.in, m)
	case c.sends():
		c.add(field, Marshal(m))
	}
}

// pointer is a message by way of its type.
type pointer[T any] interface {
	*T
	Message
}

// optional is a message that may be missing.
func optional[T any, M pointer[T]](c *codec, field int, p **T) {
	if c.field == field {
		*p = new(T)
	}
	if *p != nil {
		nested(c, field, M(*p))
	}
}

// A list sends its field once for each element, be it zero.

func texts(c *codec, field int, p *[]string) {
	if c.field == field {
		*p = append(*p, string(c.in))
	}
	for i := 0; c.sends() && i < len(*p); i++ {
		c.add(field, []byte((*p)[i]))
	}
}

func numbers[T integer](c *codec, field int, p *[]T) {
	if c.field == field {
		*p = append(*p, T(c.number()))
	}
	for i := 0; c.sends() && i < len(*p); i++ {
		c.addNumber(field, int64((*p)[i]))
	}
}

func list[T any, M pointer[T]](c *codec, field int, p *[]T) {
	if c.field == field {
		*p = append(*p, *new(T))
		c.err = Unmarshal(c.in, M(&(*p)[len(*p)-1]))
	}
	for i := 0; c.sends() && i < len(*p); i++ {
		c.add(field, Marshal(M(&(*p)[i])))
	}
}
