package cluster

import (
	"testing"

	"berth/api"
)

// Given orphans, then one that runs a plugin for others is ended after all, and one whose record is lost does not wait
// for them: it serves nobody, and what waits for its plugin waits until the servers run it anew.
func TestWhatServesNobodyDoesNotWait(t *testing.T) {
	for want, o := range map[turn]api.NodeOrphan{
		usesOthers:   {RecordLost: true},
		servesNobody: {RecordLost: true, Plugin: true},
		servesOthers: {Plugin: true},
	} {
		if got := turnOf(&o); got != want {
			t.Errorf("%+v: turn %d, want %d", o, got, want)
		}
	}
}
