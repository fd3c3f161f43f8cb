package mounts

// Facts decide whether a node is believed that says to have a volume mounted. None of the first five can be brought
// about by the node's own word without a person seeing it: what a captured node can bring about buys it nothing. So
// doubts about its session are none of them.
type Facts struct {
	// Given: a claim of the volume on the node was recorded, or the node was believed before.
	Given bool
	// Unremembered: the volume is older than the memory of who was given it, or is none of this state's.
	Unremembered bool
	// Older: the state may be older than what the node did: it was restored and has not heard the node, or a history
	// that it does not contain has been shown and nobody has decided about that.
	Older bool
	// Vouched: the node lost the store that would show such a history, and a person let it go on.
	Vouched bool
	// Together: the node's data lie beside a server's, and may have been put back together with it.
	Together bool
	// Elsewhere: the volume lives on another node.
	Elsewhere bool
	// Unattached: the volume is used where it is attached, and no attachment to the node is recorded.
	Unattached bool
}

// Result is whether a node is believed, and if not, what speaks against it.
type Result int

// The results.
const (
	Believed Result = iota
	AtHome          // not believed: the volume lives on another node
	Apart           // not believed: the volume is not attached to the node
)

// String is the result's name.
func (v Result) String() string {
	return [...]string{"believed", "not believed: lives elsewhere", "not believed: not attached there"}[v]
}

// Decide judges a node's word that it has a volume mounted. It is believed wherever the state may lack what led to it,
// and wherever the volume could be mounted without the servers' doing. What is left is what an honest node cannot have.
func Decide(f Facts) Result {
	switch {
	case f.Given, f.Unremembered, f.Older, f.Vouched, f.Together:
		return Believed
	case f.Elsewhere:
		return AtHome
	case f.Unattached:
		return Apart
	}
	return Believed
}
