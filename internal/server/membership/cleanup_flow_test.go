package membership

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/internal/model/autopilot"
)

// voters reads "well" and "silent" for how long, in the order of names.
func voters(texts ...string) (out []Seen) {
	for i, text := range texts {
		what, long, _ := strings.Cut(text, " ")
		d, _ := time.ParseDuration(long)
		s := Seen{Name: fmt.Sprintf("s%d", i+1)}
		switch what {
		case "well":
			s.Well = d
		case "silent":
			s.Silent = d
		}
		out = append(out, s)
	}
	return out
}

// TestADeadServerGoesWhereOthersHaveTakenItsPlace: the whole law, line by line.
func TestADeadServerGoesWhereOthersHaveTakenItsPlace(t *testing.T) {
	off := func(c *autopilot.Config) { c.CleanupDead = false }
	quorum := func(n uint64) func(*autopilot.Config) {
		return func(c *autopilot.Config) { c.MinQuorum = n }
	}
	slow := func(c *autopilot.Config) { c.Stabilization = time.Hour }
	for _, c := range []struct {
		what   string
		expect int
		by     func(*autopilot.Config)
		seen   []Seen
		remove string
		why    string
		look   time.Duration
	}{
		{"nobody is silent", 1, nil, voters("well 1h", "well 1h", "well 1h"), "", "", 0},
		{"its place is taken", 3, nil, voters("well 1h", "well 1h", "silent 1m", "well 10s"), "s3", "", 0},
		{"it is so by MinQuorum", 0, quorum(3), voters("well 1h", "well 1h", "silent 1m", "well 10s"), "s3", "", 0},
		{"the greater number counts", 2, quorum(3), voters("well 1h", "well 1h", "silent 9m"), "", "another one", 0},
		{"nobody wants it", 3, off, voters("well 1h", "well 1h", "silent 9m", "well 1h"), "", "is false", 0},
		{"nothing says how many", 0, nil, voters("well 1h", "well 1h", "silent 9m", "well 1h"), "", "neither", 0},
		{"its place is not taken", 3, nil, voters("well 1h", "well 1h", "silent 9m"), "", "3 servers vote", 0},
		{"it may come back", 3, nil, voters("well 1h", "well 1h", "silent 50s", "well 1h"), "", "after 1m0s",
			10 * time.Second},
		{"it may, for longer", 3, slow, voters("well 2h", "well 2h", "silent 50m", "well 1h"), "", "after 1h0m0s",
			10 * time.Minute},
		{"the other is too new", 3, nil, voters("well 1h", "well 1h", "silent 9m", "well 6s"), "",
			"2 others have been well", 4 * time.Second},
		{"the other is not well", 3, nil, voters("well 1h", "well 1h", "silent 9m", "ill"), "",
			"2 others have been well", 10 * time.Second},
		{"the longest silent first", 3, nil,
			voters("well 1h", "silent 2m", "well 1h", "silent 3m", "well 1h"), "s4", "", 0},
		{"two as long, by name", 3, nil,
			voters("well 1h", "silent 2m", "well 1h", "silent 2m", "well 1h"), "s2", "", 0},
		{"those that are well are no majority", 1, nil, voters("well 1h", "silent 9m"), "", "1 others",
			10 * time.Second},
		{"nor half of four", 2, nil, voters("well 1h", "silent 9m", "well 1h", "silent 9m"), "", "2 others",
			10 * time.Second},
	} {
		by := autopilot.Default()
		if c.by != nil {
			c.by(by)
		}
		got := cleanup(*by, c.expect, c.seen)
		if got.Remove != c.remove || (got.Why == "") != (c.why == "") || !strings.Contains(got.Why, c.why) ||
			got.Look != c.look {
			t.Errorf("%s: %+v", c.what, got)
		}
		if got.Remove != "" && got.Keep != max(c.expect, int(by.MinQuorum)) {
			t.Errorf("%s: %d are to stay", c.what, got.Keep)
		}
	}
}
