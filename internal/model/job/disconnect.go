package job

import (
	"slices"
	"time"
)

// SchemaDisconnect is the schema of a cluster that takes groups which say what becomes of allocs of a silent node.
const SchemaDisconnect = 14

// Which of two allocs is kept when the node of the one comes back that the other replaced.
const (
	KeepBestScore   = "best_score"
	KeepLongest     = "longest_running"
	KeepOriginal    = "keep_original"
	KeepReplacement = "keep_replacement"
)

// Reconciles lists them.
var Reconciles = []string{KeepBestScore, KeepLongest, KeepOriginal, KeepReplacement}

// Disconnect says what becomes of a group's allocs whose node is silent.
type Disconnect struct {
	// LostAfter is how long nothing is known of such an alloc before it counts as lost; 0: it is lost at once.
	LostAfter time.Duration
	// StopOnClientAfter is after how long without its servers the node ends it; nil: it does not.
	StopOnClientAfter *time.Duration
	Replace           bool // by another one; else the alloc waits for its node
	Reconcile         string
}

// Waits reports whether an alloc whose node falls silent is not lost at once, and for how long; 0: until its node comes
// back, or a person decides.
func (d *Disconnect) Waits() (within time.Duration, waits bool) {
	switch {
	case d == nil:
		return 0, false
	case !d.Replace:
		return 0, true
	case d.StopOnClientAfter != nil: // its node has ended it by then
		return *d.StopOnClientAfter, true
	}
	return d.LostAfter, d.LostAfter > 0
}

// ReplacesUnknown reports whether another alloc is placed while nothing is known of the first one.
func (d *Disconnect) ReplacesUnknown() bool {
	return d != nil && d.Replace && d.StopOnClientAfter == nil && d.LostAfter > 0
}

// StopsOnClient is after how long without its servers a node ends the group's allocs; false: it does not.
func (g *TaskGroup) StopsOnClient() (time.Duration, bool) {
	if g == nil || g.Disconnect == nil || g.Disconnect.StopOnClientAfter == nil {
		return 0, false
	}
	return *g.Disconnect.StopOnClientAfter, true
}

// NeedsDisconnect reports a job that servers and nodes of earlier versions would take for another one.
func (j *Job) NeedsDisconnect() bool {
	return slices.ContainsFunc(j.TaskGroups, func(g *TaskGroup) bool { return g.Disconnect != nil })
}
