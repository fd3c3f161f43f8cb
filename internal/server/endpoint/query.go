package endpoint

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"berth/internal/server/state"
	"berth/internal/wire"
)

// read serves a read, blocking if the query says so: fn fills the reply and returns the index of what it read.
func (e *Endpoints) read(ctx context.Context, q wire.Query, m *wire.Meta, fn func(*state.Snap, *state.Watch) (uint64, error)) error {
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

// page cuts one page out of a list that is in ascending order of key, and names the first object of the next page. A
// query with a filter is not cut: the HTTP layer filters first.
func page[T any](q wire.Query, all []T, key func(T) string) ([]T, string) {
	if q.Reverse {
		slices.Reverse(all)
	}
	if q.PerPage <= 0 || q.Filter != "" {
		return all, ""
	}
	if q.NextToken != "" {
		all = all[from(q, all, key):]
	}
	if len(all) <= q.PerPage {
		return all, ""
	}
	return all[:q.PerPage], key(all[q.PerPage])
}

// from finds where the page of a token begins: at the object it names, or where that would be.
func from[T any](q wire.Query, all []T, key func(T) string) int {
	if i := slices.IndexFunc(all, func(o T) bool { return key(o) == q.NextToken }); i >= 0 {
		return i
	}
	i := slices.IndexFunc(all, func(o T) bool {
		c := compareTokens(key(o), q.NextToken)
		return c > 0 && !q.Reverse || c < 0 && q.Reverse
	})
	if i < 0 {
		return len(all)
	}
	return i
}

// compareTokens orders tokens with a number in front by that number.
func compareTokens(a, b string) int {
	an, arest, _ := strings.Cut(a, ".")
	bn, brest, _ := strings.Cut(b, ".")
	if digits(an) && digits(bn) {
		if c := cmp.Compare(len(an), len(bn)); c != 0 {
			return c
		}
	}
	return cmp.Or(strings.Compare(an, bn), strings.Compare(arest, brest))
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
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
