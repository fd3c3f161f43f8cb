package holders

import (
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
)

// boundedWords is the schema from which on it counts who says that a volume has grown.
const boundedWords = 16

// Grown reports whether a volume has its size wherever it is staged, and is staged somewhere. That it is counts where
// it was given: the word of another node would let it stay small for those that were.
func Grown(s *state.Snap, k volume.StagingKey, capacity int64) bool {
	grown := false
	for i := range s.InventoriesOf(nil, k) {
		if !i.Entry.Staging.Exists() {
			continue
		}
		if i.Entry.ExpandedTo < capacity {
			return false
		}
		grown = grown || !s.Understands(boundedWords) || suspension.ClaimedOn(s, nil, k, i.Node)
	}
	return grown
}
