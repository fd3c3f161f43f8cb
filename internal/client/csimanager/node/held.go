package node

import (
	"cmp"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/wire"
)

// HeldBy tells what this node holds of volumes for an alloc, so that servers that do not know it can take it over.
func (k *Keeper) HeldBy(alloc ids.Alloc) []wire.HeldVolume {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []wire.HeldVolume
	for key, vs := range k.vols {
		if p := vs.entry.Pubs[alloc]; p != nil && (p.Wanted || p.Presence.Exists()) {
			args := vs.entry.Staging.Args.Clone()
			out = append(out, wire.HeldVolume{
				StagingKey:     key,
				Volume:         vs.entry.Volume,
				Alias:          p.Alias,
				Epoch:          p.Epoch,
				ReadOnly:       p.ReadOnly,
				Generation:     args.Generation,
				AccessMode:     args.AccessMode,
				AttachmentMode: args.AttachmentMode,
				MountOptions:   args.MountOptions,
				VolumeContext:  args.VolumeContext,
				PublishContext: args.PublishContext,
			})
		}
	}
	slices.SortFunc(out, func(a, b wire.HeldVolume) int { return cmp.Compare(a.Alias, b.Alias) })
	return out
}
