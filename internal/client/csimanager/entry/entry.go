// Package entry owns what a node knows of one volume, its one staging and its publications: the durable record, and the
// law of the next step. It is pure: the node keeper makes the calls and keeps the records. Only the parts of the
// csimanager import it.
package entry

import (
	"maps"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// Entry is what the node knows of one volume: its one staging and its publications. It is the durable record.
type Entry struct {
	Key    volume.StagingKey
	Volume volume.ID
	// Boot is the kernel's boot under which Staging and Publications were last written; another boot makes them
	// Uncertain.
	Boot    string
	Staging Staging
	Pubs    map[ids.Alloc]*Publication
	// Unanswered are the runs of the plugin that were given a call of which no answer has come: it may end late.
	Unanswered []Run
	// Serving are runs of the plugin that may still write to what this node has unmounted, because they serve it.
	Serving []Run
	// Provider is the plugin's own name of itself when it made what is here: no other is asked about it. Empty: it was
	// made before that was recorded, and nothing was asked since.
	Provider string
	// Undone says how something of it was undone other than by the plugin's word; it is reported with the end.
	Undone *volume.Undone
}

// Args are the arguments of the calls that make the staging; a repeated call carries equal ones.
type Args struct {
	AccessMode     volume.AccessMode
	AttachmentMode volume.AttachmentMode
	MountOptions   *volume.MountOptions
	VolumeContext  map[string]string
	PublishContext map[string]string
	Generation     uint64 // of the attachment
	// MountGroup is the group that the plugin gives the volume to; empty: none.
	MountGroup string
}

// Staging is the volume prepared once on this node. For plugins that do not stage, Skip is set and Presence follows
// the wants without a call.
type Staging struct {
	Presence volume.Presence
	Skip     bool
	Args     Args
	HostPath string // as the agent sees it
	TaskPath string // as it was sent to the plugin
	// Guessed: the staging was named by the hash of a claim alone. What was sent for it is not known: the path in the
	// plugin's eyes is that of the next instance, and the arguments are those of the next permission.
	Guessed bool
	// Mounts are what was mounted at or beneath HostPath after the plugin's OK, as "path device". When one of them
	// goes, the staging is lost: a publication made from it would show the bare directory.
	Mounts []string
	// Own are these mounts in full, deepest first: what the node may unmount itself.
	Own []Mount
	By  Run // that made it
	// Dead says why its file system takes nothing any more; empty: nobody has found that. Who uses it is left alone,
	// and nothing is published from it; it is undone when nobody does.
	Dead string
	// Device is the block device that is its own: until nobody has it, the staging is not undone.
	Device Device
	// ExpandTo asks for NodeExpandVolume to this size in bytes; ExpandedTo is what was reached.
	ExpandTo   int64
	ExpandedTo int64
}

// Publication is the volume exposed at a path for one alloc.
type Publication struct {
	Alias    string
	Epoch    volume.Epoch
	Wanted   bool
	Presence volume.Presence
	ReadOnly bool
	HostPath string
	TaskPath string
	// Device is the file system's device number (or the block device's) that was seen at the first verification.
	Device string
	// SeenReadOnly: the mount table showed a read-only mount.
	SeenReadOnly bool
	// Own is what was mounted at HostPath after the plugin's OK.
	Own        []Mount
	By         Run    // that made it
	Generation uint64 // of the attachment that the want was granted under
	// Received is where the servers' state was when they gave the permission.
	Received lineage.Point
}

// Clone copies an entry deeply, so that the journal's view and the reports never share memory with the keeper.
func (e *Entry) Clone() *Entry {
	c := *e
	c.Staging.Args = e.Staging.Args.Clone()
	c.Staging.Mounts = slices.Clone(e.Staging.Mounts)
	c.Staging.Own = slices.Clone(e.Staging.Own)
	c.Unanswered = slices.Clone(e.Unanswered)
	c.Serving = slices.Clone(e.Serving)
	if e.Undone != nil {
		undone := *e.Undone
		c.Undone = &undone
	}
	c.Pubs = make(map[ids.Alloc]*Publication, len(e.Pubs))
	for id, p := range e.Pubs {
		pc := *p
		pc.Own = slices.Clone(p.Own)
		c.Pubs[id] = &pc
	}
	return &c
}

// Capability is the use of the volume in the plugin's words.
func (a Args) Capability() csi.VolumeCapability {
	out := csi.CapabilityOf(volume.Capability{AccessMode: a.AccessMode, AttachmentMode: a.AttachmentMode},
		a.MountOptions)
	out.MountGroup = a.MountGroup
	return out
}

// Clone copies arguments deeply.
func (a Args) Clone() Args {
	a.VolumeContext = maps.Clone(a.VolumeContext)
	a.PublishContext = maps.Clone(a.PublishContext)
	a.MountOptions = a.MountOptions.Clone()
	return a
}

// Equal compares arguments by content; the generation counts, because another attachment is another device. The group
// does not: what is staged for one is not staged anew because another was named since.
func (a Args) Equal(b Args) bool {
	return a.AccessMode == b.AccessMode && a.AttachmentMode == b.AttachmentMode && a.Generation == b.Generation &&
		maps.Equal(a.VolumeContext, b.VolumeContext) && maps.Equal(a.PublishContext, b.PublishContext) &&
		a.MountOptions.Equal(b.MountOptions)
}

// Allocs lists the publications in a stable order.
func (e *Entry) Allocs() []ids.Alloc { return slices.Sorted(maps.Keys(e.Pubs)) }

// Wanted reports whether any publication is wanted.
func (e *Entry) Wanted() bool {
	for _, p := range e.Pubs {
		if p.Wanted {
			return true
		}
	}
	return false
}

// Published reports whether safety must assume that any publication exists.
func (e *Entry) Published() bool {
	for _, p := range e.Pubs {
		if p.Presence.Exists() {
			return true
		}
	}
	return false
}

// Quiet reports that nothing exists and nothing is wanted: the record waits for the servers' acknowledgement only.
func (e *Entry) Quiet() bool { return !e.Staging.Presence.Exists() && !e.Published() && !e.Wanted() }

// WakeOnBoot turns everything that another boot made into Uncertain, and tells whether it changed anything.
func (e *Entry) WakeOnBoot(boot string) bool {
	if e.Boot == boot {
		return false
	}
	e.Boot = boot
	e.Staging.Device = Device{} // no mount outlives a boot, and its numbers are given again
	e.Staging.Dead = ""
	if e.Staging.Presence == volume.Present || e.Staging.Presence == volume.Lost {
		e.Staging.Presence = volume.Uncertain
	}
	for _, p := range e.Pubs {
		if p.Presence == volume.Present || p.Presence == volume.Lost {
			p.Presence = volume.Uncertain
		}
	}
	return true
}

// StoreKey is the key of an entry in the node's store.
func StoreKey(k volume.StagingKey) string { return string(k.Plugin) + "\x00" + k.ExternalID }

// KeyOf is the volume of a key in the node's store.
func KeyOf(storeKey string) (volume.StagingKey, bool) {
	plugin, externalID, ok := strings.Cut(storeKey, "\x00")
	return volume.StagingKey{Plugin: ids.Plugin(plugin), ExternalID: externalID}, ok && plugin != "" && externalID != ""
}

// Describe names a volume for people.
func Describe(k volume.StagingKey) string {
	return `volume "` + strings.ReplaceAll(k.ExternalID, `"`, "'") + `" of plugin "` + string(k.Plugin) + `"`
}

// WantedBeside reports whether another alloc wants the volume.
func (e *Entry) WantedBeside(me ids.Alloc) bool {
	for id, p := range e.Pubs {
		if id != me && p.Wanted {
			return true
		}
	}
	return false
}

// Fitting is how the arguments of a want go with the staging that is there.
type Fitting uint8

// Fittings.
const (
	Fits       Fitting = iota // they are the staging's, or there is none
	FitsBeside                // its own publication keeps the arguments that it was made with
	Clashes                   // another alloc uses the volume in another way
	Remade                    // the staging is undone and made anew
)

// Fit decides what a want with other arguments than the present staging's means. Another attachment makes the staging
// lost. Within one attachment a publication keeps the arguments it was made with; another use beside a living one is
// refused, because the specification forbids it (NodePublishVolume).
func (e *Entry) Fit(me ids.Alloc, args Args) Fitting {
	st := &e.Staging
	own := e.Pubs[me]
	switch {
	case !st.Presence.Exists() || st.Guessed || st.Args.Equal(args):
		return Fits
	case st.Args.Generation != args.Generation:
		return Remade
	case own != nil && own.Presence.Exists():
		return FitsBeside
	case e.WantedBeside(me):
		return Clashes
	}
	return Remade
}

// Unstaged forgets what was true of a staging that is undone. What is to be grown at the next use comes with its grant.
func (e *Entry) Unstaged() {
	e.Staging.ExpandTo = 0
	e.Staging.ExpandedTo = 0
	e.Staging.Mounts = nil
	e.Staging.Own = nil
	e.Staging.Device = Device{}
	e.Staging.Dead = ""
}

// Reroot has all paths follow where moved says that they are now: those in the plugin's eyes, too, where it sees the
// host's. What was mounted at the old ones is not there any more.
func (e *Entry) Reroot(moved func(path string) string) {
	st := &e.Staging
	st.HostPath, st.TaskPath = moved(st.HostPath), moved(st.TaskPath)
	rerootMounts(st.Own, moved)
	for i, m := range st.Mounts { // "path device"
		if at := strings.LastIndexByte(m, ' '); at > 0 {
			st.Mounts[i] = moved(m[:at]) + m[at:]
		}
	}
	for _, p := range e.Pubs {
		p.HostPath, p.TaskPath = moved(p.HostPath), moved(p.TaskPath)
		rerootMounts(p.Own, moved)
	}
}

func rerootMounts(mounts []Mount, moved func(string) string) {
	for i := range mounts {
		mounts[i].Path = moved(mounts[i].Path)
	}
}

// Ungrown reports whether somebody uses a staging that is to be grown, and has not grown.
func (e *Entry) Ungrown() bool { return e.Wanted() && e.Staging.ExpandTo > e.Staging.ExpandedTo }
