package storage

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/server/validate"
	"berth/internal/server/volumes"
	"berth/internal/wire"
)

// registerAgain is a registration of a volume that exists: its plugin is asked once more, for the volume may be another
// than it was. Where nothing is to change, a plugin that cannot be asked now is a warning only.
func (e *Endpoints) registerAgain(
	ctx context.Context, s *state.Snap, rec *plugin.Record, old *volume.Volume, r *wire.VolumeWriteRequest,
) (*wire.VolumeWriteReply, error) {
	if err := validate.May(old, validate.Register, ""); err != nil {
		return nil, err
	}
	n, changed, err := validate.VolumeUpdate(s, old, r, validate.Register)
	if err != nil {
		return nil, err
	}
	ask := *r
	if len(ask.Secrets.Values) == 0 {
		if ask.Secrets, err = e.cfg.Secrets.Secrets(old.Spec.Secrets); err != nil {
			return nil, err
		}
	}
	var warning string
	if rec == nil || !rec.Negotiated {
		err = fault.New(fault.NotReady, "register", `volume "`+r.Volume.String()+`"`,
			fmt.Sprintf("plugin %q is not known or has not been healthy yet", old.Spec.Plugin))
	} else {
		wctx, cancel := patience(ctx, max(r.Wait, defaultWait))
		defer cancel()
		warning, err = e.confirmVolume(wctx, s, rec, n, &ask)
	}
	if (fault.Has(err, fault.NotReady) || fault.Has(err, fault.Unavailable)) && len(changed) == 0 {
		warning, err = "it was not validated again: "+err.Error(), nil
	}
	if err != nil {
		return nil, err
	}
	reply, err := e.volumeUpdate(ctx, s, old, r, validate.Register)
	if reply != nil {
		reply.Warnings = append(reply.Warnings, validate.Kept(old, r)...)
		if warning != "" {
			reply.Warnings = append(reply.Warnings, warning)
		}
	}
	return reply, err
}

// laneWait is how long a registration waits for an earlier call about the volume when the caller named no time.
const laneWait = 30 * time.Second

// confirmVolume has the plugin validate a volume that it did not create for us (CSI spec, ValidateVolumeCapabilities).
// A plugin without a controller cannot be asked.
func (e *Endpoints) confirmVolume(
	ctx context.Context, s *state.Snap, rec *plugin.Record, v *volume.Volume, r *wire.VolumeWriteRequest,
) (warning string, err error) {
	if !rec.Controller.ControllerService {
		return "", nil
	}
	home := v.Status.HomeNode
	if rec.Scope == plugin.ScopeNode && home == "" {
		home = volumes.Place(s, v)
	}
	executor, why := e.cfg.Controllers.Executor(s, v.Spec.Plugin, home)
	if executor == "" {
		return "", fault.New(fault.NotReady, "register", `volume "`+v.ID.String()+`"`, why)
	}
	if rec.Scope == plugin.ScopeNode {
		v.Status.HomeNode = executor
	}
	conn, err := e.cfg.Nodes.Await(ctx, executor)
	if err != nil {
		return "", err
	}
	lctx, cancel := patience(ctx, cmp.Or(max(r.Wait, 0), laneWait))
	defer cancel()
	release, err := e.cfg.Controllers.Lane(lctx, v.Spec.Plugin, v.Status.ExternalID)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", fault.New(fault.NotReady, "register", `volume "`+v.ID.String()+`"`,
			"its plugin cannot be asked, because an earlier call about it has not ended")
	}
	defer release()
	reply, err := wire.AgentValidateVolume.Call(ctx, conn, &wire.ValidateVolumeRequest{
		Node:         executor,
		Plugin:       v.Spec.Plugin,
		ExternalID:   v.Status.ExternalID,
		Context:      v.Status.Context,
		Parameters:   v.Spec.Parameters,
		Capabilities: v.Spec.Capabilities,
		MountOptions: v.Spec.MountOptions,
		Secrets:      r.Secrets,
	})
	if err != nil {
		return "", fault.Note(err, "register", `volume "`+v.ID.String()+`"`)
	}
	return reply.Warning, nil
}
