// Package sizes owns how numbers of bytes are written for people. Everybody may import it.
package sizes

import (
	"strconv"
	"strings"
)

var units = []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// Human writes bytes with the largest unit of 1024 that fits, and one decimal.
func Human(bytes int64) string {
	if bytes < 1024 {
		return strconv.FormatInt(bytes, 10) + " B"
	}
	value, unit := float64(bytes)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + " " + units[unit]
}

// Differing writes two sizes that a sentence compares: to the byte where they would read the same.
func Differing(a, b int64) (string, string) {
	x, y := Human(a), Human(b)
	if x == y && a != b {
		return strconv.FormatInt(a, 10) + " B", strconv.FormatInt(b, 10) + " B"
	}
	return x, y
}

// Exact writes bytes as a flag or a file takes them: with the largest unit of 1024 of which it is a whole number, or
// none.
func Exact(bytes int64) string {
	text, unit := bytes, ""
	for _, u := range units {
		if text == 0 || text%1024 != 0 {
			break
		}
		text, unit = text/1024, u
	}
	return strconv.FormatInt(text, 10) + unit
}
