package volume

// ClaimFacts are what decides over a releasing claim.
type ClaimFacts struct {
	// Inventoried: the node has sent a full inventory, and its reports are as of a set of allocs at or after the
	// claim's epoch. Only then does its silence count.
	Inventoried bool
	// Doubted: who reports for the node may be another than who holds the claim. Its word ends nothing.
	Doubted bool
	// Entry is what the node knows of the volume; nil: nothing.
	Entry *InventoryEntry
	// OthersOnNode: another uses the volume on the same node, so the staging stays: by a held or queued claim, or by a
	// mount alone, as an orphan does. What a node reports of such a mount stands in the way of others by itself.
	OthersOnNode bool
	// Unknown: something is mounted on the node that may be a volume of the plugin, and nobody can say which.
	Unknown bool
	// ProcessesGone: the node said that no process of the alloc is left, or the alloc is lost.
	ProcessesGone bool
}

// ClaimStep is what a claim does next.
type ClaimStep string

// Steps of a claim. They are made by the command that changes the facts.
const (
	ClaimStays    ClaimStep = "stays"
	ClaimReleases ClaimStep = "releases" // held becomes releasing
	ClaimEnds     ClaimStep = "ends"
)

// NextClaim is the law of a claim's end: a held claim is released when the processes of its alloc are gone; a releasing
// one ends when its publication is absent and the staging is absent too, or stays for another's use on the node, and
// nothing on the node can be a mount of it under no name. Wishes play no part: only the node's report, or a proof
// outside this flow, ends a claim.
func NextClaim(c *Claim, f ClaimFacts) ClaimStep {
	switch c.State {
	case Held:
		if f.ProcessesGone {
			return ClaimReleases
		}
	case Releasing:
		staged := f.Entry != nil && f.Entry.Staging.Exists() && !f.OthersOnNode
		if f.Inventoried && !f.Unknown && !f.Doubted && !f.publicationOf(c) && !staged {
			return ClaimEnds
		}
	}
	return ClaimStays
}

// publicationOf reports whether the node still has, or wants, the publication of the claim's alloc.
func (f ClaimFacts) publicationOf(c *Claim) bool {
	if f.Entry == nil {
		return false
	}
	for _, p := range f.Entry.Publications {
		if p.Alloc == c.Alloc && (p.Presence.Exists() || p.Wanted) {
			return true
		}
	}
	return false
}
