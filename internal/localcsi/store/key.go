package store

import (
	"crypto/rand"
	"encoding/hex"
)

const keyLen = 24

// NewKey makes a key that no other record has.
func NewKey() string {
	var b [keyLen / 2]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails since Go 1.24
	return hex.EncodeToString(b[:])
}

// ValidKey reports whether s could be a key, and so is harmless as a path segment.
func ValidKey(s string) bool {
	if len(s) != keyLen {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}
