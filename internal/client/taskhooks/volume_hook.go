package taskhooks

import (
	"context"
	"path"

	"berth/internal/base/fault"
	"berth/internal/client/allochooks"
	"berth/internal/client/csimanager"
	"berth/internal/client/hook"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// HostVolumes looks up the host volumes that this node's configuration offers.
type HostVolumes interface {
	// HostVolume returns the directory, or why it cannot be used now.
	HostVolume(ctx context.Context, name string) (dir string, readOnly bool, err error)
}

// Volume makes driver mounts from the group's volumes for one task. It copies and never edits the job.
type Volume struct {
	Host    HostVolumes
	Mounter csimanager.VolumeMounter
}

var _ hook.Prestarter = (*Volume)(nil)

// Name implements hook.Hook. It is what users of such systems know from the events of their tasks.
func (*Volume) Name() string { return "volumes" }

// Prestart adds a mount, or a device for raw block volumes, for every volume_mount of the task. The mount table is
// asked each time, because a task must never start on a target that is not mounted.
func (h *Volume) Prestart(ctx context.Context, t *hook.Task) error {
	if len(t.Task.VolumeMounts) == 0 {
		return nil
	}
	if t.DriverInfo.Capabilities.Mounts == driver.MountNone {
		return allochooks.NoMounts(string(t.Job.ID), t.Group.Name, t.Task.Name, t.Task.Driver,
			t.Task.VolumeMounts[0].Volume)
	}
	for _, vm := range t.Task.VolumeMounts {
		req := t.Group.Volumes[vm.Volume]
		if req == nil {
			return fault.New(fault.Invalid, "mount", `volume "`+vm.Volume+`"`,
				`group "`+t.Group.Name+`" has no volume of this name`)
		}
		if err := h.add(ctx, t, vm, req); err != nil {
			return err
		}
	}
	return nil
}

func (h *Volume) add(ctx context.Context, t *hook.Task, vm *job.VolumeMount, req *job.VolumeRequest) error {
	dest, err := t.Interpolate(vm.Destination)
	if err != nil {
		return fault.Note(err, "mount", `volume "`+vm.Volume+`"`)
	}
	target := path.Join("/", dest)
	readOnly := vm.ReadOnly || req.ReadOnly
	if req.Type == job.VolumeTypeHost {
		dir, ro, err := h.Host.HostVolume(ctx, req.Source)
		if err != nil {
			return err
		}
		t.Out.Mounts = append(t.Out.Mounts, driver.Mount{
			Source:      dir,
			Target:      target,
			ReadOnly:    readOnly || ro,
			Propagation: vm.PropagationMode,
			Volume:      `host volume "` + req.Source + `"`,
		})
		return nil
	}
	mounts := t.Mounts.Get()
	info, ok := mounts[vm.Volume]
	if !ok {
		return fault.New(fault.NotReady, "mount", `volume "`+vm.Volume+`"`,
			"it is not published for this allocation yet")
	}
	// A process that was found running is not disturbed: what it finds in its volume, it says by its end.
	again := t.Attempt > 1 && !t.Restored
	if err := h.Mounter.Mounted(ctx, info.Key, again); err != nil {
		return hook.ForStorage(err)
	}
	readOnly = readOnly || info.ReadOnly
	if info.Block {
		t.Out.Devices = append(t.Out.Devices,
			driver.Device{HostPath: info.Source, TaskPath: target, Permissions: permissions(readOnly)})
		return nil
	}
	t.Out.Mounts = append(t.Out.Mounts, driver.Mount{
		Source:      info.Source,
		Target:      target,
		ReadOnly:    readOnly,
		Propagation: vm.PropagationMode,
		Volume:      `volume "` + string(info.Volume.ID) + `"`,
	})
	return nil
}

func permissions(readOnly bool) string {
	if readOnly {
		return "r"
	}
	return "rw"
}
