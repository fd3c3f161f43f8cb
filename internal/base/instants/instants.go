// Package instants owns the form in which times are stored and sent: nanoseconds since the epoch, and 0 for none.
package instants

import "time"

// Nanos is the stored form of a time.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Time is the time of its stored form, in UTC.
func Time(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}
