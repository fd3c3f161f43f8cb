package membership

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/internal/model/autopilot"
)

// Seen is a voter as the server that leads sees it.
type Seen struct {
	Name string
	// Silent is for how long it has not answered; 0: it answers.
	Silent time.Duration
	// Well is for how long it has been well while it voted; 0: it is not.
	Well time.Duration
}

// Cleanup is what comes of looking at the voters.
type Cleanup struct {
	Remove string        // the server that is to be taken off; empty: none
	Keep   int           // servers that are to stay
	Why    string        // a server that is silent is not taken off; empty: none is silent, or it is taken off
	Look   time.Duration // after which to look again, if nothing changes before; 0: there is no need to
}

// Dead is how long a server is silent, at least, before it is taken for dead: one that starts again is back by then.
const Dead = time.Minute

// cleanup says which server is to be taken off, and what stands in the way. None is taken off that could be needed: so
// many others as there are to be have voted and been well for the stabilisation time, they are a majority of those that
// vote now, and one more than there are to be votes.
func cleanup(by autopilot.Config, expect int, seen []Seen) Cleanup {
	silent := slices.DeleteFunc(slices.Clone(seen), func(s Seen) bool { return s.Silent == 0 })
	if len(silent) == 0 {
		return Cleanup{}
	}
	slices.SortFunc(silent, func(a, b Seen) int {
		if a.Silent != b.Silent {
			return int(max(-1, min(1, b.Silent-a.Silent)))
		}
		return strings.Compare(a.Name, b.Name)
	})
	need, first := max(expect, int(by.MinQuorum)), silent[0]
	switch {
	case !by.CleanupDead:
		return Cleanup{Why: "CleanupDeadServers is false"}
	case need < 1:
		return Cleanup{Why: "neither MinQuorum nor bootstrap_expect says how many servers there are to be"}
	case len(seen) <= need:
		return Cleanup{Why: fmt.Sprintf("%d servers vote, and there are to be %d: another one has to join first",
			len(seen), need)}
	}
	steady, next := 0, by.Stabilization
	for _, s := range seen {
		switch {
		case s.Silent > 0:
		case s.Well > 0 && s.Well >= by.Stabilization:
			steady++
		case s.Well > 0:
			next = min(next, by.Stabilization-s.Well)
		}
	}
	switch dead := max(Dead, by.Stabilization); {
	case steady < need || steady*2 <= len(seen):
		return Cleanup{
			Why:  fmt.Sprintf("%d others have been well for %s, and it takes %d", steady, by.Stabilization, need),
			Look: max(next, time.Second),
		}
	case first.Silent < dead:
		return Cleanup{Why: fmt.Sprintf("it is taken for dead after %s", dead), Look: dead - first.Silent}
	}
	return Cleanup{Remove: first.Name, Keep: need}
}
