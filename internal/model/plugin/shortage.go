package plugin

import (
	"time"

	"berth/internal/base/ids"
)

// Shortage says that a node has no room for another volume of a plugin: the provider refused to attach one there. It
// stands until a volume leaves the node, or until it is time to try once more.
type Shortage struct {
	ShortageKey
	Reason string // the plugin's own words
	Since  time.Time
	Until  time.Time // for people; the leader counts by a clock that nobody sets
	Tries  int       // refusals in a row
	// Over: another volume may be tried there. It is kept to count on, should that be refused too.
	Over bool

	CreateIndex, ModifyIndex uint64
}

// ShortageKey names the shortage of a plugin on a node.
type ShortageKey struct {
	Node   ids.Node
	Plugin ids.Plugin
}
