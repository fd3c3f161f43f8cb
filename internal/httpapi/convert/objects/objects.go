// Package objects owns what the public forms of all objects share that people write whole: the hash by which clients
// compare them, and that a body names what its path does. Only httpapi imports it.
package objects

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"berth/internal/base/fault"
)

// Hash tells whether an object is the same as before, to clients that compare.
func Hash(parts ...any) []byte {
	text, err := json.Marshal(parts)
	if err != nil {
		panic("convert: " + err.Error()) // texts, and lists and maps of texts
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

// SameName makes sure that a body names what the path does. Where one of them names nothing it is the other's word.
func SameName(what, body, path string) (string, error) {
	if body != "" && path != "" && body != path {
		return "", fault.New(fault.Invalid, "", "", fmt.Sprintf("%s %q of the body is not %q of the path", what, body,
			path))
	}
	return max(body, path), nil
}
