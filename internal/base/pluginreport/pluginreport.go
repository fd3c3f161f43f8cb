// Package pluginreport owns the words in which the test of somebody's plugin answers. Who makes the test fills it in,
// the command line shows it.
package pluginreport

import (
	"time"

	"berth/internal/base/redact"
)

// Results of a check.
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped" // the plugin does not claim it, or what it needs has failed
)

// Check is one promise that a plugin was held to.
type Check struct {
	Name    string // the promise, in words
	Result  string
	Message string // why it failed or was skipped; what was found otherwise
	Took    time.Duration
}

// Report is what was found of a plugin.
type Report struct {
	Kind    string // "driver", "device" or "csi"
	Name    string // as the plugin calls itself; empty: it was never there
	Version string
	Checks  []Check
	// Failed and Skipped count checks.
	Failed, Skipped int
}

// Add adds a check.
func (r *Report) Add(c Check) {
	r.Checks = append(r.Checks, c)
	switch c.Result {
	case Failed:
		r.Failed++
	case Skipped:
		r.Skipped++
	}
}

// Asked is what is tested.
type Asked struct {
	Command []string       // the program and its arguments
	Config  map[string]any // of the agent's plugin block
	Task    map[string]any // of a task of the driver: the config of one that runs until it is ended
	Volume  Volume         // with which a storage plugin is tested
}

// Volume is what a storage plugin is asked for, and given with its calls.
type Volume struct {
	Parameters map[string]string // of a creation
	Secrets    redact.Map        // of every call
	Bytes      int64             // of the new volume
	FSType     string            // empty: the plugin's choice
	Limit      time.Duration     // of one check
}
