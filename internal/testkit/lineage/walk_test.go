package lineage

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

var (
	walks    = flag.Int("lineage.walks", 12, "how many random walks are made")
	walkSeed = flag.Uint64("lineage.seed", 1, "of the first walk; the next has the next one")
	walkLong = flag.Int("lineage.steps", 5, "how much befalls the world in each")
)

// befalls is the alphabet of the walks: what befalls nodes and servers, and what ends by that.
var befalls = slices.Concat(nodesSuffer[:3], nodesSuffer[5:6], serversSuffer[:2], serversSuffer[3:], []deed{
	{"cold backup of after the claim, while it is attached", func(s *scene) {
		// What a put back state says to be attached and is not, it finds out by a recovery alone: until a person begins
		// it, nodes may ask in vain for what the provider has detached since.
		if s.provider.isAttached("x-1", s.ash) {
			s.older = true
			s.servers.putBack(s.late)
		}
	}},
	{"the agent of ash is killed", func(s *scene) { s.ash.kill() }},
	{"the agent of ash is started", func(s *scene) { s.ash.on() }},
	{"the agent of oak is killed", func(s *scene) { s.oak.kill() }},
	{"the agent of oak is started", func(s *scene) { s.oak.on() }},
	{"oak crashes and reboots", func(s *scene) { s.oak.off(); s.oak.on() }},
	{"a person does what the product says", func(s *scene) { s.finish() }},
	{"jobs are stopped", func(s *scene) { s.stopAll() }},
	{"a job is submitted", func(s *scene) {
		if s.forgotten() { // nobody can know of its use: a person has a look first
			s.finish()
		}
		s.submitSecond()
	}},
})

// Given any order of what may befall servers and nodes, drawn by a seed, when a person then does what the product says,
// then nothing was broken on the way, and everything comes to rest. A walk that fails is cut down to the deeds that it
// needs, and says them.
func TestARandomWalkThroughFaultsComesToRest(t *testing.T) {
	n, long := *walks, *walkLong
	if testing.Short() {
		n, long = 4, 4
	}
	for i := range n {
		seed := *walkSeed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			deeds := draw(seed, long)
			if failed := walk(t, deeds); failed == "" {
				return
			}
			for i := 0; i < len(deeds); { // what is not needed goes
				if without := slices.Delete(slices.Clone(deeds), i, i+1); walk(t, without) != "" {
					deeds = without
				} else {
					i++
				}
			}
			t.Errorf("%s\nit takes: %s", walk(t, deeds), strings.Join(names(deeds), "; "))
		})
	}
}

func draw(seed uint64, n int) (out []deed) {
	r := rand.New(rand.NewPCG(seed, 0))
	for range n {
		out = append(out, befalls[r.IntN(len(befalls))])
	}
	return out
}

func names(deeds []deed) (out []string) {
	for _, d := range deeds {
		out = append(out, d.name)
	}
	return out
}

// broken is how a walk stops that has failed.
type broken string

// caught notes how a walk has failed that stopped. It is deferred.
func caught(failed *string) {
	switch b := recover().(type) {
	case nil:
	case broken:
		*failed = string(b)
	default:
		panic(b)
	}
}

// walk makes one, and says how it failed; empty: it did not.
func walk(t *testing.T, deeds []deed) (failed string) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		defer s.close()
		defer caught(&failed)
		s.stops = func(text string) { panic(broken(text)) }
		s.befall(deeds)
	})
	return failed
}
