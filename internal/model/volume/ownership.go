package volume

import (
	"fmt"
	"strconv"
)

// OwnershipPolicy says what of a file-system volume is given to an owner before the tasks of an alloc start.
type OwnershipPolicy string

// Values of OwnershipPolicy. A volume without a word about it is OwnFresh.
const (
	// OwnFresh gives the root of a file system that nobody has written to yet to the first task's user.
	OwnFresh OwnershipPolicy = ""
	// OwnNothing leaves the volume as it is.
	OwnNothing OwnershipPolicy = "none"
	// OwnRoot gives the root alone, at each start where it differs.
	OwnRoot OwnershipPolicy = "root_only"
	// OwnAllIfRootDiffers gives everything, the root last, at each start where the root's owner differs.
	OwnAllIfRootDiffers OwnershipPolicy = "recursive_if_root_differs"
)

// Ownership is whom a file-system volume belongs to, and how far the node sees to it.
type Ownership struct {
	UID, GID *int   // nil: the first task's user, and its group
	Mode     string // of the root, octal; empty: as it is
	Policy   OwnershipPolicy
}

// Check says what is wrong with it, in words for a person.
func (o *Ownership) Check() (bad []string) {
	switch o.Policy {
	case OwnNothing, OwnRoot, OwnAllIfRootDiffers:
	default:
		bad = append(bad, fmt.Sprintf("ownership policy %q is not known: use %s, %s or %s", o.Policy, OwnNothing,
			OwnRoot, OwnAllIfRootDiffers))
	}
	for _, n := range []struct {
		name string
		id   *int
	}{{"uid", o.UID}, {"gid", o.GID}} {
		if n.id != nil && (*n.id < 0 || int64(*n.id) >= maxOwner) {
			bad = append(bad, fmt.Sprintf("ownership %s %d is not between 0 and %d", n.name, *n.id, maxOwner-1))
		}
	}
	if _, err := o.Perm(); err != nil {
		bad = append(bad, fmt.Sprintf("ownership mode %q is not an octal mode up to 3777, such as \"0750\"", o.Mode))
	}
	return bad
}

// maxOwner is no user's number: it stands for none in calls of the kernel.
const maxOwner = 1<<32 - 1

// Perm is Mode as the kernel takes it; -1: as it is.
func (o *Ownership) Perm() (int, error) {
	if o == nil || o.Mode == "" {
		return -1, nil
	}
	mode, err := strconv.ParseUint(o.Mode, 8, 32)
	if err != nil || mode > 0o3777 {
		return -1, fmt.Errorf("mode %q is out of range", o.Mode)
	}
	return int(mode), nil
}

// MountGroup is the group to which a plugin that can gives the volume, when it mounts it; empty: none. A plugin gives
// no files, so that all of a volume stays the node's to give.
func (o *Ownership) MountGroup() string {
	if o == nil || o.GID == nil || o.Policy != OwnRoot {
		return ""
	}
	return strconv.Itoa(*o.GID)
}
