package entry

import (
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// Mount is one mount as it was seen after the plugin's OK.
type Mount struct {
	Path   string
	ID     uint64 // the kernel's, never given again in this boot; 0: it has none
	Device string
	Root   string
	FSType string
}

// Is reports whether two sightings are of one mount.
func (m Mount) Is(o Mount) bool {
	return m.Path == o.Path && m.ID == o.ID && m.Device == o.Device && m.Root == o.Root
}

// served are file systems that the kernel itself writes: without their mount nobody does.
var served = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "tmpfs", "overlay", "nfs", "nfs4", "cifs", "smb3",
	"ceph", "erofs", "squashfs", "f2fs", "zfs", "devtmpfs"}

// Daemon reports whether a process of the plugin may serve the mount: when it is unmounted, that one may still write.
func (m Mount) Daemon() bool {
	return strings.HasPrefix(m.FSType, "fuse") || !slices.Contains(served, m.FSType)
}

// Run is one run of a plugin's process on this node.
type Run struct {
	Alloc   ids.Alloc
	Attempt int
}

// UnmountFacts decide whether the node takes away itself what a plugin left mounted.
type UnmountFacts struct {
	// Answered: the plugin has said to this very call that it is done, or knows nothing of it.
	Answered bool
	// Before counts the tries of the step that failed before this one.
	Before int
	// Gone: the processes of the publication's alloc are proven gone for good.
	Gone bool
	// Unanswered: a call of the volume is unanswered at a run of the plugin that may live: it may unmount later, and by
	// then it would be another one's mount.
	Unanswered bool
	// CutOff: the plugin may still be at a reading of the volume that was cut off moments ago.
	CutOff bool
	// Top is the mount that must go first.
	Top Mount
}

// MayUnmount says whether the node unmounts itself what stayed mounted after an undoing call, or why not. It is the
// whole law of it: the plugin had its say and failed more than once; nobody uses the mount; no call can come late; and
// the mount on top is the one that was seen when it was made.
func MayUnmount(e *Entry, s Step, f UnmountFacts) (ok bool, why string) {
	own := e.Staging.Own
	switch s.Verb {
	case Unpublish:
		p := e.Pubs[s.Alloc]
		if p == nil {
			return false, ""
		}
		own = p.Own
	case Unstage:
		if e.Published() {
			return false, ""
		}
	default:
		return false, ""
	}
	if !f.Answered || f.Before == 0 {
		return false, ""
	}
	stays := "the plugin answered that it is done, " + f.Top.Path +
		" is still mounted, and this node does not unmount it itself: "
	switch {
	case s.Verb == Unpublish && !f.Gone:
		return false, stays + "its processes are not proven gone"
	case f.Unanswered:
		return false, stays + "an earlier call is unanswered at a plugin that still runs: restart the plugin"
	case f.CutOff:
		return false, stays + "the plugin was asked how full the volume is and may still be at it"
	case !slices.ContainsFunc(own, f.Top.Is):
		return false, stays + "it is not what was seen there when it was made"
	}
	return true, ""
}

// Unmounts writes down that the node takes a mount away itself.
func (e *Entry) Unmounts(s Step, m Mount) {
	by := e.Staging.By
	if s.Verb == Unpublish {
		by = e.Pubs[s.Alloc].By
	}
	if m.Daemon() && by.Alloc != "" && !slices.Contains(e.Serving, by) {
		e.Serving = append(e.Serving, by)
	}
	e.Undone = &volume.Undone{Proof: volume.ProofReleased, Reason: fmt.Sprintf(
		"unmounted by node: the plugin answered the %s and left %s mounted at %s", s.Verb, m.FSType, m.Path)}
}

// Served says that an unstaging does not count as done: what this node has unmounted itself is served by a run of the
// plugin that lives.
func Served(by Run) error {
	return fault.WithHint(fault.New(fault.Unavailable, "unstage", "a volume that this node has unmounted itself",
		fmt.Sprintf("the plugin's task in allocation %s, which served it, still runs and may write", by.Alloc)),
		"restart it: berth alloc restart "+string(by.Alloc))
}
