// Package ids owns identifiers: their types, how new ones are made, which texts are acceptable and how an outside
// string becomes a path segment. No outside string is ever a path segment itself.
package ids

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Types of identifiers. They are distinct so that a node's id cannot be handed over where an alloc's is meant.
type (
	Alloc      string // UUID
	Node       string // UUID
	Eval       string // UUID
	Deployment string // UUID
	Scaling    string // UUID, of a policy
	Plugin     string // CSI plugin id, as the csi_plugin block spells it
	Job        string // as the user spelled it
	Namespace  string
	Volume     string // as the user spelled it, unique in its namespace
)

// Typed is how the arguments of a command name what lives in a namespace: the default one goes without saying. Who
// pastes it into a shell runs that command and nothing that the id's author thought of.
func Typed[T ~string](ns Namespace, id T) string {
	text := quoted(string(id))
	if strings.HasPrefix(string(id), "-") {
		text = "-- " + text // it is no flag
	}
	if ns == DefaultNamespace || ns == "" {
		return text
	}
	return "-namespace " + quoted(string(ns)) + " " + text
}

// quoted is a word of a shell (POSIX.1-2017, Shell Command Language, 2.2.2).
func quoted(word string) string {
	const plain = "%+,-./:=@_"
	if word != "" && strings.IndexFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(plain, r)
	}) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// DefaultNamespace holds what names no namespace; ReservedNamespace holds Berth's own jobs.
const (
	DefaultNamespace  Namespace = "default"
	ReservedNamespace Namespace = "berth"
)

// New returns a random UUID (version 4) in its 36-character form.
func New() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails since Go 1.24
	return uuid(4, b[:])
}

// Derived makes a UUID of a seed and the parts that tell what one command makes apart: who applies the command again
// makes the same.
func Derived(seed string, parts ...string) string {
	h := sha256.New()
	for _, p := range append([]string{seed}, parts...) {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return uuid(8, h.Sum(nil)[:16]) // version 8: made by an application's own rule
}

// uuid marks 16 bytes as a UUID of a version (RFC 9562, section 4) and writes them.
func uuid(version byte, b []byte) string {
	b[6] = b[6]&0x0f | version<<4
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// IsUUID reports whether s has the 36-character form.
func IsUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return false
		}
	}
	return true
}

// Segment turns any string into a safe path segment of 24 characters: the first 96 bits of its SHA-256 in hex.
func Segment(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:24]
}

// ValidVolume checks a volume id: [A-Za-z0-9][A-Za-z0-9._\[\]-]{0,127} and no "..".
func ValidVolume(s string) error {
	if err := bounded(s, 128); err != nil {
		return err
	}
	for i := range len(s) {
		c := s[i]
		if alnum(c) || i > 0 && (c == '.' || c == '_' || c == '-' || c == '[' || c == ']') {
			continue
		}
		return fmt.Errorf("character %q is not allowed; use letters, digits, and after the first character . _ - [ ]",
			c)
	}
	if strings.Contains(s, "..") {
		return errors.New(`".." is not allowed`)
	}
	return nil
}

// ValidName checks names of plugins, namespaces and host volumes: [A-Za-z0-9][A-Za-z0-9._-]{0,127} and no "..".
func ValidName(s string) error {
	if strings.ContainsAny(s, "[]") {
		return errors.New("brackets are not allowed")
	}
	return ValidVolume(s)
}

// ValidJob checks a job id: 1 to 128 bytes of printable UTF-8 (nothing that steers a terminal) without space. Slashes
// are legal (children of periodic and parameterized jobs have them), and so are backslashes: no job's id becomes the
// name of a file. Path dots as whole segments are not.
func ValidJob(s string) error {
	if err := bounded(s, 128); err != nil {
		return err
	}
	for _, r := range s {
		if r == ' ' || !unicode.IsPrint(r) {
			return fmt.Errorf("character %q is not allowed: it has printable characters, and no space", r)
		}
	}
	for seg := range strings.SplitSeq(s, "/") {
		if seg == "" || seg == "." || seg == ".." {
			return errors.New(`empty, "." and ".." segments are not allowed`)
		}
	}
	return nil
}

// ValidTask checks names of groups and tasks: they become directories, so only 1 to 128 bytes of printable UTF-8
// without slash, backslash, or a leading dot, and not the name of the directory that lies beside theirs.
func ValidTask(s string) error {
	if err := bounded(s, 128); err != nil {
		return err
	}
	if s[0] == '.' {
		return errors.New("a leading dot is not allowed")
	}
	if s == "alloc" {
		return errors.New(`the name "alloc" is taken by the directory that the tasks of a group share`)
	}
	for _, r := range s {
		if r == '/' || r == '\\' || !unicode.IsPrint(r) {
			return fmt.Errorf("character %q is not allowed", r)
		}
	}
	return nil
}

func bounded(s string, limit int) error {
	switch {
	case s == "":
		return errors.New("it is empty")
	case len(s) > limit:
		return fmt.Errorf("it has %d bytes, the limit is %d", len(s), limit)
	case !utf8.ValidString(s):
		return errors.New("it is not valid UTF-8")
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("it contains a NUL byte")
	}
	return nil
}

func alnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// Short is the form of an id that people read: its first 8 characters.
func Short[T ~string](id T) string {
	if len(id) > 8 {
		return string(id[:8])
	}
	return string(id)
}
