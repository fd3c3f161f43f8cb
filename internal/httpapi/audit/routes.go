package audit

// Kind is what a route does, where its method does not say so.
type Kind int

// Kinds of routes.
const (
	ByMethod Kind = iota // a GET reads, and what is no GET changes something
	Recorded             // a GET that changes something, or shows what is in tasks or in a store
	Session              // the same, over a connection of its own
	Read                 // no GET, and changes nothing
)
