package views

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

// AllocVolumes tells for one alloc where each of its volumes stands.
func AllocVolumes(s *state.Snap, w *state.Watch, a *alloc.Alloc) []wire.AllocVolume {
	j := s.JobOf(w, a)
	if j == nil || j.Group(a.TaskGroup) == nil {
		return nil
	}
	var out []wire.AllocVolume
	for _, r := range j.Group(a.TaskGroup).CSIVolumes() {
		id := volume.ID{Namespace: a.Namespace, ID: r.SourceFor(a.Index)}
		av := wire.AllocVolume{Alias: r.Name, Volume: id.ID, ReadOnly: r.ReadOnly}
		av.Held = s.Claim(w, volume.ClaimKey{Volume: id, Alloc: a.ID}) != nil
		v := s.Volume(w, id)
		if v == nil {
			av.State = "the volume does not exist"
			out = append(out, av)
			continue
		}
		av.Plugin, av.Provider = v.Spec.Plugin, v.Status.Provider
		av.State = stateOf(s, w, a, v)
		if i := s.InventoryEntry(w, a.Node, v.Staging()); i != nil {
			av.LastError, av.NextTry = i.Entry.LastError, i.Entry.NextTry
			if i.Entry.Step != "" && av.State != "released" {
				av.State += "; there: " + i.Entry.Step
			}
			for _, p := range i.Entry.Publications {
				if p.Alloc == a.ID && p.Presence == volume.Present {
					av.Path = p.Path
					av.State = "published at " + p.Path
				}
			}
		}
		if text := Orphaned(s, w, a.Node, a.ID); text != "" && av.Held {
			av.State += "; " + text
		}
		out = append(out, av)
	}
	return out
}

func stateOf(s *state.Snap, w *state.Watch, a *alloc.Alloc, v *volume.Volume) string {
	c := s.Claim(w, volume.ClaimKey{Volume: v.ID, Alloc: a.ID})
	switch {
	case c == nil && a.Terminal():
		return "released"
	case c == nil:
		return "not claimed"
	case c.State == volume.Queued:
		return Holders(s, w, c)
	case c.State == volume.Releasing:
		return "being released since " + c.Since.UTC().Format(time.RFC3339)
	case a.ServerTerminal():
		return "being released; claimed since " + c.Since.UTC().Format(time.RFC3339)
	}
	if at := s.Attachment(w, volume.AttachmentKey{StagingKey: v.Staging(), Node: a.Node}); at != nil {
		return volume.DescribeAttachment(at)
	}
	return "claimed since " + c.Since.UTC().Format(time.RFC3339)
}

// AllocVolumesIndex is the index of the last change of what an alloc's volumes are described from.
func AllocVolumesIndex(s *state.Snap, w *state.Watch, a *alloc.Alloc) uint64 {
	index := uint64(0)
	for c := range s.ClaimsByAlloc(w, a.ID) {
		index = max(index, c.ModifyIndex)
		for at := range s.AttachmentsOf(w, c.Staging()) {
			index = max(index, at.ModifyIndex)
		}
		for i := range s.InventoriesOf(w, c.Staging()) {
			index = max(index, i.ModifyIndex)
		}
		if v := s.Volume(w, c.Volume); v != nil {
			index = max(index, v.ModifyIndex)
		}
	}
	return index
}

// Holders says who keeps a claim in the queue, since when, and what a person can do about one that is an orphan.
func Holders(s *state.Snap, w *state.Watch, queued *volume.Claim) string {
	for c := range s.ClaimsOf(w, queued.Staging()) {
		if c.Alloc == queued.Alloc || !volume.Excludes(c, queued) {
			continue
		}
		text := volume.DescribeClaim(c)
		if orphan := Orphaned(s, w, c.Node, c.Alloc); orphan != "" {
			text += "; " + orphan
		}
		return text
	}
	if v := s.VolumeOf(w, queued.Staging()); v != nil {
		if why := suspension.Claims(s, w, v); why != nil {
			return why.String()
		}
	}
	return "waiting for the volume to be free"
}

// Refusal says that a provider has permanently refused to attach a volume to a node, as it is in use now, and what ends
// that; empty: it has not.
func Refusal(s *state.Snap, w *state.Watch, k volume.StagingKey, node ids.Node) string {
	v := s.VolumeOf(w, k)
	r := s.Shortage(w, plugin.ShortageKey{Node: node, Plugin: k.Plugin, ExternalID: k.ExternalID})
	if v == nil || r == nil {
		return ""
	}
	st := v.Status
	if st.AccessMode != "" && r.Use != volume.Wish(st.AccessMode, st.AttachmentMode, st.MountOptions) {
		return ""
	}
	why, hint := r.Explain()
	return why + "; " + hint
}

// Attaching says what an attachment to a node waits for, and whether that is its own call alone, which has not failed;
// at is nil when there is none yet.
func Attaching(
	s *state.Snap, w *state.Watch, k volume.StagingKey, node ids.Node, at *volume.Attachment,
) (reason string, underWay bool) {
	if why := Refusal(s, w, k, node); why != "" && (at == nil || at.Presence != volume.Present) {
		return why, false
	}
	if at == nil {
		for o := range s.AttachmentsOf(w, k) {
			if o.Node != node {
				return volume.DescribeAttachment(o), false
			}
		}
		return "waiting for the volume to be attached to the node", true
	}
	return volume.DescribeAttachment(at), !at.Detaching && at.LastError == ""
}
