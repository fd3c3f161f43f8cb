package volumes

import (
	"berth/internal/base/fault"
	"berth/internal/model/volume"
	"berth/internal/server/holders"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// callFor builds the call of a step from the stored record alone, so that a repetition carries equal arguments.
func (k *Keeper) callFor(s *state.Snap, v *volume.Volume, step volume.VolumeStep) (*wire.ControllerCall, error) {
	secrets, err := k.cfg.Secrets.Secrets(v.Spec.Secrets)
	if err != nil {
		return nil, err
	}
	w := &wire.ControllerCall{
		Subject:    v.ID.String(),
		Generation: v.Status.Generation,
		Plugin:     v.Spec.Plugin,
		Provider:   v.Status.Provider,
		Timeout:    controllerTimeout,
		Secrets:    secrets,
	}
	arg := &wire.VolumeArgs{
		Volume:         v.ID,
		ExternalID:     v.Status.ExternalID,
		HiddenID:       v.Status.HiddenID,
		Min:            v.Status.WantedMin,
		Max:            v.Status.WantedMax,
		AccessMode:     v.Status.AccessMode,
		AttachmentMode: v.Status.AttachmentMode,
		MountOptions:   v.Spec.MountOptions,
	}
	switch step {
	case volume.StepDelete:
		w.Kind, w.Volume = wire.CallDelete, arg
	case volume.StepExpand:
		w.Kind, w.Volume = wire.CallExpand, arg
		if v.Status.AccessMode != "" {
			arg.MountOptions = v.Status.MountOptions // as the attachments carry it
		}
		if arg.AccessMode == "" && len(v.Spec.Capabilities) > 0 {
			arg.AccessMode, arg.AttachmentMode = v.Spec.Capabilities[0].AccessMode,
				v.Spec.Capabilities[0].AttachmentMode
		}
	default:
		w.Kind, w.Timeout = wire.CallCreate, createTimeout
		w.Create = &wire.CreateArgs{
			Name:           ProviderName(clusterID(s), v),
			Spec:           v.Spec,
			SourceSnapshot: v.Spec.SnapshotID,
		}
		w.Create.Spec.Secrets = ""
		if v.Spec.CloneID != "" {
			src := holders.Source(s, v)
			if src == nil || src.Status.ExternalID == "" {
				return nil, fault.New(fault.NotFound, "create volume", v.ID.String(),
					"the volume to clone, "+v.Spec.CloneID+", does not exist")
			}
			w.Create.SourceVolume = src.Status.ExternalID
		}
	}
	return w, nil
}

func clusterID(s *state.Snap) string {
	if m := s.Meta(nil); m != nil {
		return m.ClusterID
	}
	return ""
}
