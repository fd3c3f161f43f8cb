// Package autopilot owns what operators say of how the servers keep themselves: when one is well, when a new one may
// vote, and whether one that is dead is taken off. The servers judge by it.
package autopilot

import (
	"fmt"
	"time"

	"berth/internal/base/fault"
)

// Config is what is said. There is one of a cluster.
type Config struct {
	// CleanupDead: a server that is dead is taken off where others have taken its place.
	CleanupDead bool
	// LastContact is how long ago one that is well has answered, at most.
	LastContact time.Duration
	// MaxTrailing is how many entries of the log one that is well lacks, at most.
	MaxTrailing uint64
	// MinQuorum is how many voters there are to be at least when one is taken off; 0: it is not said.
	MinQuorum uint64
	// Stabilization is how long a server is to be well before it votes.
	Stabilization time.Duration

	CreateIndex, ModifyIndex uint64
}

// Default holds until somebody says something else.
func Default() *Config {
	return &Config{
		CleanupDead:   true,
		LastContact:   200 * time.Millisecond,
		MaxTrailing:   250,
		Stabilization: 10 * time.Second,
	}
}

// Bounds of what may be said.
const (
	ShortestContact = 10 * time.Millisecond
	LongestContact  = 10 * time.Minute
	Longest         = 24 * time.Hour
	MostTrailing    = 1_000_000
	MostServers     = 99
)

// Validate refuses what no cluster can be kept by.
func (c *Config) Validate() error {
	switch {
	case c.LastContact < ShortestContact || c.LastContact > LongestContact:
		return impossible("LastContactThreshold", c.LastContact, ShortestContact, LongestContact)
	case c.Stabilization < 0 || c.Stabilization > Longest:
		return impossible("ServerStabilizationTime", c.Stabilization, time.Duration(0), Longest)
	case c.MaxTrailing < 1 || c.MaxTrailing > MostTrailing:
		return impossible("MaxTrailingLogs", c.MaxTrailing, 1, MostTrailing)
	case c.MinQuorum > MostServers:
		return impossible("MinQuorum", c.MinQuorum, 0, MostServers)
	}
	return nil
}

func impossible(what string, is, least, most any) error {
	return fault.WithHint(fault.New(fault.Invalid, "configure", "autopilot",
		fmt.Sprintf("%s is %v, and is to be between %v and %v", what, is, least, most)),
		"see what holds with: berth operator autopilot get-config")
}

// Same reports whether two say the same, whenever they were written.
func (c *Config) Same(o *Config) bool {
	as := *o
	as.CreateIndex, as.ModifyIndex = c.CreateIndex, c.ModifyIndex
	return *c == as
}

// Unwell says why a server that answers is not well; empty: it is.
func (c *Config) Unwell(contact time.Duration, trailing uint64) string {
	switch {
	case contact > c.LastContact:
		return fmt.Sprintf("it answered %s ago; LastContactThreshold is %s", contact.Round(time.Millisecond),
			c.LastContact)
	case trailing > c.MaxTrailing:
		return fmt.Sprintf("it lacks %d entries of the log; MaxTrailingLogs is %d", trailing, c.MaxTrailing)
	}
	return ""
}
