package validate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/sizes"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/holders"
	"berth/internal/server/instances"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// bundled is the plugin that an agent runs where its configuration asks for it.
const bundled = instances.Bundled

// VolumeCreate refuses what the plugin cannot do, before anything is recorded. An unknown plugin is told apart from one
// that is not healthy right now.
func VolumeCreate(s *state.Snap, r *wire.VolumeWriteRequest) error {
	rec, subject := s.Plugin(nil, r.Spec.Plugin), `volume "`+r.Volume.String()+`"`
	hint := "see which plugins there are with: berth plugin status"
	if r.Spec.Plugin == bundled {
		hint = "write client { local_csi = true } in the agent's configuration, and restart the agent: tasks go on"
	}
	switch {
	case rec == nil && !instanceOf(s, r.Spec.Plugin):
		return fault.WithHint(
			fault.New(fault.Conflict, "create", subject,
				fmt.Sprintf("plugin %q is not known: no job runs it", r.Spec.Plugin)), hint)
	case rec == nil || !rec.Negotiated:
		return fault.WithHint(
			fault.New(fault.NotReady, "create", subject,
				fmt.Sprintf("plugin %q has not been healthy yet", r.Spec.Plugin)), hint)
	case !rec.Controller.ControllerService:
		return fault.New(fault.Conflict, "create", subject, "plugin has no controller")
	case !rec.Controller.CreateDelete:
		return fault.New(fault.Conflict, "create", subject, "plugin does not support creating volumes")
	case r.Spec.SnapshotID != "" && !rec.Controller.CreateSnapshot:
		return fault.New(fault.Conflict, "create", subject,
			"plugin does not support snapshots, so snapshot_id cannot be used")
	case r.Spec.CloneID != "" && !rec.Controller.Clone:
		return fault.New(fault.Conflict, "create", subject,
			"plugin does not support cloning, so clone_id cannot be used")
	}
	return source(s, r, rec)
}

// source refuses to make a volume from what is not there, or is another provider's than the one that would make it.
func source(s *state.Snap, r *wire.VolumeWriteRequest, rec *plugin.Record) error {
	subject := fmt.Sprintf("volume %q", r.Volume.String())
	foreign := func(what, owner string) error {
		if rec.Foreign(owner) == "" {
			return nil
		}
		return fault.WithHint(
			fault.New(fault.Conflict, "create", subject, fmt.Sprintf("%s belongs to provider %q, and plugin %q is now "+
				"served by provider %q, which does not know it", what, owner, r.Spec.Plugin, rec.Provider)),
			"run the first provider again, or hand over what it has: see berth plugin rebind -help")
	}
	if r.Spec.CloneID != "" {
		src := holders.Source(s, &volume.Volume{ID: r.Volume, Spec: r.Spec})
		if src == nil {
			return fault.New(fault.NotFound, "create", subject,
				fmt.Sprintf("the volume to clone, %q, is not known in this namespace for this plugin", r.Spec.CloneID))
		}
		return foreign(fmt.Sprintf("the volume to clone, %q,", r.Spec.CloneID), src.Status.Provider)
	}
	if r.Spec.SnapshotID != "" {
		for sn := range s.VolumeSnapshotsByExternalID(nil, r.Spec.Plugin, r.Spec.SnapshotID) {
			if err := foreign(fmt.Sprintf("snapshot %q", r.Spec.SnapshotID), sn.Provider); err != nil {
				return err
			}
		}
	}
	return nil
}

func instanceOf(s *state.Snap, id ids.Plugin) bool {
	for range instances.Of(s, nil, id) {
		return true
	}
	return false
}

