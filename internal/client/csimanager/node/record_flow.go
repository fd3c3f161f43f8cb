package node

// A want is reported to the servers, saved with its first intent, quiet when it is withdrawn and undone, acknowledged
// as quiet by the servers, and erased. Each of these may be overtaken by the next, by a new want, or by a crash; this
// file alone decides what becomes of the entry then.

// knowledge is how well somebody beside the keeper knows an entry.
type knowledge uint8

const (
	nothing  knowledge = iota // it has nothing of the entry, for certain
	outdated                  // it has an earlier state, or may have one
	underway                  // the present state is on its way to it, or was lost on it
	current                   // it has the present state
)

// String names the knowledge for people.
func (n knowledge) String() string {
	return [...]string{"nothing", "outdated", "under way", "current"}[n]
}

// record says how well the disk and the servers know an entry of the keeper. The zero value is a want that nobody else
// has heard of.
type record struct{ disk, servers knowledge }

// loadedRecord is the record of an entry that was read from disk: an earlier agent run may have reported it.
var loadedRecord = record{disk: current, servers: outdated}

// event is something that happens to an entry, or to the disk's or the servers' knowledge of it.
type event uint8

const (
	changed   event = iota // the entry changed
	described              // what it does or waits for changed, which is reported to the servers only
	writing                // a write of the present state began
	written                // the write ended well
	unwritten              // the write failed: the disk has what it had before
	erased                 // the disk has nothing of the entry
	reporting              // a report that names the present state began
	answered               // the servers took the report over
	dropped                // the servers took the report over and keep nothing of the entry: it was quiet
)

// on returns the record after an event.
func (r record) on(e event) record {
	switch e {
	case changed:
		return record{r.disk.behind(), r.servers.behind()}
	case described:
		r.servers = r.servers.behind()
	case writing:
		r.disk = underway
	case written:
		if r.disk == underway {
			r.disk = current
		}
		r.servers = r.servers.behind() // a report says no less than what was on disk when it began
	case unwritten:
		r.disk = r.disk.behind()
	case erased:
		r.disk = nothing
	case reporting:
		r.servers = underway
	case answered:
		if r.servers == underway {
			r.servers = current
		}
	case dropped:
		if r.servers == underway {
			r.servers = nothing
		}
	}
	return r
}

// behind is the knowledge of one that did not hear of a change.
func (n knowledge) behind() knowledge {
	if n == nothing {
		return nothing
	}
	return outdated
}

// fate is what the keeper does with an entry that has no step to make.
type fate uint8

const (
	keep   fate = iota // it is wanted, or there is something, or somebody has still to learn that there is not
	save               // the disk has another state
	erase              // only the disk still has it
	forget             // nobody has it
)

// String names the fate for people.
func (f fate) String() string { return [...]string{"keep", "save", "erase", "forget"}[f] }

// fate decides over an entry. One that is quiet (nothing wanted, nothing there, no call in flight) goes when the
// servers have nothing of it: they never heard of it, or they dropped it because of a report that still holds. As long
// as they may have something of it, it stays, for only a report can take that back. A want that was never acted on
// needs no disk.
func (r record) fate(quiet bool) fate {
	switch {
	case r.disk == outdated:
		return save
	case !quiet || r.servers != nothing || r.disk == underway:
		return keep
	case r.disk == current:
		return erase
	}
	return forget
}

// named reports whether the next report names the entry: a full one all that the servers may have or are to have,
// another one what they do not have, or may not have, as it is.
func (r record) named(full, quiet bool) bool {
	if f := r.fate(quiet); f == erase || f == forget {
		return false
	}
	return full || r.servers != current
}
