package validate

import (
	"errors"
	"fmt"
	"reflect"

	"berth/internal/base/fault"
	"berth/internal/base/sizes"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/server/provision"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// provided refuses a job that says how to make a volume which cannot be made so, or which is there as another one. What
// is there is used as it is: that it is smaller than what the job says is a warning.
func provided(s *state.Snap, j *job.Job) (warnings []string, err error) {
	var errs []error
	var last provision.Wanted
	judged := map[*job.VolumeRequest]bool{}
	wanted := provision.Of(j)
	if m := s.Meta(nil); len(wanted) > 0 && m != nil && m.Schema < provision.Schema {
		return nil, fault.WithHint(fault.New(fault.Unsupported, "register",
			fmt.Sprintf("job %q: group %q: volume %q", j.ID, wanted[0].Group.Name, wanted[0].Request.Name),
			"it has a create block, and a server of the cluster is older than those"),
			"upgrade every server first; or make the volume with berth volume create FILE")
	}
	for _, w := range wanted {
		warning, err := provisioned(s, w, last)
		if !judged[w.Request] {
			less := siteless(s, &w)
			judged[w.Request] = less != nil // of all its allocs the same would be said
			err = errors.Join(err, less)
		}
		for _, one := range Each(err) {
			errs = append(errs, fault.Note(one, "register",
				fmt.Sprintf("job %q: group %q: volume %q", j.ID, w.Group.Name, w.Request.Name)))
		}
		if warning != "" {
			warnings = append(warnings, warning)
		}
		last = w
	}
	return warnings, errors.Join(errs...)
}

// siteless refuses a volume that would be made on a node on which its job may not run, so that it would wait for ever.
func siteless(s *state.Snap, w *provision.Wanted) error {
	if old := s.Volume(nil, w.Volume.ID); old != nil && old.Status.Presence.Exists() {
		return nil // whether its node will do is said where it is placed
	}
	why := provision.Nowhere(s, w)
	if why == "" {
		return nil
	}
	hint := "change what the job asks of its nodes, or run the plugin's job on one on which this job may run"
	if w.Volume.Spec.Plugin == bundled {
		hint = "change what the job asks of its nodes, or write client { local_csi = true } in the agent's " +
			"configuration of one on which it may run"
	}
	subject := fmt.Sprintf("volume %q", w.Volume.ID.String())
	return fault.WithHint(fault.New(fault.Conflict, "create", subject, why), hint)
}

func provisioned(s *state.Snap, w, last provision.Wanted) (warning string, err error) {
	id, spec := w.Volume.ID, w.Volume.Spec
	subject := fmt.Sprintf("volume %q", id.String())
	if last.Volume != nil && last.Volume.ID == id {
		if !reflect.DeepEqual(last.Volume.Spec, spec) {
			return "", fault.WithHint(fault.New(fault.Invalid, "create", subject,
				fmt.Sprintf("volume %q of group %q would make it in another way", last.Request.Name, last.Group.Name)),
				"let one of them say how to make it, or both the same")
		}
		return "", nil
	}
	req := &wire.VolumeWriteRequest{Volume: id, Spec: spec}
	bad := Volume(req, false)
	old := s.Volume(nil, id)
	if old == nil || provision.Renews(s, &w) {
		if spec.Plugin == "" {
			return "", bad
		}
		return "", errors.Join(bad, VolumeCreate(s, req))
	}
	errs := []error{bad, May(old, Create, "")}
	if old.Spec.Plugin != spec.Plugin && spec.Plugin != "" {
		errs = append(errs, fault.WithHint(fault.New(fault.Conflict, "create", subject,
			fmt.Sprintf("it exists, and is plugin %q's; the job would have plugin %q make it", old.Spec.Plugin,
				spec.Plugin)),
			"name that plugin, or another source"))
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	if has := old.Status.Capacity; old.Status.Phase == volume.PhaseReady && has > 0 && has < spec.CapacityMin {
		have, asked := sizes.Differing(has, spec.CapacityMin)
		return fmt.Sprintf("volume %q has %s, the job would make it with %s or more; to expand it: "+
			"berth volume expand -size=%d %s", id.ID, have, asked, spec.CapacityMin, id.Typed()), nil
	}
	return "", nil
}
