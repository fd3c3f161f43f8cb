package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestStoppedAtAnyMomentOfItsStart: given a job with a volume, when it is stopped 0 to 100 ms after it was registered,
// then its claim ends, every time, and the volume can be deleted. The plugin takes its time to publish, so that most of
// the stops meet a volume that is asked for, reported, saved or staged. BERTH_E2E_ROUNDS asks for another number of
// rounds.
func TestStoppedAtAnyMomentOfItsStart(t *testing.T) {
	rounds := 60
	if n, err := strconv.Atoi(os.Getenv("BERTH_E2E_ROUNDS")); err == nil {
		rounds = n
	}
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	p.rules("(NodePublish * delay 120ms)")
	m.create("a", "own")
	var took []time.Duration
	for i := range rounds {
		id := fmt.Sprintf("early-%d", i)
		m.run(writer{id: id, volume: "a"}.hcl())
		pause := rand.N(100 * time.Millisecond)
		time.Sleep(pause)
		t.Logf("round %d: stopped after %s", i, pause)
		begun := time.Now()
		m.tellStop(id)
		m.free("a")
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	t.Logf("%d rounds; the volume was free after %s in the middle, %s at the latest", rounds, took[len(took)/2],
		took[len(took)-1])
	p.atRest("a")
	m.remove("a")
}
