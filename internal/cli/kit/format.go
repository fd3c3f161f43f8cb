package kit

import (
	"berth/internal/base/sizes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// NA stands for a time that is not there.
const NA = "N/A"

// At writes a time in the local zone to the second.
func At(t time.Time) string {
	if t.IsZero() || t.Unix() == 0 {
		return NA
	}
	return t.Local().Format(time.RFC3339)
}

// AtNanos is At for a time in Unix nanoseconds.
func AtNanos(n int64) string {
	if n == 0 {
		return NA
	}
	return At(time.Unix(0, n))
}

// AtPointer is At for a time that may be missing.
func AtPointer(t *time.Time) string {
	if t == nil {
		return NA
	}
	return At(*t)
}

// Ago writes how long ago a time was, in its two largest units.
func Ago(nanos int64) string {
	if nanos == 0 {
		return NA
	}
	d := time.Since(time.Unix(0, nanos))
	if d < 0 {
		return "in " + Span(-d)
	}
	return Span(d) + " ago"
}

// When is Ago for people, or the time itself when verbose.
func When(nanos int64, verbose bool) string {
	if verbose {
		return AtNanos(nanos)
	}
	return Ago(nanos)
}

// Span writes a duration in its two largest units.
func Span(d time.Duration) string {
	if d < time.Second {
		return "0s"
	}
	units := []struct {
		size time.Duration
		name string
	}{{365 * 24 * time.Hour, "y"}, {30 * 24 * time.Hour, "mo"}, {24 * time.Hour, "d"}, {time.Hour, "h"},
		{time.Minute, "m"}, {time.Second, "s"}}
	var b strings.Builder
	for i, n := 0, 0; i < len(units) && n < 2; i++ {
		count := d / units[i].size
		if count == 0 && n == 0 {
			continue
		}
		n++
		if count > 0 {
			fmt.Fprintf(&b, "%d%s", count, units[i].name)
			d -= count * units[i].size
		}
	}
	return b.String()
}

// Size writes bytes with the largest unit of 1024 that fits.
func Size[T ~int64 | ~uint64](bytes T) string {
	return sizes.Human(int64(bytes))
}

// ID is the form of an identifier that people read: 8 characters of a UUID, all of them when verbose.
func ID(id string, verbose bool) string {
	if verbose || len(id) != 36 {
		return id
	}
	return id[:8]
}

// Count writes a number with its noun.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Yes writes a truth as people say it.
func Yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Value follows a pointer; nil gives the zero value.
func Value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