// VolumeUpdate applies a request to a copy of the volume and names what differs. What the provider answered is never
// touched.
func VolumeUpdate(
	s *state.Snap, old *volume.Volume, r *wire.VolumeWriteRequest, verb Verb,
) (*volume.Volume, []string, error) {
	n := *old
	want := r.Spec
	var refused, changed []string
	fixed := func(name string, have, asked string) {
		if asked != "" && asked != have {
			refused = append(refused,
				fmt.Sprintf("volume %s cannot be updated (it is %q, %q was asked for)", name, have, asked))
		}
	}
	fixed("name", old.Name(), want.Name) // who names none has the id sent
	fixed("external ID", old.Status.ExternalID, r.ExternalID)
	fixed("plugin ID", string(old.Spec.Plugin), string(want.Plugin))
	fixed("clone ID", old.Spec.CloneID, want.CloneID)
	fixed("snapshot ID", old.Spec.SnapshotID, want.SnapshotID)
	if len(want.Parameters) > 0 && !maps.Equal(want.Parameters, old.Spec.Parameters) {
		refused = append(refused, "volume parameters cannot be updated")
	}
	inUse := claimed(s, old)
	if !slices.Equal(want.Capabilities, old.Spec.Capabilities) {
		if inUse && !slices.Contains(want.Capabilities,
			volume.Capability{AccessMode: old.Status.AccessMode, AttachmentMode: old.Status.AttachmentMode}) {
			refused = append(refused,
				"volume requested capabilities update was not compatible with existing capability in use")
		}
		n.Spec.Capabilities, changed = want.Capabilities, append(changed, "capabilities")
	}
	if want.MountOptions != nil && !want.MountOptions.Equal(old.Spec.MountOptions) {
		if inUse {
			refused = append(refused, "can not update mount options while volume is in use")
		}
		n.Spec.MountOptions, changed = want.MountOptions, append(changed, "mount_options")
	}
	if want.Ownership != nil && !reflect.DeepEqual(want.Ownership, old.Spec.Ownership) {
		n.Spec.Ownership, changed = want.Ownership, append(changed, "ownership") // the next start goes by it
	}
	if len(want.TopologyRequired) > 0 && !reflect.DeepEqual(want.TopologyRequired, old.Spec.TopologyRequired) {
		refused = append(refused, "volume topology request update was not compatible with existing topology")
	}
	if len(r.Context) > 0 && !maps.Equal(r.Context, old.Status.Context) && old.Spec.Registered {
		if inUse {
			refused = append(refused, "volume context cannot be updated while the volume is in use")
		}
		n.Status.Context, changed = r.Context, append(changed, "context")
	}
	if want.CapacityMin == old.Spec.CapacityMin && want.CapacityMax == old.Spec.CapacityMax || met(old, want) {
		// what a provider refused is not asked again by the way
	} else if err := Resize(&n, old, want.CapacityMin, want.CapacityMax, s.Plugin(nil, old.Spec.Plugin)); err != nil {
		refused = append(refused, err.Error())
	} else if n.Spec.CapacityMin != old.Spec.CapacityMin || n.Spec.CapacityMax != old.Spec.CapacityMax {
		changed = append(changed, "capacity")
	}
	if len(refused) > 0 {
		return nil, nil, refusal(old, r, verb, refused)
	}
	return &n, changed, nil
}

// refusal says all that may not change, and what to do for a volume of another origin.
func refusal(old *volume.Volume, r *wire.VolumeWriteRequest, verb Verb, refused []string) error {
	other := func(have, asked string) bool { return asked != "" && asked != have }
	err := fault.New(fault.Conflict, string(verb), `volume "`+r.Volume.String()+`"`, strings.Join(refused, ", "))
	if other(old.Spec.CloneID, r.Spec.CloneID) || other(old.Spec.SnapshotID, r.Spec.SnapshotID) {
		return fault.WithHint(err, "what a volume was made from stays: give another id, or end this one first with: "+
			"berth volume delete "+r.Volume.Typed())
	}
	return err
}

