package request

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/store"
)

// An id from outside reads "vol-<24 hex digits>@<node id>" or "snap-…@…". Only the 24 digits, checked one by one, ever
// become a path segment.
const (
	VolumePrefix   = "vol-"
	SnapshotPrefix = "snap-"

	maxNodeID = 63
)

// Kind says what an external id is to this node.
type Kind int

// The kinds of external ids.
const (
	Malformed Kind = iota // no id of ours
	Elsewhere             // of a volume or snapshot on another node
	Here
)

// ParseID takes an external id apart.
func ParseID(prefix, id, node string) (key string, kind Kind) {
	rest, ok := strings.CutPrefix(id, prefix)
	if !ok {
		return "", Malformed
	}
	key, home, ok := strings.Cut(rest, "@")
	if !ok || !store.ValidKey(key) || NodeID(home) != nil {
		return "", Malformed
	}
	if home != node {
		return "", Elsewhere
	}
	return key, Here
}

// Page cuts one page out of records that are in the order of their keys. A token is the key of the first record of
// the next page, which need not exist any more: pages never repeat a record.
func Page[R store.Record](all []R, token string, limit int32) (cut []R, next string, err error) {
	if limit < 0 {
		return nil, "", Refuse(codes.InvalidArgument, "max_entries %d: it must not be negative", limit)
	}
	if token != "" {
		key, ok := strings.CutPrefix(token, "from-")
		if !ok || !store.ValidKey(key) {
			return nil, "", Refuse(codes.Aborted, "starting_token is not one of ours: begin again without one")
		}
		for len(all) > 0 && keyOf(all[0]) < key {
			all = all[1:]
		}
	}
	if n := int(limit); n > 0 && n < len(all) {
		return all[:n], "from-" + keyOf(all[n]), nil
	}
	return all, "", nil
}

func keyOf(r store.Record) string {
	key, _ := r.Identity()
	return key
}

// NodeID allows what is legal as a topology value and harmless everywhere else.
func NodeID(s string) error {
	if s == "" {
		return errors.New("it is empty")
	}
	if len(s) > maxNodeID {
		return fmt.Errorf("it has %d bytes, the limit is %d", len(s), maxNodeID)
	}
	for i := range len(s) {
		if !isAlnum(s[i]) && (i == 0 || i == len(s)-1 || !strings.ContainsRune("-_.", rune(s[i]))) {
			return fmt.Errorf("character %q is not allowed there; use letters and digits, with - _ . between them",
				s[i])
		}
	}
	return nil
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
