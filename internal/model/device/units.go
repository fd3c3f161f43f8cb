package device

import "math"

// unit is a number of its base.
type unit struct {
	factor float64
	base   string
}

// units are those in which plugins and jobs say how much something is. Those of one base compare with each other.
var units = makeUnits()

func makeUnits() map[string]unit {
	out := map[string]unit{"": {1, ""}, "B": {1, "B"}, "B/s": {1, "B/s"}, "Hz": {1, "Hz"}, "W": {1, "W"},
		"mW": {1e-3, "W"}, "kW": {1e3, "W"}, "KW": {1e3, "W"}, "MW": {1e6, "W"}, "GW": {1e9, "W"}}
	for i, prefix := range []string{"K", "M", "G", "T", "P", "E"} {
		binary, decimal := math.Pow(1024, float64(i+1)), math.Pow(1000, float64(i+1))
		for _, base := range []string{"B", "B/s"} {
			out[prefix+"i"+base] = unit{binary, base}
			out[prefix+base] = unit{decimal, base}
		}
	}
	out["kB"], out["kB/s"] = out["KB"], out["KB/s"]
	for i, prefix := range []string{"K", "M", "G"} {
		out[prefix+"Hz"] = unit{math.Pow(1000, float64(i+1)), "Hz"}
	}
	out["kHz"] = out["KHz"]
	return out
}
