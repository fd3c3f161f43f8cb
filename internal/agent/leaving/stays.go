package leaving

import (
	"fmt"

	"berth/internal/wire"
)

// stays says why a server that stops stays one of the cluster; empty: it may leave. holds: the node beside it
// holds something. The others have to go on without it: of those that then vote, a majority answers.
func stays(all []wire.ServerStatus, name string, holds bool) string {
	rest, voters := 0, 0
	answer, listed := 0, false
	for _, s := range all {
		switch {
		case s.Name == name:
			listed = !s.Unlisted
		case s.Removed.IsZero():
			rest++
			if s.Voter {
				voters++
			}
			if s.Voter && s.Alive {
				answer++
			}
		}
	}
	switch {
	case !listed:
		return "it is in no list"
	case rest == 0:
		return "it is the only one"
	case answer*2 <= voters:
		return fmt.Sprintf("of the %d others that vote %d answer, which is no majority", voters, answer)
	case holds:
		return "the node beside it holds allocations or volumes, which are found again with this server alone"
	}
	return ""
}
