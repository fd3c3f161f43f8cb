package compat

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/nomad/api"
)

func spec(id string) *api.CSIVolume {
	return &api.CSIVolume{
		ID:                   id,
		Name:                 id,
		PluginID:             plugin,
		RequestedCapacityMin: 16 << 20,
		RequestedCapacityMax: 32 << 20,
		RequestedCapabilities: []*api.CSIVolumeCapability{{
			AccessMode:     api.CSIVolumeAccessModeSingleNodeWriter,
			AttachmentMode: api.CSIVolumeAttachmentModeFilesystem,
		}},
		MountOptions: &api.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}},
	}
}

// writer is a job that appends to a file on a volume and shows it.
func writer(id, volume string) string {
	return `
job "` + id + `" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "` + volume + `"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo ` + id + ` >> /data/log; sync; sleep 1000"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
      kill_timeout = "1s"
    }
  }
}`
}

// holds waits until the file holds what the tasks wrote, as the last of them sees it: it runs before it has written.
func holds(a *agent, alloc *api.Allocation, want string) {
	a.t.Helper()
	a.eventually("the file holds what was written", func() error {
		var out bytes.Buffer
		code, err := a.plain.Allocations().Exec(a.t.Context(), alloc, "t", false, []string{"/bin/cat", "/data/log"},
			strings.NewReader(""), &out, io.Discard, nil, nil)
		if err == nil && (code != 0 || out.String() != want) {
			err = fmt.Errorf("cat ended with %d, the file holds %q, not %q", code, out.String(), want)
		}
		return err
	})
}

// stop ends a job and waits until its volume is free.
func stop(a *agent, job, volume string) {
	a.t.Helper()
	_, _, err := a.Jobs().Deregister(job, false, nil)
	a.ok(err)
	a.eventually("the volume is free", func() error {
		v, _, err := a.CSIVolumes().Info(volume, nil)
		if err == nil && len(v.WriteAllocs) > 0 {
			err = fmt.Errorf("%d writers", len(v.WriteAllocs))
		}
		return err
	})
}

func volumes(a *agent) {
	created, _, err := a.CSIVolumes().Create(spec("db"), nil)
	a.ok(err)
	again, _, err := a.CSIVolumes().Create(spec("db"), nil)
	a.ok(err)
	if len(created) != 1 || created[0].ExternalID == "" || again[0].ExternalID != created[0].ExternalID {
		a.t.Fatalf("created %+v, then %+v", created, again)
	}
	alloc := run(a, writer("first", "db"))
	holds(a, alloc, "first\n")
	inUse(a, alloc)
	stop(a, "first", "db")
	holds(a, run(a, writer("second", "db")), "first\nsecond\n")
	stop(a, "second", "db")
	snapshots(a)
	adopted(a, created[0].ExternalID)
	plugins(a)
}

func inUse(a *agent, alloc *api.Allocation) {
	a.t.Helper()
	v, _, err := a.CSIVolumes().Info("db", nil)
	a.ok(err)
	if _, there := v.WriteAllocs[alloc.ID]; !there || !v.Schedulable || v.MountOptions.MountFlags[0] != "[REDACTED]" ||
		v.Capacity < 16<<20 || len(v.Allocations) != 1 {
		a.t.Errorf("the volume is %+v", v)
	}
	list, _, err := a.CSIVolumes().List(&api.QueryOptions{Prefix: "d"})
	a.ok(err)
	here, err := a.Nodes().CSIVolumes(alloc.NodeID, nil)
	a.ok(err)
	if len(list) != 1 || list[0].CurrentWriters != 1 || len(here) != 1 {
		a.t.Errorf("listed %+v, on the node %+v", list, here)
	}
	a.refused(a.CSIVolumes().DeleteOpts(&api.CSIVolumeDeleteRequest{ExternalVolumeID: "db"}, nil), "in use")
	a.refused(a.CSIVolumes().Deregister("db", false, nil), "volume in use: db")
}

