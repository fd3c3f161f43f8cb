package taskhooks_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/client/hook"
	"berth/internal/client/taskhooks"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/port/driver"
)

// hostDirs are the node's own volumes: "ro-" ones may only be read.
type hostDirs map[string]string

func (h hostDirs) HostVolume(_ context.Context, name string) (string, bool, error) {
	dir, ok := h[name]
	if !ok {
		return "", false, fault.New(fault.NotFound, "use", `host volume "`+name+`"`, "this node has none of this name")
	}
	return dir, strings.HasPrefix(name, "ro-"), nil
}

// mountTable says what is mounted right now.
type mountTable struct {
	csimanager.VolumeMounter
	missing map[string]bool
	asked   []string
	again   bool // was asked for last
}

func (m *mountTable) Mounted(_ context.Context, k volume.PublicationKey, again bool) error {
	m.asked = append(m.asked, k.ExternalID)
	m.again = again
	if m.missing[k.ExternalID] {
		return fault.New(fault.NotReady, "mount", `volume "`+k.ExternalID+`"`, "its mount is gone")
	}
	return nil
}

// usesVolumes is a task with the mounts in a group that has every sort of volume.
func usesVolumes(mounts ...*job.VolumeMount) *hook.Task {
	res := new(hook.Mounts)
	info := func(name string, block, readOnly bool) csimanager.MountInfo {
		return csimanager.MountInfo{
			Alias:    name,
			Volume:   volume.ID{ID: ids.Volume(name)},
			Key:      volume.PublicationKey{StagingKey: volume.StagingKey{ExternalID: name}},
			Source:   "/pub/" + name,
			Block:    block,
			ReadOnly: readOnly,
		}
	}
	res.Set(
		map[string]csimanager.MountInfo{"fs": info("fs", false, false), "fs-reader": info("fs-reader", false, true),
			"fs-asked-ro": info("fs-asked-ro", false, false),
			"block":       info("block", true, false), "block-reader": info("block-reader", true, true)})
	g := &job.TaskGroup{Name: "group", Volumes: map[string]*job.VolumeRequest{
		"host": {Type: job.VolumeTypeHost, Source: "certs"}, "host-ro": {Type: job.VolumeTypeHost, Source: "ro-certs"},
		"host-asked-ro": {
			Type:     job.VolumeTypeHost,
			Source:   "certs",
			ReadOnly: true,
		}, "host-none": {Type: job.VolumeTypeHost, Source: "nothing"},
		"fs-asked-ro": {Type: job.VolumeTypeCSI, ReadOnly: true}}}
	for _, name := range []string{"fs", "fs-reader", "block", "block-reader", "late"} {
		g.Volumes[name] = &job.VolumeRequest{Type: job.VolumeTypeCSI}
	}
	return &hook.Task{
		Job:         &job.Job{ID: "shop"},
		Group:       g,
		Task:        &job.Task{Name: "web", Driver: "exec", VolumeMounts: mounts},
		Mounts:      res,
		Interpolate: func(s string) (string, error) { return strings.ReplaceAll(s, "${DIR}", "srv"), nil },
	}
}

