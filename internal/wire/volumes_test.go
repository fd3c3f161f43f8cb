package wire

import (
	"testing"

	"berth/internal/model/volume"
)

// Given claims that hold a volume, release it or wait for it, when it is listed, then those are counted that use it: a
// volume for one writer does not seem to have two while it goes from one to the next.
func TestWhoWaitsForAVolumeIsNotCountedAsItsUser(t *testing.T) {
	claim := func(state volume.ClaimState, reads bool) *volume.Claim {
		return &volume.Claim{State: state, ReadOnly: reads}
	}
	v := &VolumeView{Volume: &volume.Volume{}, Claims: []*volume.Claim{
		claim(volume.Releasing, false), claim(volume.Queued, false), claim(volume.Queued, true),
		claim(volume.Held, true), claim(volume.Held, true),
	}}
	if l := v.Line(); l.Writers != 1 || l.Readers != 2 {
		t.Errorf("%d writers and %d readers are counted, not 1 and 2", l.Writers, l.Readers)
	}
}
