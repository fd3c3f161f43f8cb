package entry

import (
	"slices"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
)

// Disk is the block device that a staging has to itself. The zero value: it has none, as with a file system of a
// network, a directory of another one, or what was staged before this was recorded.
type Device struct {
	Device string // major:minor
	Seq    uint64 // the kernel's number of what is behind it, never given again in this boot; 0: it gives none
}

// Sighting is what a look at a device and at mounts has found.
type Sighting struct {
	// Held: the device cannot be opened exclusively, so it is mounted or claimed in some mount namespace.
	Held    bool
	Holders []volume.Holder
	All     bool // nobody was left out
}

// Absent says whether a block staging may count as undone that the plugin calls done and of which the node sees no
// mount: only when its device can be opened exclusively, which no mount in whichever namespace lets happen. While only
// that fails the device is pinned: nothing is released, and no other node is given the volume. err is that of the look.
func Absent(e *Entry, seen Sighting, err error) error {
	switch {
	case e.Staging.Device == (Device{}):
		return nil
	case err != nil:
		return fault.Wrap(err, fault.Unavailable, "unstage", "its device "+e.Staging.Device.Device)
	case seen.Held:
		return fault.New(fault.Unavailable, "unstage", "its device "+e.Staging.Device.Device,
			"it is still mounted or claimed, by a process or in another mount namespace")
	}
	return nil
}

// StageAgain says whether a device that may be pinned may be staged again, by the same node and with equal arguments:
// when everybody who holds it is known, and nobody of them is in the control group of an alloc, so that it has no two
// users that exclude each other.
func StageAgain(e *Entry, seen Sighting, err error) error {
	const op = "stage again"
	subject := "what is held: device " + e.Staging.Device.Device
	at := slices.IndexFunc(seen.Holders, func(h volume.Holder) bool { return h.Alloc != "" })
	switch {
	case e.Staging.Device == (Device{}):
		return nil
	case at >= 0:
		return fault.New(fault.NotReady, op, subject, volume.HeldBy(seen.Holders[at:at+1]))
	case err != nil:
		return fault.Wrap(err, fault.NotReady, op, subject)
	case seen.Held && !seen.All:
		return fault.New(fault.NotReady, op, subject, "it is not known by whom")
	}
	return nil
}
