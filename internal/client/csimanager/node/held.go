package node

import (
	"cmp"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/wire"
)

// HeldBy tells what this node holds of volumes for an alloc, so that servers that do not know it can take it over.
func (k *Keeper) HeldBy(alloc ids.Alloc) (out []wire.HeldVolume) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, vs := range k.vols {
		if held, ok := vs.entry.HeldBy(alloc); ok {
			out = append(out, held)
		}
	}
	slices.SortFunc(out, func(a, b wire.HeldVolume) int { return cmp.Compare(a.Alias, b.Alias) })
	return out
}
