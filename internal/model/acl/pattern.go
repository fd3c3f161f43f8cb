package acl

import (
	"math"
	"strings"
)

// closeness says how close a pattern comes to a name: -1 if it does not match, the most there is if it is the name, and
// otherwise how many of its characters are no stars. A star stands for any characters, or none.
func closeness(pattern, name string) int {
	if pattern == name {
		return math.MaxInt
	}
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	rest, begins := strings.CutPrefix(name, first)
	if len(parts) == 1 || !begins {
		return -1
	}
	rest, ends := strings.CutSuffix(rest, last)
	if !ends {
		return -1
	}
	for _, part := range parts[1 : len(parts)-1] {
		_, behind, found := strings.Cut(rest, part) // the first place leaves the most for the parts behind it
		if !found {
			return -1
		}
		rest = behind
	}
	return len(pattern) - (len(parts) - 1)
}
