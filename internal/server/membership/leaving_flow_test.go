package membership

import (
	"strings"
	"testing"
)

// TestAServerIsTakenOffWhereTheOthersGoOn: the whole law, line by line. A letter for each other server: v votes and
// answers, a is asked to leave too, s votes and is silent, n does not vote yet, l has left since this one was asked to.
func TestAServerIsTakenOffWhereTheOthersGoOn(t *testing.T) {
	for _, c := range []struct {
		others string
		why    string // empty: it is taken off
	}{
		{"", "the only one"},
		{"l", "the only one"},
		{"v", ""},
		{"s", "of the 1 others that vote 0 answer"},
		{"n", "of the 0 others that vote 0 answer"},
		{"vv", ""},
		{"vs", "of the 2 others that vote 1 answer"},
		{"vvs", ""},
		{"vn", ""},
		{"vvss", "of the 4 others that vote 2 answer"},
		{"vl", "3 voted when it was asked to leave, 1 have left since, and 1 would answer"},
		{"vvl", "4 voted"},
		{"vvvl", ""},
		{"vvsl", "5 voted when it was asked to leave, 1 have left since, and 2 would answer"},
		{"vvll", "5 voted when it was asked to leave, 2 have left since, and 2 would answer"},
		{"vvvvll", ""},
		{"a", "2 voted when it was asked to leave, 0 have left"},
		{"aa", ""},
		{"va", ""},
		{"al", "3 voted"},
	} {
		var others []Other
		for _, l := range c.others {
			answers := l == 'v' || l == 'a'
			others = append(others, Other{Votes: l != 'n', Answers: answers, Asked: l == 'a', Left: l == 'l'})
		}
		if why := stays(others); (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%q: it stays because %q, want %q", c.others, why, c.why)
		}
	}
}
