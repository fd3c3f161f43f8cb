package membership

import "fmt"

// Other is a server of the list beside the one that is to be taken off, as the server that leads sees it.
type Other struct {
	Votes   bool
	Answers bool // and is not about to stop
	// Asked: it is asked to leave, too, and waits for an answer.
	Asked bool
	// Left: it was taken off, and the one that is to be taken off did not know of that when it was asked to leave: both
	// were asked at once.
	Left bool
}

// stays says why a server that votes is not taken off; empty: it may be. The others have to go on without it: of those
// that then vote, a majority answers. Where others leave at once with it those that were there before the first of them
// are counted: however many are stopped together, a majority of them stays, and comes back.
func stays(others []Other) string {
	var rest, voters, answer, left int
	together := false
	for _, o := range others {
		switch {
		case o.Left:
			left++
			continue
		case o.Votes:
			voters++
			if o.Answers {
				answer++
			}
		}
		rest++
		together = together || o.Asked
	}
	switch there := voters + left + 1; {
	case rest == 0:
		return "it is the only one"
	case answer*2 <= voters:
		return fmt.Sprintf("of the %d others that vote %d answer, which is no majority", voters, answer)
	case (left > 0 || together) && answer*2 <= there:
		return fmt.Sprintf("%d voted when it was asked to leave, %d have left since, and %d would answer without it, "+
			"which is no majority of those that were there", there, left, answer)
	}
	return ""
}
