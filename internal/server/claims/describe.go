package claims

import (
	"time"

	"berth/internal/model/alloc"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Describe tells for one alloc where each of its volumes stands.
func Describe(s *state.Snap, w *state.Watch, a *alloc.Alloc) []wire.AllocVolume {
	j := s.JobOf(w, a)
	if j == nil || j.Group(a.TaskGroup) == nil {
		return nil
	}
	var out []wire.AllocVolume
	for _, r := range j.Group(a.TaskGroup).CSIVolumes() {
		id := volume.ID{Namespace: a.Namespace, ID: r.SourceFor(a.Index)}
		av := wire.AllocVolume{Alias: r.Name, Volume: id.ID, ReadOnly: r.ReadOnly}
		v := s.Volume(w, id)
		if v == nil {
			av.State = "the volume does not exist"
			out = append(out, av)
			continue
		}
		av.Plugin, av.Provider = v.Spec.Plugin, v.Status.Provider
		av.State = stateOf(s, w, a, id)
		if i := s.InventoryEntry(w, a.Node, volume.StagingKey{Plugin: v.Spec.Plugin, ExternalID: v.Status.ExternalID}); i != nil {
			av.LastError = i.Entry.LastError
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
		out = append(out, av)
	}
	return out
}

func stateOf(s *state.Snap, w *state.Watch, a *alloc.Alloc, id volume.ID) string {
	c := s.Claim(w, volume.ClaimKey{Volume: id, Alloc: a.ID})
	switch {
	case c == nil && a.Terminal():
		return "released"
	case c == nil:
		return "not claimed"
	case c.State == volume.Queued:
		return describeHolders(s, w, id, a.ID)
	case c.State == volume.Releasing:
		return "being released since " + c.Since.UTC().Format(time.RFC3339)
	}
	if at := s.Attachment(w, volume.AttachmentKey{Volume: id, Node: a.Node}); at != nil {
		return volume.DescribeAttachment(at)
	}
	return "claimed since " + c.Since.UTC().Format(time.RFC3339)
}
