// Package redact owns the type of values that must never be shown: a Secret prints as *** in every formatter, in JSON
// and in logs, and refuses CBOR. Its content is read by name, with Reveal, at the call that needs it. Every package may
// import it.
package redact

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mask is what a secret looks like to everybody who does not call Reveal.
const Mask = "***"

// Secret is a value that no formatter shows. The zero value is empty and formats as the empty string. Compare with
// Equal: two secrets of the same content are not == each other.
type Secret struct {
	// A pointer, because fmt does not ask the methods of values in unexported fields: it prints what lies in them, and
	// there it must find an address.
	v *string
}

// New wraps a value.
func New(v string) Secret {
	if v == "" {
		return Secret{}
	}
	return Secret{&v}
}

// Reveal returns the content. Call it only where the value leaves for its destination.
func (s Secret) Reveal() string {
	if s.v == nil {
		return ""
	}
	return *s.v
}

// Empty reports whether there is no content.
func (s Secret) Empty() bool { return s.v == nil }

// Equal compares contents, in a time that tells nothing but their lengths.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

func (s Secret) String() string {
	if s.Empty() {
		return ""
	}
	return Mask
}

// GoString masks %#v.
func (s Secret) GoString() string { return fmt.Sprintf("redact.Secret(%q)", s.String()) }

// Format masks every verb, %x and %q of the underlying struct included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText masks JSON and every other text form.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue masks slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Map is a set of named secrets; its keys may be shown.
type Map map[string]Secret

// MapOf wraps every value. An empty input gives nil.
func MapOf(m map[string]string) Map {
	if len(m) == 0 {
		return nil
	}
	out := make(Map, len(m))
	for k, v := range m {
		out[k] = New(v)
	}
	return out
}

// Reveal returns a fresh plain map for the call that needs it; nil when empty.
func (m Map) Reveal() map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v.Reveal()
	}
	return out
}

// How values are looked for in what others say. From enough bytes on a value is found wherever it stands. A shorter one
// is found as a whole word only: "admin" must not make "administrator" unreadable. What has fewer than few bytes is
// never found: it keeps nothing from anybody who guesses, and "1" or "on" stand in every second sentence.
const (
	few    = 4
	enough = 8
)

// Find returns where the first value of a secret stands in text, which one, and its length in bytes; at -1: none. Of
// several at one place it is the longest.
func (m Map) Find(text string) (at int, name string, length int) {
	at = -1
	for n, v := range m {
		value := v.Reveal()
		i := find(text, value)
		better := at < 0 || i < at || i == at && (len(value) > length || len(value) == length && n < name)
		if i >= 0 && better {
			at = i
			name = n
			length = len(value)
		}
	}
	return at, name, length
}

func find(text, value string) int {
	if len(value) < few {
		return -1
	}
	for from := 0; ; {
		i := strings.Index(text[from:], value)
		if i < 0 {
			return -1
		}
		i += from
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(value):])
		if len(value) >= enough || !inWord(before) && !inWord(after) {
			return i
		}
		from = i + 1
	}
}

func inWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// Holds reports whether text has a value of so many bytes that it is no word of its own by chance. It is for names that
// nothing may be cut out of.
func (m Map) Holds(text string) bool {
	for _, v := range m {
		if value := v.Reveal(); len(value) >= enough && strings.Contains(text, value) {
			return true
		}
	}
	return false
}

// Scrub replaces the secrets' values in text, as Find finds them, so that a plugin that echoes a secret in its error
// message does not publish it.
func (m Map) Scrub(text string) string {
	var b strings.Builder
	for {
		at, _, length := m.Find(text)
		if at < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:at] + Mask)
		text = text[at+length:]
	}
}

// MarshalCBOR refuses: a Secret must not reach a log, a snapshot or a store in this form. What crosses the wire or is
// stored is sealed explicitly.
func (s Secret) MarshalCBOR() ([]byte, error) {
	return nil, errors.New("a secret cannot be encoded; seal it first")
}
