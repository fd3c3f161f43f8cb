package acl

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"berth/internal/base/ids"
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

// matchesNone says why no name that a block of a policy may be about matches a pattern; nil: one may. A star may stand
// for a letter, so that the pattern with one in its place is such a name, or none is.
func matchesNone(block, pattern string) error {
	name := strings.ReplaceAll(pattern, "*", "x")
	switch block {
	case string(HostVolume):
		return ids.ValidVolume(name)
	case pathBlock:
		return matchesNoPath(name)
	}
	return ids.ValidName(name)
}

// matchesNoPath knows of paths what the grammar of policies leaves open; which of them are reserved is another matter.
func matchesNoPath(path string) error {
	switch {
	case strings.Contains(path, "."):
		return fmt.Errorf("character %q is not allowed", '.')
	case strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//"):
		return errors.New("a path has no slash at its ends, and one between two names")
	}
	return nil
}
