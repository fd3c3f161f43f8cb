package keys

import (
	"slices"

	"berth/internal/model/datakey"
	"berth/internal/server/state"
)

// Unite keeps, in a state that takes the place of the present one of the same cluster, the keys that came since: what
// was sealed with them anywhere opens, and what was signed is believed. What it has itself stays as it is.
func Unite(tx *state.Tx, present *state.Snap) {
	active := tx.ActiveDataKey(nil) != nil
	for _, k := range slices.Collect(present.DataKeys(nil)) {
		if tx.DataKey(nil, k.ID) != nil {
			continue
		}
		kept := *k
		if active && kept.State == datakey.Active {
			kept.State = datakey.Inactive
		}
		tx.PutDataKey(&kept)
	}
	for _, k := range slices.Collect(present.SigningKeys(nil)) {
		if tx.SigningKey(nil, k.ID) == nil {
			kept := *k
			tx.PutSigningKey(&kept)
		}
	}
}
