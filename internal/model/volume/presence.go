// Package volume owns the storage nouns that servers and nodes share: Volume (spec and status), Claim, Attachment,
// Staging and Publication as a node reports them, Presence, Snapshot, and the flows that move them.
package volume

// Presence says what is known of something a provider made. Uncertain is written durably before the call that makes
// or unmakes the thing; it counts as present for every question of safety.
type Presence uint8

// Values of Presence.
const (
	Absent    Presence = iota // known not to exist
	Uncertain                 // a call was begun and its end is not known
	Present                   // ended well, or verified
	Lost                      // verified dead; must be undone before it is made again
)

var presenceNames = [...]string{"absent", "uncertain", "present", "lost"}

func (p Presence) String() string {
	if int(p) < len(presenceNames) {
		return presenceNames[p]
	}
	return "invalid"
}

// Exists reports whether safety must assume that the thing is there.
func (p Presence) Exists() bool { return p != Absent }
