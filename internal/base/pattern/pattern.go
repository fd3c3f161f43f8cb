// Package pattern owns when regular expressions of packages are compiled: when they are used for the first time. The
// program has dozens, and each of its processes, however short it lives, would compile them all at its start.
package pattern

import (
	"regexp"
	"sync"
)

// Of is a regular expression. One that is none panics when it is used.
func Of(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
