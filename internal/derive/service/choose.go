package service

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"
)

// Choose picks up to n of them by key, always the same while they are the same, and most of the same when one comes or
// goes (rendezvous hashing: each is weighed with the key, the heaviest are taken).
func Choose(all []*Registration, n int, key string) []*Registration {
	weight := func(r *Registration) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(key + "\x00" + r.ID)) // it cannot fail
		return mixed(h.Sum64())
	}
	out := slices.Clone(all)
	slices.SortFunc(out, func(a, b *Registration) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), strings.Compare(a.ID, b.ID))
	})
	return out[:min(max(n, 0), len(out))]
}

// mixed spreads a hash over all its bits: texts that differ at their end alone would weigh almost the same (the
// finalizer of MurmurHash3, public domain).
func mixed(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
