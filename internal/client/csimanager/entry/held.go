package entry

import (
	"berth/internal/base/ids"
	"berth/internal/wire"
)

// HeldBy is what is held of the volume for an alloc; false: nothing, and nothing is wanted.
func (e *Entry) HeldBy(alloc ids.Alloc) (wire.HeldVolume, bool) {
	p := e.Pubs[alloc]
	if p == nil || !p.Wanted && !p.Presence.Exists() {
		return wire.HeldVolume{}, false
	}
	args := e.Staging.Args.Clone()
	return wire.HeldVolume{
		StagingKey:     e.Key,
		Volume:         e.Volume,
		Alias:          p.Alias,
		Epoch:          p.Epoch,
		ReadOnly:       p.ReadOnly,
		Generation:     args.Generation,
		AccessMode:     args.AccessMode,
		AttachmentMode: args.AttachmentMode,
		MountOptions:   args.MountOptions,
		VolumeContext:  args.VolumeContext,
		PublishContext: args.PublishContext,
	}, true
}
