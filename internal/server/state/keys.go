package state

import (
	"fmt"
	"strings"
)

// Key is an ordered, prefix-free encoding of one or more texts: every part is ended by a NUL, so that the key of a
// shorter tuple is a prefix of the keys that extend it and of no others.
type Key string

const escapedNUL = "\x00\xff"

// KeyOf builds a key from its parts.
func KeyOf[T ~string](parts ...T) Key {
	var b strings.Builder
	for _, p := range parts {
		s := string(p)
		if strings.IndexByte(s, 0) >= 0 {
			s = strings.ReplaceAll(s, "\x00", escapedNUL)
		}
		b.WriteString(s)
		b.WriteByte(0)
	}
	return Key(b.String())
}

// with appends whole parts.
func (k Key) with(parts ...string) Key { return k + KeyOf(parts...) }

// open appends the beginning of a part, for scans by prefix.
func (k Key) open(prefix string) Key { return k + Key(prefix) }

// number writes n so that texts order as numbers do.
func number(n uint64) string { return fmt.Sprintf("%016x", n) }
