package planner

import (
	"testing"

	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// Given a node without capacity for another volume of a plugin, or one at which a volume is permanently refused for a
// use, when an alloc is to be placed there, then that stands in the way of what is not attached there yet: of every
// volume, or of that one for that use.
func TestWhatStandsInTheWayOfAnAttachment(t *testing.T) {
	full := plugin.ShortageKey{Node: "n", Plugin: "p"}
	refused := plugin.ShortageKey{Node: "n", Plugin: "p", ExternalID: "x"}
	at := func(is volume.Presence) func(*state.Tx) {
		return func(tx *state.Tx) {
			tx.PutAttachment(&volume.Attachment{Node: "n", Plugin: "p", ExternalID: "x", Presence: is})
		}
	}
	put := func(s plugin.Shortage) func(*state.Tx) {
		return func(tx *state.Tx) { tx.PutShortage(&s) }
	}
	for what, test := range map[string]struct {
		given []func(*state.Tx)
		want  bool
	}{
		"nothing":               {},
		"no capacity":           {given: []func(*state.Tx){put(plugin.Shortage{ShortageKey: full})}, want: true},
		"it may be tried again": {given: []func(*state.Tx){put(plugin.Shortage{ShortageKey: full, Over: true})}},
		"it may be attached": {
			given: []func(*state.Tx){put(plugin.Shortage{ShortageKey: full}), at(volume.Uncertain)},
		},
		"refused": {
			given: []func(*state.Tx){put(plugin.Shortage{ShortageKey: refused, Use: "u"})},
			want:  true,
		},
		"refused for another use": {given: []func(*state.Tx){put(plugin.Shortage{ShortageKey: refused, Use: "o"})}},
		"refused, and it is there": {
			given: []func(*state.Tx){put(plugin.Shortage{ShortageKey: refused, Use: "u"}), at(volume.Present)},
		},
	} {
		c := localstate.New(t)
		stamp := c.Store.Snapshot().Stamp()
		stamp.Index++
		if err := c.Store.Write(stamp, func(tx *state.Tx) error {
			for _, fn := range test.given {
				fn(tx)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		r := &reader{snap: c.Store.Snapshot()}
		got := r.Shortage("n", volume.StagingKey{Plugin: "p", ExternalID: "x"}, "u")
		if (got != nil) != test.want {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