func snapshots(a *agent) {
	cut, _, err := a.CSIVolumes().CreateSnapshot(&api.CSISnapshot{SourceVolumeID: "db", Name: "s1"}, nil)
	a.ok(err)
	if len(cut.Snapshots) != 1 || cut.Snapshots[0].ID == "" || !cut.Snapshots[0].IsReady ||
		cut.Snapshots[0].SizeBytes == 0 {
		a.t.Fatalf("the snapshot is %+v", cut.Snapshots)
	}
	snap := cut.Snapshots[0]
	list, _, err := a.CSIVolumes().ListSnapshotsOpts(&api.CSISnapshotListRequest{PluginID: plugin})
	a.ok(err)
	if len(list.Snapshots) != 1 || list.Snapshots[0].ID != snap.ID {
		a.t.Errorf("the snapshots are %+v", list.Snapshots)
	}
	clone := spec("clone")
	clone.SnapshotID = snap.ID
	_, _, err = a.CSIVolumes().Create(clone, nil)
	a.ok(err)
	holds(a, run(a, writer("third", "clone")), "first\nsecond\nthird\n")
	stop(a, "third", "clone")
	external, _, err := a.CSIVolumes().ListExternal(plugin, &api.QueryOptions{PerPage: 1})
	a.ok(err)
	more, _, err := a.CSIVolumes().ListExternal(plugin, &api.QueryOptions{PerPage: 1, NextToken: external.NextToken})
	a.ok(err)
	if len(external.Volumes) != 1 || len(more.Volumes) != 1 ||
		external.Volumes[0].ExternalID == more.Volumes[0].ExternalID {
		a.t.Errorf("the plugin has %+v and %+v", external, more)
	}
	a.ok(a.CSIVolumes().DeleteSnapshot(&api.CSISnapshot{ID: snap.ID, PluginID: plugin}, nil))
	a.ok(a.CSIVolumes().DeleteOpts(&api.CSIVolumeDeleteRequest{ExternalVolumeID: "clone"}, nil))
}

// adopted forgets a volume and registers what the plugin still has.
func adopted(a *agent, external string) {
	a.ok(a.CSIVolumes().Deregister("db", false, nil))
	_, _, err := a.CSIVolumes().Info("db", nil)
	a.refused(err, "volume not found")
	v := spec("kept")
	v.ExternalID = external
	_, err = a.CSIVolumes().Register(v, nil)
	a.ok(err)
	holds(a, run(a, writer("fourth", "kept")), "first\nsecond\nfourth\n")
	stop(a, "fourth", "kept")
	a.ok(a.CSIVolumes().DeleteOpts(&api.CSIVolumeDeleteRequest{ExternalVolumeID: "kept"}, nil))
}

func plugins(a *agent) {
	list, _, err := a.CSIPlugins().List(nil)
	a.ok(err)
	p, _, err := a.CSIPlugins().Info(plugin, nil)
	a.ok(err)
	if len(list) != 1 || list[0].Provider == "" || len(p.Controllers) != 1 || len(p.Nodes) != 1 || p.Version == "" {
		a.t.Errorf("plugins %+v, %+v", list, p)
	}
	for _, i := range p.Nodes {
		if i.NodeInfo == nil || !i.Healthy {
			a.t.Errorf("the node instance is %+v", i)
		}
	}
	for _, i := range p.Controllers {
		if i.ControllerInfo == nil || !i.ControllerInfo.SupportsCreateDelete {
			a.t.Errorf("the controller instance is %+v", i)
		}
	}
}

// refusals are the texts that clients rely on.
func refusals(a *agent) {
	_, _, err := a.Jobs().Info("nobody", nil)
	a.refused(err, "404 (job not found)")
	_, _, err = a.Allocations().Info("00000000-0000-4000-8000-000000000000", nil)
	a.refused(err, "404 (alloc not found)")
	_, _, err = a.Nodes().Info("abc", nil)
	a.refused(err, "UUID must be 36 characters")
	_, _, err = a.CSIVolumes().Create(&api.CSIVolume{ID: "x"}, nil)
	a.refused(err, "validation: ")
	unknown := spec("x")
	unknown.PluginID = "nobody"
	_, _, err = a.CSIVolumes().Create(unknown, nil)
	a.refused(err, `"nobody"`)
	_, _, err = a.Jobs().Register(parse(a, strings.Replace(writer("raw", "db"), `"exec"`, `"raw_exec"`, 1)), nil)
	a.refused(err, "raw_exec")
	_, err = a.Nodes().UpdateDrain("00000000-0000-4000-8000-000000000000", &api.DrainSpec{}, false, nil)
	a.refused(err, "501")
	_, err = a.Jobs().ParseHCL("job \"x\" {\n  nonsense = 1\n}", false)
	a.refused(err, "job.nomad.hcl:2:3")
	_, _, err = a.Quotas().List(nil)
	a.refused(err, "Nomad Enterprise only endpoint")
}
