package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/volume"
)

// TestAStopAtAnyMomentOfAStartReleasesTheVolume: a job is stopped 0 to 100 ms after it was registered, when its want
// may be unreported, reported, saved or fulfilled. Its claim ends every time, and the volume can be deleted in the end.
func TestAStopAtAnyMomentOfAStartReleasesTheVolume(t *testing.T) {
	t.Parallel()
	rounds := 25
	if testing.Short() {
		rounds = 6
	}
	for part := range 4 {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			stopAtAnyMoment(t, rounds)
		})
	}
}

func stopAtAnyMoment(t *testing.T, rounds int) {
	c, _, p := one(t, csitest.Fake{})
	c.mustCreate("db", p, volume.SingleNodeWriter)
	for i := range rounds {
		id := fmt.Sprintf("web-%d", i)
		c.runJob(id, "db", volume.SingleNodeWriter)
		pause := rand.N(100 * time.Millisecond)
		time.Sleep(pause)
		c.stopJob(id)
		c.released()
		if t.Failed() {
			t.Fatalf("round %d, stopped after %s", i, pause)
		}
	}
	if err := c.delete("db", time.Minute); err != nil {
		t.Error(err)
	}
	c.atRest(p)
}
