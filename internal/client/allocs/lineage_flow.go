package allocs

import "berth/internal/model/alloc"

// Beginning is what a node does about an alloc that a set of the servers names and that it has no record of.
type Beginning uint8

// Beginnings.
const (
	Passes   Beginning = iota // it is left alone
	Begins                    // it is run
	TakesUp                   // it was adopted: its record is made anew from what its shim holds
	NotBegun                  // a restore brought it back, and nobody knows what became of it: it is said to be lost
)

// Here is what a node has of an alloc beside a record.
type Here struct {
	Unrecorded bool // its directory is here, or its shim, and its record is lost
	Directory  bool // its directory is here, and its record is lost
	Damaged    bool // its record cannot be read
	Ended      bool // a person ended it while its record was lost: a set may be older than that
	Stopping   bool // the node begins nothing any more
}

// Begin decides over an alloc without a record. restored is the index up to which a restore brought things back that
// the node has not answered yet; 0: none did. One that has ended, or whose record is damaged, is not begun; one that is
// to stop is, because its end has to be reported by this node.
func Begin(a *alloc.Alloc, restored uint64, h Here) Beginning {
	switch {
	case a.Adopted > 0 && !a.Terminal() && h.Unrecorded:
		return TakesUp
	case a.ClientTerminal() || h.Damaged || h.Directory || h.Ended || h.Stopping:
		return Passes
	case a.CreateIndex < restored:
		return NotBegun
	}
	return Begins
}

// Leaving is what becomes of an alloc that a set of the servers left out, when they were asked for it by its id.
type Leaving uint8

// Leavings.
const (
	Stays     Leaving = iota // the servers know it
	Orphaned                 // nothing shows that they ever removed it: it is kept
	Stops                    // they removed it
	Destroyed                // they removed it, and nothing of it is left but its directory and its record
)

// Leave decides by what the servers answered: that they removed it, or that nothing shows that they did.
func Leave(removed, orphan, released bool) Leaving {
	switch {
	case orphan:
		return Orphaned
	case !removed:
		return Stays
	case !released:
		return Stops
	}
	return Destroyed
}
