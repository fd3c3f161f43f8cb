package volumes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/model/volume"
	"berth/internal/port/csi/echo"
	"berth/internal/server/controllers"
	"berth/internal/server/holders"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// madeHidden reports that the provider has made a volume under an id that can be neither kept nor shown.
func madeHidden(r *wire.ControllerResult) bool { return r.Created != nil && r.Created.HiddenID != "" }

// hidden notes such a volume. Nobody is given it, and by what stands for its id it can be deleted.
func (k *Keeper) hidden(n *volume.Volume, r *wire.ControllerResult) {
	_, err := controllers.Failure(r)
	n.Status.HiddenID = r.Created.HiddenID
	n.Status.Presence = volume.Present
	k.cfg.Log.Warn("a volume was made under an id that cannot be kept", logkey.Volume, n.ID.String(), logkey.Plugin,
		n.Spec.Plugin, logkey.Error, err)
	if n.Status.Phase == volume.PhaseCreating {
		n.Status.Phase, n.Status.Misplaced = volume.PhaseConflict, true
		n.Status.LastError = fmt.Sprintf("%v; nobody is given the volume: end it with: berth volume delete %s", err,
			n.ID.Typed())
	}
}

// deletable refuses a deletion while somebody holds or needs the volume. One with a hidden id is nobody's, unless
// somebody has read the id at the provider and registered it: then it is theirs.
func (k *Keeper) deletable(s *state.Snap, v *volume.Volume) error {
	if err := holders.InUse(s, nil, "delete", v); err != nil || v.Status.HiddenID == "" {
		return err
	}
	subject := `volume "` + v.ID.String() + `"`
	secrets, err := k.cfg.Secrets.Secrets(v.Spec.Secrets)
	if err != nil {
		return err
	}
	id, missing := echo.RevealText(secrets.Open(), v.Status.HiddenID)
	if len(missing) > 0 {
		return fault.New(fault.NotFound, "delete", subject,
			"its id at the provider refers to secrets that are gone: "+strings.Join(missing, ", "))
	}
	shown := *v
	shown.Status.ExternalID = id
	for o := range s.VolumesByExternalID(nil, v.Spec.Plugin, id) {
		if !o.OwnsNothing() {
			return fault.WithHint(
				fault.New(fault.Conflict, "delete", subject,
					"what its provider made is registered as volume "+o.ID.String()),
				"forget this record with: berth volume deregister "+v.ID.Typed())
		}
	}
	if s.Tombstone(nil, shown.Staging()) != nil {
		return fault.New(fault.Busy, "delete", subject,
			"something is left of a volume with its id that was forgotten by force")
	}
	return holders.InUse(s, nil, "delete", &shown)
}

// hiddenSnapshot notes that the provider has cut a snapshot under an id that can be neither kept nor shown: nobody
// could name it, so it is deleted at once, with the secrets that it was cut with.
func (k *Keeper) hiddenSnapshot(ctx context.Context, sn *volume.Snapshot, id string, cause error) error {
	n := *sn
	n.HiddenID = id
	n.Presence = volume.Present
	n.Phase = volume.PhaseDeleting
	n.LastError = cause.Error()
	n.Executor = ""
	n.Tries = 0
	n.NextTry = time.Time{}
	k.cfg.Log.Warn("a snapshot was cut under an id that cannot be kept: it is deleted", logkey.Volume,
		string(sn.Source), logkey.Plugin, sn.Plugin, logkey.Error, cause)
	return k.putSnapshot(ctx, &n)
}
