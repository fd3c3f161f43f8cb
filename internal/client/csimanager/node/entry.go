// Package node owns the stagings and publications of this node: it is the keeper that makes them, verifies them in the
// mount table and undoes them, for every CSI plugin. Its records are durable intents: Uncertain is on disk before each
// call. Only the client's composition may import it; hooks see csimanager.
package node

import (
	"maps"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
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
}

// Args are the arguments of the calls that make the staging; a repeated call carries equal ones.
type Args struct {
	AccessMode     volume.AccessMode
	AttachmentMode volume.AttachmentMode
	MountOptions   *volume.MountOptions
	VolumeContext  map[string]string
	PublishContext map[string]string
	Generation     uint64 // of the attachment
}

// Staging is the volume prepared once on this node. For plugins that do not stage, Skip is set and Presence follows
// the wants without a call.
type Staging struct {
	Presence volume.Presence
	Skip     bool
	Args     Args
	HostPath string // as the agent sees it
	TaskPath string // as it was sent to the plugin
	// Mounts are what was mounted at or beneath HostPath after the plugin's OK, as "path device". When one of them
	// goes, the staging is lost: a publication made from it would show the bare directory.
	Mounts []string
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
	Generation   uint64 // of the attachment that the want was granted under
	// Received is where the servers' state was when they gave the permission.
	Received lineage.Point
}

// clone copies an entry deeply, so that the journal's view and the reports never share memory with the keeper.
func (e *Entry) clone() *Entry {
	c := *e
	c.Staging.Args = e.Staging.Args.clone()
	c.Staging.Mounts = slices.Clone(e.Staging.Mounts)
	c.Pubs = make(map[ids.Alloc]*Publication, len(e.Pubs))
	for id, p := range e.Pubs {
		pc := *p
		c.Pubs[id] = &pc
	}
	return &c
}

func (a Args) clone() Args {
	a.VolumeContext = maps.Clone(a.VolumeContext)
	a.PublishContext = maps.Clone(a.PublishContext)
	a.MountOptions = a.MountOptions.Clone()
	return a
}

// equal compares arguments by content; the generation counts, because another attachment is another device.
func (a Args) equal(b Args) bool {
	return a.AccessMode == b.AccessMode && a.AttachmentMode == b.AttachmentMode && a.Generation == b.Generation &&
		maps.Equal(a.VolumeContext, b.VolumeContext) && maps.Equal(a.PublishContext, b.PublishContext) &&
		a.MountOptions.Equal(b.MountOptions)
}

// allocs lists the publications in a stable order.
func (e *Entry) allocs() []ids.Alloc { return slices.Sorted(maps.Keys(e.Pubs)) }

// wanted reports whether any publication is wanted.
func (e *Entry) wanted() bool {
	for _, p := range e.Pubs {
		if p.Wanted {
			return true
		}
	}
	return false
}

// published reports whether safety must assume that any publication exists.
func (e *Entry) published() bool {
	for _, p := range e.Pubs {
		if p.Presence.Exists() {
			return true
		}
	}
	return false
}

// quiet reports that nothing exists and nothing is wanted: the record waits for the servers' acknowledgement only.
func (e *Entry) quiet() bool { return !e.Staging.Presence.Exists() && !e.published() && !e.wanted() }

// wakeOnBoot turns everything that another boot made into Uncertain, and tells whether it changed anything.
func (e *Entry) wakeOnBoot(boot string) bool {
	if e.Boot == boot {
		return false
	}
	e.Boot = boot
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

func keyString(k volume.StagingKey) string { return string(k.Plugin) + "\x00" + k.ExternalID }

func describeKey(k volume.StagingKey) string {
	return `volume "` + strings.ReplaceAll(k.ExternalID, `"`, "'") + `" of plugin "` + string(k.Plugin) + `"`
}
