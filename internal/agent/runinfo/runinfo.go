// Package runinfo owns what the running program says of itself: what it was built from, and how its runtime stands.
// Only package agent imports it.
package runinfo

import (
	"runtime"
	"runtime/debug"
	"strconv"
)

// Revision is the commit that the program was built from; empty: the build does not say.
func Revision() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// Runtime is how the runtime stands, as clients of this API expect it.
func Runtime() map[string]string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return map[string]string{
		"goroutines":  strconv.Itoa(runtime.NumGoroutine()),
		"cpu_count":   strconv.Itoa(runtime.NumCPU()),
		"version":     runtime.Version(),
		"arch":        runtime.GOARCH,
		"kernel.name": runtime.GOOS,
		"heap_bytes":  strconv.FormatUint(m.HeapAlloc, 10),
	}
}
