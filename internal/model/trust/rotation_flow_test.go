package trust

import (
	"testing"
	"time"
)

// TestWhoKnowsARoot: who has shown it, and who joined when it was there already.
func TestWhoKnowsARoot(t *testing.T) {
	for what, c := range map[string]struct {
		member Member
		want   bool
	}{
		"has shown it":          {Member{Root: "new", Joined: start.Add(-time.Hour)}, true},
		"has shown another one": {Member{Root: "old", Joined: start.Add(-time.Hour)}, false},
		"has shown nothing":     {Member{Joined: start.Add(-time.Hour)}, false},
		"joined before it":      {Member{Joined: start}, false},
		"joined since":          {Member{Joined: start.Add(1)}, true},
	} {
		if got := c.member.Knows("new", start); got != c.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}

// TestRootsOfTwoStatesAreUnited: each stays trusted until the later of its ends, and vouches for no other root than it
// did.
func TestRootsOfTwoStatesAreUnited(t *testing.T) {
	former := func(name, cross string, days int) Former {
		return Former{Root: []byte(name), Cross: []byte(cross), Until: start.Add(time.Duration(days) * 24 * time.Hour)}
	}
	known := []Former{former("a", "x", 1), former("b", "y", 9)}
	got := Unite([]byte("p"), known, []Former{former("a", "z", 5), former("b", "z", 2), former("c", "z", 3),
		former("p", "z", 4)})
	want := []Former{former("a", "x", 5), former("b", "y", 9), former("c", "", 3)}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i, f := range got {
		if string(f.Root) != string(want[i].Root) || string(f.Cross) != string(want[i].Cross) ||
			!f.Until.Equal(want[i].Until) {
			t.Errorf("%s is vouched for by %q until %s", f.Root, f.Cross, f.Until)
		}
	}
	if !known[0].Until.Equal(start.Add(24 * time.Hour)) {
		t.Error("what was given is changed")
	}
}
