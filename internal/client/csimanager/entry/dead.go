package entry

import (
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// Shows reports whether an alloc has a publication that shows a file system.
func (e *Entry) Shows(alloc ids.Alloc) bool {
	p := e.Pubs[alloc]
	return p != nil && p.Presence == volume.Present && e.Staging.Args.AttachmentMode != volume.BlockDevice
}

// Writes reports whether an alloc's publication was made for writing.
func (e *Entry) Writes(alloc ids.Alloc) bool {
	p := e.Pubs[alloc]
	return !p.ReadOnly && !p.SeenReadOnly && !e.Staging.Args.AccessMode.ReaderOnly()
}

// GiveUp notes that the file system which an alloc's publication shows is dead: the publication is lost, and the
// staging when no publication is left.
func (e *Entry) GiveUp(alloc ids.Alloc, why string) {
	e.Pubs[alloc].Presence = volume.Lost
	e.Staging.Dead = why
}

// waitDead says whom the undoing of a staging with a dead file system waits for.
func (e *Entry) waitDead() Wait {
	var users []string
	for _, id := range e.Allocs() {
		if p := e.Pubs[id].Presence; p.Exists() && p != volume.Lost {
			users = append(users, ids.Short(id))
		}
	}
	return WaitDead + Wait(strings.Join(users, ", "))
}

// stagingLost reports whether the staging has to be undone whoever wants it. One with a dead file system keeps those
// that use it: what they still read there is theirs.
func (e *Entry) stagingLost() bool {
	return e.Staging.Presence == volume.Lost || e.dead() && !e.Published()
}

func (e *Entry) dead() bool { return e.Staging.Dead != "" && e.Staging.Presence.Exists() }
