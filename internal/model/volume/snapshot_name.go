package volume

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// SnapshotID is the id of a volume's snapshot of a name that a person gave: the same again is the same snapshot.
func SnapshotID(uid, name string) string {
	return digestID(sha256.Sum256([]byte("snapshot\x00" + uid + "\x00" + name)))
}

// SnapshotName is a snapshot's name at the provider: what it is called, made unique by its id.
func SnapshotName(name, id string) string { return name + "-" + id[:8] }

// GivenName is the name by which a person asked for a snapshot of the volume of a uid; empty: without one.
func (s *Snapshot) GivenName(uid string) string {
	if len(s.ID) < 8 {
		return ""
	}
	name, ok := strings.CutSuffix(s.Name, "-"+s.ID[:8])
	if !ok || uid == "" || s.ID != SnapshotID(uid, name) {
		return ""
	}
	return name
}

// digestID is an id made of a digest (RFC 9562, UUID of version 8).
func digestID(h [32]byte) string {
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// FoundSnapshotID is the id of the record of a snapshot that a provider has and the servers did not know.
func FoundSnapshotID(k StagingKey) string {
	return digestID(sha256.Sum256([]byte("unknown snapshot\x00" + string(k.Plugin) + "\x00" + k.ExternalID)))
}
