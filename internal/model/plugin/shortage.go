package plugin

import (
	"fmt"
	"time"

	"berth/internal/base/ids"
)

// Shortage says that a node has no room for another volume of a plugin: the provider refused to attach one there. It
// stands until a volume leaves the node, or until it is time to try once more. One with an external id says that the
// provider permanently refuses to attach that volume there, as it is asked for: it stands until what is asked, or who
// is asked, is another.
type Shortage struct {
	ShortageKey
	Reason string // the plugin's own words
	Since  time.Time
	Until  time.Time // for people; the leader counts by a clock that nobody sets
	Tries  int       // refusals in a row
	// Over: another volume may be tried there. It is kept to count on, should that be refused too.
	Over bool
	// Basis and Use are what a permanent refusal stood on: the volume as registered with those who were asked, and what
	// the claim asked for.
	Basis, Use string

	CreateIndex, ModifyIndex uint64
}

// ShortageKey names the shortage of a plugin on a node, or the refusal of one volume there.
type ShortageKey struct {
	Node       ids.Node
	Plugin     ids.Plugin
	ExternalID string // of the one volume that is permanently refused; empty: no room for any
}

// Explain says in a sentence what the node cannot do, and what ends that.
func (s *Shortage) Explain() (why, hint string) {
	if s.ExternalID == "" {
		return fmt.Sprintf("node %s has no room for another volume of plugin %q: %s", ids.Short(s.Node), s.Plugin,
				s.Reason),
			"wait until a volume leaves the node, or add nodes"
	}
	return fmt.Sprintf("the provider of plugin %q permanently refuses to attach the volume to node %s: %s", s.Plugin,
			ids.Short(s.Node), s.Reason),
		"it is asked again when the volume is registered with another context or other secrets, when a job asks for " +
			"another use, or when another instance of the plugin runs"
}
