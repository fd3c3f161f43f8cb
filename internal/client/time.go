package client

import "time"

// now is the wall clock without its monotonic part, as it is written down.
func now() time.Time { return time.Now().Round(0) }
