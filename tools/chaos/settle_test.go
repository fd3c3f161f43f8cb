package main

import (
	"testing"
	"time"
)

// TestAWaitIsTooLong: on a quiet machine after a fixed time, sooner when nothing explains it; on a busy one only when
// something stays as it is.
func TestAWaitIsTooLong(t *testing.T) {
	quiet := options{settle: 40 * time.Second}
	busy := options{settle: 40 * time.Second, busy: 3 * time.Minute}
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for name, c := range map[string]struct {
		o    options
		took time.Duration
		why  string
		seen time.Duration
		late bool
	}{
		"explained":                 {quiet, 30 * time.Second, "it stops", 30 * time.Second, false},
		"not explained":             {quiet, 30 * time.Second, "", 30 * time.Second, true},
		"not explained, but new":    {quiet, 30 * time.Second, "", time.Second, false},
		"explained, but over":       {quiet, 41 * time.Second, "it stops", time.Second, true},
		"busy and changing":         {busy, 2 * time.Minute, "it stops", time.Second, false},
		"busy and stuck":            {busy, 2 * time.Minute, "it stops", time.Minute, true},
		"busy, changing and no end": {busy, 4 * time.Minute, "it stops", time.Second, true},
	} {
		err := c.o.judge(c.took, map[waiting]time.Time{{"alloc", c.why}: ago(c.seen)})
		if (err != nil) != c.late {
			t.Errorf("%s: %v", name, err)
		}
	}
}
