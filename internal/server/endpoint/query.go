package endpoint

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"berth/internal/server/state"
	"berth/internal/wire"
)

// read serves a read, blocking if the query says so: fn fills the reply and returns the index of what it read.
func (e *Endpoints) read(
	ctx context.Context, q wire.Query, m *wire.Meta, fn func(*state.Snap, *state.Watch) (uint64, error),
) error {
	wait := q.Wait
	if wait <= 0 || wait > state.DefaultWait {
		wait = state.DefaultWait
	}
	wait += time.Duration(rand.Int64N(int64(wait)/16 + 1)) // clients that began together don't come back together
	return state.Block(ctx, e.cfg.Store, q.MinIndex, wait, func(s *state.Snap, w *state.Watch) (uint64, error) {
		index, err := fn(s, w)
		m.Index, m.KnownLeader = max(1, index), e.cfg.Cluster.Leading()
		return m.Index, err
	})
}

// uuidPrefix gives a prefix of hex digits the hyphens of a UUID.
func uuidPrefix(p string) string {
	p = strings.ToLower(strings.ReplaceAll(p, "-", ""))
	var b strings.Builder
	for i, r := range p {
		if i == 8 || i == 12 || i == 16 || i == 20 {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return b.String()
}
