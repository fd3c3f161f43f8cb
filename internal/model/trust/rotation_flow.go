package trust

import (
	"slices"
	"time"
)

// Overlap is how long a root that was replaced is trusted beside the one that took its place.
const Overlap = 90 * 24 * time.Hour

// Former is a root that was replaced, and is trusted yet.
type Former struct {
	Root []byte // DER
	// Cross is the certificate by which it vouches for the present root; empty: it does not.
	Cross []byte `cbor:",omitempty"` // DER
	Until time.Time
}

// Knows tells whether a member of a cluster whose root was made at a time would believe what that root issues: it has
// shown that it keeps the root, or has joined since and was given it by the answer.
func (m *Member) Knows(root KeyID, made time.Time) bool {
	return m.Root == root || m.Joined.After(made)
}

// Unite is what a cluster trusts besides its present root when a state takes the place of another: every root that was
// trusted in either, each until the later of its ends. known are those of the state whose present root goes on, and
// stay as they are otherwise.
func Unite(present []byte, known, other []Former) []Former {
	out := slices.Clone(known)
	for _, f := range other {
		at := slices.IndexFunc(out, func(k Former) bool { return slices.Equal(k.Root, f.Root) })
		switch {
		case slices.Equal(f.Root, present):
		case at < 0:
			f.Cross = nil // it vouches for another one
			out = append(out, f)
		case f.Until.After(out[at].Until):
			out[at].Until = f.Until
		}
	}
	return out
}
