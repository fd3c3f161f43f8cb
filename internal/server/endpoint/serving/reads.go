package serving

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"berth/internal/server/state"
	"berth/internal/wire"
)

// Read serves a read, blocking if the query says so: fn fills the reply and returns the index of what it read. Whoever
// has lost the right to it while it blocked gets that for an answer.
func (b Base) Read(
	ctx context.Context, q wire.Query, m *wire.Meta, fn func(*state.Snap, *state.Watch) (uint64, error),
) error {
	wait := q.Wait
	if wait <= 0 || wait > state.DefaultWait {
		wait = state.DefaultWait
	}
	wait += time.Duration(rand.Int64N(int64(wait)/16 + 1)) // clients that began together don't come back together
	return state.Block(ctx, b.Store, q.MinIndex, wait, func(s *state.Snap, w *state.Watch) (uint64, error) {
		if err := Again(ctx, s, w); err != nil {
			return 0, err
		}
		index, err := fn(s, w)
		m.Index = max(1, index)
		m.LastContact, m.KnownLeader = b.Cluster.Contact()
		return m.Index, err
	})
}

// UUIDPrefix gives a prefix of hex digits the hyphens of a UUID.
func UUIDPrefix(p string) string {
	p = strings.ToLower(strings.ReplaceAll(p, "-", ""))
	var out strings.Builder
	for i, r := range p {
		if i == 8 || i == 12 || i == 16 || i == 20 {
			out.WriteByte('-')
		}
		out.WriteRune(r)
	}
	return out.String()
}
