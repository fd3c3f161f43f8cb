package filing

import "strings"

// Key is an ordered, prefix-free encoding of one or more texts: every part is ended by a NUL, so that the key of a
// shorter tuple is a prefix of the keys that extend it and of no others.
type Key string

const escapedNUL = "\x00\xff"

// KeyOf builds a key from its parts.
func KeyOf[T ~string](parts ...T) Key { return join("", parts) }

// With appends whole parts.
func (k Key) With(parts ...string) Key { return join(k, parts) }

// join makes a key by one allocation, unless a part holds a NUL: keys are what the state makes most of.
func join[T ~string](begin Key, parts []T) Key {
	size := len(begin) + len(parts)
	for _, p := range parts {
		size += len(p)
	}
	var b strings.Builder
	b.Grow(size)
	b.WriteString(string(begin))
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

// Open appends the beginning of a part, for scans by prefix.
func (k Key) Open(prefix string) Key { return k + Key(prefix) }

// Number writes n so that texts order as numbers do.
func Number(n uint64) string {
	var out [16]byte
	for i := range out {
		out[len(out)-1-i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
	return string(out[:])
}
