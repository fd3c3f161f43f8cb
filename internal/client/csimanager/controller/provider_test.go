package controller_test

import (
	"strings"
	"testing"

	"berth/internal/wire"
)

// The servers hear of a change of the plugin a moment after the node has made it.
func TestACallForAnotherProviderIsNotMade(t *testing.T) {
	b := newBench(t)
	for generation, provider := range []string{"other.csi", "fake.csi.berth.test", ""} {
		b.ask(wire.ControllerCall{
			Kind:       wire.CallDelete,
			Subject:    "v",
			Generation: uint64(generation),
			Provider:   provider,
			Volume:     &wire.VolumeArgs{ExternalID: "v-1"},
		})
		r, foreign := <-b.results, provider == "other.csi"
		if said := r.Err != nil && strings.Contains(r.Err.Message, `belongs to provider "other.csi"`); said != foreign {
			t.Errorf("for provider %q: %+v", provider, r)
		}
		asked := strings.Contains(strings.Join(b.p.Calls(), " "), "DeleteVolume")
		if asked == foreign {
			t.Errorf("for provider %q the plugin saw %v", provider, b.p.Calls())
		}
	}
}
