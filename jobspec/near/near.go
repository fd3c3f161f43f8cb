// Package near owns which name was probably meant by one that there is not. Readers of users' files import it.
package near

import (
	"fmt"
	"slices"
)

// DidYouMean offers the nearest of some names, or nothing.
func DidYouMean(name string, names []string) string {
	if near := Name(name, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// Name is the one of some names that was probably meant, or nothing.
func Name(name string, names []string) string {
	best, at := "", 4
	for _, n := range slices.Sorted(slices.Values(names)) {
		if d := distance(name, n); d < at && d < max(len(name), len(n))/2+1 {
			best, at = n, d
		}
	}
	return best
}

// distance is the number of letters to change, add or take away to come from a to b.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			above := row[j]
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(row[j]+1, row[j-1]+1, diagonal+cost)
			diagonal = above
		}
	}
	return row[len(b)]
}
