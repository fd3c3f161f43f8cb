package race

import "testing"

// Stride is of how many cases a test that plays thousands of one kind takes one: all where nothing slows it.
func Stride() int {
	switch {
	case On:
		return 31
	case testing.Short():
		return 7
	}
	return 1
}
