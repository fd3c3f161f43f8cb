package convert

import (
	"maps"
	"strings"

	"berth/api"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// Orphan shows what a node keeps though nobody decides about it. What the provider gave for its mounts may be secret,
// and is left out.
func Orphan(node, digest string, o *wire.Orphan) *api.Orphan {
	a := o.Bundle.Alloc
	out := &api.Orphan{
		AllocID:    string(a.ID),
		NodeID:     node,
		Name:       a.Name,
		TaskGroup:  a.TaskGroup,
		Digest:     digest,
		RecordLost: o.Received.IsZero(),
		Job:        FromJob(o.Bundle.Job, job.StatusRunning, ""),
	}
	for i := range o.Volumes {
		out.Volumes = append(out.Volumes, heldVolume(&o.Volumes[i]))
	}
	return out
}

func heldVolume(v *wire.HeldVolume) *api.OrphanVolume {
	out := &api.OrphanVolume{
		ID:             string(v.Volume.ID),
		Namespace:      string(v.Volume.Namespace),
		Alias:          v.Alias,
		PluginID:       string(v.Plugin),
		ExternalID:     v.ExternalID,
		AccessMode:     string(v.AccessMode),
		AttachmentMode: string(v.AttachmentMode),
		ReadOnly:       v.ReadOnly,
		Context:        maps.Clone(v.VolumeContext),
	}
	if v.MountOptions != nil {
		out.FSType = v.MountOptions.FSType
	}
	return out
}

// Adopted answers the adoption of orphans.
func Adopted(out *wire.OrphanAdoptReply) *api.OrphanAdoptResponse {
	return &api.OrphanAdoptResponse{
		JobID:    string(out.Job),
		EvalID:   string(out.Eval),
		Warnings: strings.Join(out.Warnings, "\n"),
	}
}
