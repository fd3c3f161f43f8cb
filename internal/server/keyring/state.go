package keyring

import (
	"fmt"
	"path/filepath"

	"berth/internal/base/fault"
	"berth/internal/server/state"
)

// Unopened tries everything that is sealed in a state, and the keys that it is sealed with; it returns what this server
// does not open, and how many there are.
func (k *Keyring) Unopened(s *state.Snap) (bad []error, all int) {
	for key := range s.DataKeys(nil) {
		all++
		if _, err := k.dataKey(s, key.ID); err != nil {
			bad = append(bad, err)
		}
	}
	for key := range s.SigningKeys(nil) {
		all++
		if _, err := k.signing(s, key); err != nil {
			bad = append(bad, err)
		}
	}
	if s.Authority(nil) != nil {
		all++
		if _, err := k.authority(s); err != nil {
			bad = append(bad, err)
		}
	}
	for e := range s.Secrets(nil) {
		all++
		if _, err := k.Open(s, e.Name, e.Data); err != nil {
			bad = append(bad, err)
		}
	}
	return bad, all
}

// Fits refuses a key that opens nothing of what is sealed in a state: it is another one than that of these servers, who
// would seal more with it. Where it opens some, those that it does not open are refused one by one, as they are used;
// where nothing is sealed any key will do.
func (k *Keyring) Fits(s *state.Snap) error {
	bad, all := k.Unopened(s)
	if all == 0 || len(bad) < all {
		return nil
	}
	return fault.WithHint(
		fault.New(fault.Invalid, "open key", k.path, fmt.Sprintf("it is another key than the one that all %d entries "+
			"sealed in the servers' state were sealed with; nothing was changed, and no volume was touched", all)),
		"restore the file from a copy; without it no stored secret can be opened. Or, to begin with an empty state, "+
			"move "+filepath.Dir(filepath.Dir(k.path))+" away: what runs goes on")
}
