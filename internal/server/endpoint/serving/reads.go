package serving

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"berth/internal/server/state"
	"berth/internal/wire"
)

// maxWait bounds a blocking query's wait, and is that of one which says none.
const maxWait = 5 * time.Minute

// Read serves a read, blocking if the query says so: fn fills the reply and returns the index of what it read. Whoever
// has lost the right to it while it blocked gets that for an answer.
func (b Base) Read(
	ctx context.Context, q wire.Query, m *wire.Meta, fn func(*state.Snap, *state.Watch) (uint64, error),
) error {
	wait := q.Wait
	if wait <= 0 || wait > maxWait {
		wait = maxWait
	}
	wait += time.Duration(rand.Int64N(int64(wait)/16 + 1)) // clients that began together don't come back together
	return block(ctx, b.Store, q.MinIndex, wait, func(s *state.Snap, w *state.Watch) (uint64, error) {
		if err := Again(ctx, s, w); err != nil {
			return 0, err
		}
		index, err := fn(s, w)
		m.Index = max(1, index)
		m.LastContact, m.KnownLeader = b.Cluster.Contact()
		return m.Index, err
	})
}

// block runs a read and repeats it until the index that fn returns is above minIndex or wait is over; then the last
// answer stands. With minIndex 0 it reads once. fn reads from the snapshot and hands the watch to every reader whose
// answer counts; it returns the index of what it read (Snap.ReadIndex, Snap.TableIndex).
func block(
	ctx context.Context, s *state.Store, minIndex uint64, wait time.Duration,
	fn func(*state.Snap, *state.Watch) (uint64, error),
) error {
	if minIndex == 0 {
		_, err := fn(s.Snapshot(), nil)
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		w := state.NewWatch()
		index, err := fn(s.Snapshot(), w)
		if err != nil || index > minIndex {
			return err
		}
		if w.Wait(waiting) != nil {
			return ctx.Err() // the end of the wait is an answer, the end of the caller is not
		}
	}
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
