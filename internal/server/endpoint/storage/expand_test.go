package storage

import (
	"testing"

	"berth/internal/model/volume"
)

// Who waits for an expansion may miss what the volume went through meanwhile; the answer is the same.
func TestTheEndOfAnExpansionIsReadFromWhatIsLeftOfIt(t *testing.T) {
	of := func(phase volume.Phase, wanted, has int64, err string) *volume.Volume {
		return &volume.Volume{
			Spec:   volume.Spec{CapacityMin: wanted},
			Status: volume.Status{Phase: phase, Capacity: has, LastError: err},
		}
	}
	const another = "another size of 3000 bytes was asked for meanwhile"
	for what, test := range map[string]struct {
		asked, now       *volume.Volume
		outcome, refused string
	}{
		"under way": {asked: of("expanding", 4000, 1000, ""), now: of("expanding", 4000, 1000, "no room")},
		"done":      {asked: of("expanding", 4000, 1000, ""), now: of("ready", 4000, 4000, ""), outcome: "expanded"},
		"a smaller one under way": {
			asked:   of("expanding", 4000, 1000, ""),
			now:     of("expanding", 3000, 1000, ""),
			refused: another,
		},
		"a smaller one done": {
			asked:   of("expanding", 4000, 1000, ""),
			now:     of("ready", 3000, 3000, ""),
			refused: another,
		},
		"a smaller one refused": {
			asked:   of("expanding", 4000, 1000, ""),
			now:     of("ready", 3000, 1000, volume.ExpansionRefused+"no"),
			refused: another,
		},
		"a larger one done": {
			asked:   of("expanding", 2000, 1000, ""),
			now:     of("ready", 3000, 3000, ""),
			outcome: "expanded",
		},
		"cancelled": {
			asked:   of("expanding", 4000, 1000, ""),
			now:     of("ready", 1000, 1000, ""),
			refused: "it was cancelled",
		},
		"the cancelling": {asked: of("ready", 1000, 1000, ""), now: of("ready", 1000, 1000, ""), outcome: "cancelled"},
		"refused": {
			asked:   of("expanding", 4000, 1000, ""),
			now:     of("ready", 4000, 1000, volume.ExpansionRefused+"no"),
			refused: "no",
		},
		"deleted": {
			asked:   of("expanding", 4000, 1000, ""),
			now:     of("deleting", 4000, 1000, ""),
			refused: "it is deleting",
		},
	} {
		if outcome, refused := expansionEnd(test.asked, test.now); outcome != test.outcome || refused != test.refused {
			t.Errorf("%s: %q, %q", what, outcome, refused)
		}
	}
}