// Kept names what a volume has and a request for it does not name any more. Such stays, for there are clients that do
// not know of all of it: each with the way to be rid of it.
func Kept(old *volume.Volume, r *wire.VolumeWriteRequest) (warnings []string) {
	id := old.ID.Typed()
	anew := fmt.Sprintf("it stays as it is; to be rid of it: berth volume deregister %s; then register it anew by a "+
		"file with external_id = %q", id, old.Status.ExternalID)
	if old.Spec.Secrets != "" && len(r.Secrets.Values) == 0 {
		warnings = append(warnings, fmt.Sprintf("volume %q has secrets, and none are given: %s", id, anew))
	}
	if old.Spec.MountOptions != nil && r.Spec.MountOptions == nil {
		warnings = append(warnings, fmt.Sprintf("volume %q has mount_options, and none are given: %s", id, anew))
	}
	if len(old.Spec.Parameters) > 0 && len(r.Spec.Parameters) == 0 {
		warnings = append(warnings, fmt.Sprintf("volume %q has parameters, and none are given: it keeps those that it "+
			"was made with; to have a volume of others, create one by another id", id))
	}
	if old.Spec.Ownership != nil && r.Spec.Ownership == nil {
		warnings = append(warnings, fmt.Sprintf("volume %q has an ownership, and none is given: it stays as it is; "+
			"to have its files left alone, write ownership { policy = \"none\" }", id))
	}
	return warnings
}

// met reports that a volume is as large as a request asks, and its size is settled: it has grown since by another
// request, and the file that it was made by is as good as before.
func met(v *volume.Volume, want volume.Spec) bool {
	return v.Status.Phase != volume.PhaseExpanding && v.Spec.CapacityMin <= v.Status.Capacity &&
		want.CapacityMin <= v.Status.Capacity && (want.CapacityMax == 0 || want.CapacityMax == v.Spec.CapacityMax)
}

// Resize turns another capacity request into an expansion where the volume is smaller than asked. Who names no limit
// keeps the one that stands. While the volume is expanded another size takes the place of the one under way, as soon as
// no call of that is of an unknown end; no more than it has cancels it.
func Resize(n, old *volume.Volume, lo, hi int64, rec *plugin.Record) error {
	if lo == 0 && hi == 0 {
		return nil
	}
	expanding := old.Status.Phase == volume.PhaseExpanding
	if lo == 0 && expanding {
		lo = old.Spec.CapacityMin
	}
	if hi == 0 {
		if hi = old.Spec.CapacityMax; hi > 0 && hi < lo {
			more, limit := sizes.Differing(lo, hi)
			return fmt.Errorf("%s are more than the volume's limit of %s; name a higher one with it (capacity_max; on "+
				"the command line -limit)", more, limit)
		}
	}
	cur := old.Status.Capacity
	switch {
	case hi > 0 && hi < lo:
		most, least := sizes.Differing(hi, lo)
		return fmt.Errorf("max requested capacity (%s) less than or equal to min (%s)", most, least)
	case hi > 0 && hi < cur:
		most, has := sizes.Differing(hi, cur)
		return fmt.Errorf("max requested capacity (%s) less than or equal to current (%s): volumes cannot shrink", most,
			has)
	case lo > cur:
		if err := expandable(old, rec); err != nil {
			return err
		}
	}
	n.Spec.CapacityMin, n.Spec.CapacityMax = lo, hi
	if lo > cur && !expanding || expanding && old.Status.ExpandSettled {
		n.Expand(time.Now())
	}
	return nil
}

// expandable refuses what the plugin cannot do, or not now.
func expandable(old *volume.Volume, rec *plugin.Record) error {
	if why := rec.Foreign(old.Status.Provider); why != "" {
		return fmt.Errorf("%s", why)
	}
	if rec == nil || !rec.Controller.ControllerExpand {
		return fmt.Errorf("expand is not implemented by this controller plugin")
	}
	if !slices.Contains(begun[old.Status.Phase], Expand) {
		_, why, _ := standing(old)
		return fmt.Errorf("its size cannot be changed now: %s", why)
	}
	if old.Status.AccessMode != "" && rec.Controller.ExpandOffline && !rec.Controller.ExpandOnline {
		return fmt.Errorf(
			"unable to expand volume: the plugin expands only volumes that are not in use; stop the jobs that use it " +
				"first")
	}
	return nil
}

func claimed(s *state.Snap, v *volume.Volume) bool {
	for range s.ClaimsOf(nil, v.Staging()) {
		return true
	}
	return false
}