func TestVolumesBecomeMountsAndDevices(t *testing.T) {
	for name, c := range map[string]struct {
		vm     job.VolumeMount
		mount  *driver.Mount
		device *driver.Device
	}{
		"csi": {job.VolumeMount{Volume: "fs", Destination: "/data"},
			&driver.Mount{Volume: `volume "fs"`, Source: "/pub/fs", Target: "/data"}, nil},
		"csi, propagated": {job.VolumeMount{Volume: "fs", Destination: "/data", PropagationMode: "host-to-task"},
			&driver.Mount{Volume: `volume "fs"`, Source: "/pub/fs", Target: "/data", Propagation: "host-to-task"}, nil},
		"csi, interpolated": {job.VolumeMount{Volume: "fs", Destination: "${DIR}/../data"},
			&driver.Mount{Volume: `volume "fs"`, Source: "/pub/fs", Target: "/data"}, nil},
		"csi, out of the root": {job.VolumeMount{Volume: "fs", Destination: "../../data"},
			&driver.Mount{Volume: `volume "fs"`, Source: "/pub/fs", Target: "/data"}, nil},
		"csi, mount read-only": {job.VolumeMount{Volume: "fs", Destination: "/d", ReadOnly: true},
			&driver.Mount{Volume: `volume "fs"`, Source: "/pub/fs", Target: "/d", ReadOnly: true}, nil},
		"csi, request read-only": {job.VolumeMount{Volume: "fs-asked-ro", Destination: "/d"},
			&driver.Mount{
				Volume:   `volume "fs-asked-ro"`,
				Source:   "/pub/fs-asked-ro",
				Target:   "/d",
				ReadOnly: true,
			}, nil},
		"csi, claim read-only": {job.VolumeMount{Volume: "fs-reader", Destination: "/d"},
			&driver.Mount{Volume: `volume "fs-reader"`, Source: "/pub/fs-reader", Target: "/d", ReadOnly: true}, nil},
		"block": {job.VolumeMount{Volume: "block", Destination: "/dev/x"}, nil,
			&driver.Device{HostPath: "/pub/block", TaskPath: "/dev/x", Permissions: "rw"}},
		"block, mount read-only": {job.VolumeMount{Volume: "block", Destination: "/dev/x", ReadOnly: true}, nil,
			&driver.Device{HostPath: "/pub/block", TaskPath: "/dev/x", Permissions: "r"}},
		"block, claim read-only": {job.VolumeMount{Volume: "block-reader", Destination: "/dev/x"}, nil,
			&driver.Device{HostPath: "/pub/block-reader", TaskPath: "/dev/x", Permissions: "r"}},
		"host": {job.VolumeMount{Volume: "host", Destination: "/d"},
			&driver.Mount{Volume: `host volume "certs"`, Source: "/etc/certs", Target: "/d"}, nil},
		"host, node read-only": {job.VolumeMount{Volume: "host-ro", Destination: "/d"},
			&driver.Mount{Volume: `host volume "ro-certs"`, Source: "/etc/ro", Target: "/d", ReadOnly: true}, nil},
		"host, asked read-only": {job.VolumeMount{Volume: "host-asked-ro", Destination: "/d"},
			&driver.Mount{Volume: `host volume "certs"`, Source: "/etc/certs", Target: "/d", ReadOnly: true}, nil},
		"host, mount read-only": {job.VolumeMount{Volume: "host", Destination: "/d", ReadOnly: true},
			&driver.Mount{Volume: `host volume "certs"`, Source: "/etc/certs", Target: "/d", ReadOnly: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.vm
			task := usesVolumes(&c.vm)
			h := &taskhooks.Volume{Host: hostDirs{"certs": "/etc/certs", "ro-certs": "/etc/ro"}, Mounter: &mountTable{}}
			if err := h.Prestart(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			var want hook.Output
			if c.mount != nil {
				want.Mounts = []driver.Mount{*c.mount}
			}
			if c.device != nil {
				want.Devices = []driver.Device{*c.device}
			}
			if !reflect.DeepEqual(task.Out, want) {
				t.Errorf("got %+v, want %+v", task.Out, want)
			}
			if c.vm != before {
				t.Errorf("the job was edited: %+v", c.vm)
			}
		})
	}
}

// TestOnlyATaskThatStartsAgainHasItsFileSystemAsked: the first start has just seen it mounted, and a process that was
// found running is not disturbed.
func TestOnlyATaskThatStartsAgainHasItsFileSystemAsked(t *testing.T) {
	for _, c := range []struct {
		attempt         int
		restored, asked bool
	}{{1, false, false}, {2, false, true}, {2, true, false}} {
		task := usesVolumes(&job.VolumeMount{Volume: "fs", Destination: "/a"})
		task.Attempt, task.Restored = c.attempt, c.restored
		m := &mountTable{}
		if err := (&taskhooks.Volume{Mounter: m}).Prestart(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		if len(m.asked) != 1 || m.again != c.asked {
			t.Errorf("attempt %d, restored %v: asked %v of %v", c.attempt, c.restored, m.again, m.asked)
		}
	}
}

func TestAllMountsOfATaskAreMadeInOrder(t *testing.T) {
	task := usesVolumes(&job.VolumeMount{Volume: "fs", Destination: "/a"},
		&job.VolumeMount{Volume: "block", Destination: "/dev/b"},
		&job.VolumeMount{
			Volume:      "host",
			Destination: "/c",
		}, &job.VolumeMount{Volume: "fs", Destination: "/d", ReadOnly: true})
	table := &mountTable{}
	if err := (&taskhooks.Volume{Host: hostDirs{"certs": "/etc/certs"}, Mounter: table}).Prestart(t.Context(),
		task); err != nil {
		t.Fatal(err)
	}
	want := []driver.Mount{
		{Volume: `volume "fs"`, Source: "/pub/fs", Target: "/a"},
		{Volume: `host volume "certs"`, Source: "/etc/certs", Target: "/c"},
		{Volume: `volume "fs"`, Source: "/pub/fs", Target: "/d", ReadOnly: true},
	}
	if !reflect.DeepEqual(task.Out.Mounts, want) || len(task.Out.Devices) != 1 {
		t.Errorf("got %+v", task.Out)
	}
	if !reflect.DeepEqual(table.asked, []string{"fs", "block", "fs"}) {
		t.Errorf("the mount table was asked for %q: each time anew", table.asked)
	}
}

// A task never starts on a target that is not mounted right now, and the refusals say what is wrong.
func TestAVolumeThatIsNotThereStopsTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		use  string
		kind fault.Kind
		text string
	}{
		"not published yet": {"late", fault.NotReady, `volume "late": it is not published for this allocation yet`},
		"mount lost":        {"fs", fault.NotReady, "its mount is gone"},
		"device lost":       {"block", fault.NotReady, "its mount is gone"},
		"not in the group":  {"typo", fault.Invalid, `group "group" has no volume of this name`},
		"not on the node":   {"host-none", fault.NotFound, `host volume "nothing"`},
	} {
		task := usesVolumes(&job.VolumeMount{Volume: c.use, Destination: "/d"})
		h := &taskhooks.Volume{
			Host:    hostDirs{},
			Mounter: &mountTable{missing: map[string]bool{"fs": true, "block": true}},
		}
		err := h.Prestart(t.Context(), task)
		if fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
		if len(task.Out.Mounts)+len(task.Out.Devices) > 0 {
			t.Errorf("%s: it was given to the task all the same: %+v", name, task.Out)
		}
	}
}

func TestATaskOfADriverThatMountsNothingIsRefused(t *testing.T) {
	task := usesVolumes(&job.VolumeMount{Volume: "fs", Destination: "/d"})
	task.DriverInfo.Capabilities.Mounts = driver.MountNone
	err := (&taskhooks.Volume{Mounter: &mountTable{}}).Prestart(t.Context(), task)
	if !fault.Has(err, fault.Invalid) ||
		!strings.Contains(err.Error(), `job "shop", group "group", task "web": the task driver "exec" cannot mount`) {
		t.Errorf("got %v", err)
	}
	task.Task.VolumeMounts = nil
	if err := (&taskhooks.Volume{}).Prestart(t.Context(), task); err != nil {
		t.Errorf("a task without volumes: %v", err)
	}
}
