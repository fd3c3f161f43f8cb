package gauges

import "time"

// listed is the shape of GET /v1/metrics.
type listed struct {
	Timestamp string
	Gauges    []Gauge
	Points    []any
	Counters  []any
	Samples   []any
}

// Listed shows gauges as clients of this API read them in JSON.
func Listed(all []Gauge, now time.Time) any {
	return listed{
		Timestamp: now.UTC().Format("2006-01-02 15:04:05 +0000 UTC"),
		Gauges:    all,
		Points:    []any{},
		Counters:  []any{},
		Samples:   []any{},
	}
}
