package entry

// A want is reported to the servers, saved with its first intent, quiet when it is withdrawn and undone, acknowledged
// as quiet by the servers, and erased. Each of these may be overtaken by the next, by a new want, or by a crash; this
// file alone decides what becomes of the entry then.

// Knowledge is how well somebody beside the keeper knows an entry.
type Knowledge uint8

const (
	Nothing  Knowledge = iota // it has nothing of the entry, for certain
	Outdated                  // it has an earlier state, or may have one
	Underway                  // the present state is on its way to it, or was lost on it
	Current                   // it has the present state
)

// String names the knowledge for people.
func (n Knowledge) String() string {
	return [...]string{"nothing", "outdated", "under way", "current"}[n]
}

// Record says how well the journal on disk and the servers know an entry of the keeper. The zero value is a want that
// nobody else has heard of.
type Record struct{ Journal, Servers Knowledge }

// LoadedRecord is the record of an entry that was read from disk: an earlier agent run may have reported it.
var LoadedRecord = Record{Journal: Current, Servers: Outdated}

// Event is something that happens to an entry, or to the disk's or the servers' knowledge of it.
type Event uint8

const (
	Changed   Event = iota // the entry changed
	Described              // what it does or waits for changed, which is reported to the servers only
	Writing                // a write of the present state began
	Written                // the write ended well
	Unwritten              // the write failed: the disk has what it had before
	Erased                 // the disk has nothing of the entry
	Reporting              // a report that names the present state began
	Answered               // the servers took the report over
	Dropped                // the servers took the report over and keep nothing of the entry: it was quiet
)

// On returns the record after an event.
func (r Record) On(e Event) Record {
	switch e {
	case Changed:
		return Record{r.Journal.behind(), r.Servers.behind()}
	case Described:
		r.Servers = r.Servers.behind()
	case Writing:
		r.Journal = Underway
	case Written:
		if r.Journal == Underway {
			r.Journal = Current
		}
		r.Servers = r.Servers.behind() // a report says no less than what was on disk when it began
	case Unwritten:
		r.Journal = r.Journal.behind()
	case Erased:
		r.Journal = Nothing
	case Reporting:
		r.Servers = Underway
	case Answered:
		if r.Servers == Underway {
			r.Servers = Current
		}
	case Dropped:
		if r.Servers == Underway {
			r.Servers = Nothing
		}
	}
	return r
}

// behind is the knowledge of one that did not hear of a change.
func (n Knowledge) behind() Knowledge {
	if n == Nothing {
		return Nothing
	}
	return Outdated
}

// Fate is what the keeper does with an entry that has no step to make.
type Fate uint8

const (
	Keep   Fate = iota // it is wanted, or there is something, or somebody has still to learn that there is not
	Save               // the disk has another state
	Erase              // only the disk still has it
	Forget             // nobody has it
)

// String names the fate for people.
func (f Fate) String() string { return [...]string{"keep", "save", "erase", "forget"}[f] }

// Fate decides over an entry. One that is quiet (nothing wanted, nothing there, no call in flight) goes when the
// servers have nothing of it: they never heard of it, or they dropped it because of a report that still holds. As long
// as they may have something of it, it stays, for only a report can take that back. A want that was never acted on
// needs no disk.
func (r Record) Fate(quiet bool) Fate {
	switch {
	case r.Journal == Outdated:
		return Save
	case !quiet || r.Servers != Nothing || r.Journal == Underway:
		return Keep
	case r.Journal == Current:
		return Erase
	}
	return Forget
}

// Named reports whether the next report names the entry: a full one all that the servers may have or are to have,
// another one what they do not have, or may not have, as it is.
func (r Record) Named(full, quiet bool) bool {
	if f := r.Fate(quiet); f == Erase || f == Forget {
		return false
	}
	return full || r.Servers != Current
}
