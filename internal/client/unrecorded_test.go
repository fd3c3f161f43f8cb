package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/client/dynamicplugins"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
	"berth/internal/wire"
)

// Given a node that lost its store, with the directories of an alloc that runs, of one that had ended and of one whose
// process ended meanwhile, then only the first is an orphan that runs; the second is none, and the third is one that
// does not run, because the servers take it for one that does. What is left of the second goes with it when the servers
// remove it, and that of the third when a person ends it.
func TestWhatHadEndedIsNoOrphanWhenItsRecordIsLost(t *testing.T) {
	r := realRig(t)
	first := r.start()
	sleeps := func(name ids.Job) ids.Alloc {
		j := service(shell("sh", "raw_exec", `exec sleep 987654`))
		j.ID = name
		id := r.servers.place(j)
		eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
		return id
	}
	runs, died := sleeps("runs"), sleeps("died")
	ended := sleeps("ended")
	r.servers.stop(ended)
	eventually(t, "it has ended", func() bool { return r.servers.status(ended) == alloc.ClientComplete })
	r.servers.edit(ended, func(a *alloc.Alloc) { a.ClientStatus = alloc.ClientComplete })
	first.stop()
	if err := r.shims.End(t.Context(), died); err != nil {
		t.Fatal(err)
	}
	r.loseStore()
	secrets := filepath.Join(r.dir, "alloc", string(ended), "sh", "secrets")
	if err := unix.Mount("tmpfs", secrets, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, "size=4k"); err != nil {
		t.Fatal(err)
	}

	second := r.start()
	eventually(t, "the node is armed", second.Armed)
	eventually(t, "the secrets of what has ended are gone", func() bool { return len(mountsBeneath(t, secrets)) == 0 })
	eventually(t, "what runs is an orphan, and what died", func() bool {
		return r.servers.orphan(runs) != nil && r.servers.orphan(died) != nil && len(r.servers.orphans()) == 2
	})
	if o := r.servers.orphan(runs); !o.Processes || !o.RecordLost || o.Awaits != "" {
		t.Errorf("the one that runs: %+v", o)
	}
	if o := r.servers.orphan(died); o.Processes || len(o.Volumes) > 0 {
		t.Errorf("the one whose process ended: %+v", o)
	}
	dir := func(id ids.Alloc) string { return filepath.Join(second.AllocDir(), string(id)) }
	if err := second.Collect(runs); !fault.Has(err, fault.Conflict) || !exists(dir(runs)) {
		t.Errorf("what runs is collected: %v", err)
	}
	if !exists(dir(ended)) || second.Known(ended) {
		t.Error("the directory of what had ended went before its alloc, or it is known")
	}
	r.servers.lose(ended)
	eventually(t, "the directory goes with the alloc", func() bool { return !exists(dir(ended)) })
	if !exists(dir(runs)) || !exists(dir(died)) || !running(runs) {
		t.Error("what the servers did not remove is gone")
	}
	if err := second.EndOrphan(t.Context(), died); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is no orphan", func() bool { return r.servers.orphan(died) == nil && !exists(dir(died)) })
	if got := r.servers.last(died); got == nil || !got.OutcomeUnknown() {
		t.Errorf("the servers heard of its end: %+v", got)
	}
}

// Given a directory of an alloc that nobody knows and of which nothing runs or is mounted, then it is no orphan, and
// goes when what has ended is collected; not before the servers have said that they do not know it.
func TestADirectoryThatNobodyKnowsIsCollected(t *testing.T) {
	r := realRig(t)
	first := r.start()
	eventually(t, "the node has seen the servers' state", func() bool { return first.Seen().Incarnation == "one" })
	first.stop()
	mute := make(chan struct{})
	r.servers.change(func() { r.servers.mute = mute })
	id := ids.Alloc(ids.New())
	dir := filepath.Join(r.dir, "alloc", string(id))
	if err := os.MkdirAll(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	c := r.start()
	<-c.Registered()
	if err := c.Collect(id); !fault.Has(err, fault.Conflict) || !exists(dir) {
		t.Errorf("collected before the servers said what they want: %v", err)
	}
	close(mute)
	eventually(t, "the node is armed", c.Armed)
	eventually(t, "it is collected", func() bool { return c.Collect("") == nil && !exists(dir) })
	if o := r.servers.orphan(id); o != nil {
		t.Errorf("it is an orphan: %+v", o)
	}
}

// Given an alloc with a volume that neither the node's record nor the servers know, and whose plugin is away, when a
// person ends it, then it stays an orphan that says what it waits for until its plugin is back and the volume is
// unmounted; only then it is none, and its directory goes.
func TestTheEndOfAnUnrecordedOrphanTakesItsMountsAway(t *testing.T) {
	r := realRig(t)
	p := csitest.Alone(t, csitest.Options{Fake: csitest.Fake{
		Mount:      csitest.MountBind,
		Controller: csi.Caps[csi.ControllerCap]{csi.CapCreateDelete},
	}})
	conn := p.Dial(csi.Options{})
	if _, err := conn.Negotiate(t.Context(), csi.RoleController); err != nil {
		t.Fatal(err)
	}
	made, err := conn.CreateVolume(t.Context(), csi.CreateVolumeRequest{
		Name:         "vol",
		Capabilities: []csi.VolumeCapability{{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}},
	})
	if err != nil {
		t.Fatal(err)
	}
	declare := func(c *agentRun, instance ids.Alloc) {
		t.Helper()
		base := csimanager.HostBase(r.dir, ids.Plugin(p.ID))
		if err := c.Plugins().Register(dynamicplugins.Info{
			Plugin:   ids.Plugin(p.ID),
			Role:     plugin.RoleNode,
			Alloc:    instance,
			Socket:   p.Socket,
			HostBase: base,
			TaskBase: base,
			Declared: time.Now(),
		}); err != nil {
			t.Fatal(err)
		}
	}
	r.servers.grants = func(id ids.Alloc) []wire.Grant {
		return []wire.Grant{{
			Alias:  "data",
			Volume: volume.ID{Namespace: ids.DefaultNamespace, ID: "vol"},
			Key: volume.PublicationKey{
				StagingKey: volume.StagingKey{Plugin: ids.Plugin(p.ID), ExternalID: made.ID},
				Alloc:      id,
			},
			Epoch:          volume.Epoch{Incarnation: "one", Index: 1},
			Generation:     1,
			AccessMode:     volume.SingleNodeWriter,
			AttachmentMode: volume.FileSystem,
			VolumeContext:  made.Context,
		}}
	}
	first := r.start()
	declare(first, "11111111-1111-1111-1111-111111111111")
	j := service(shell("sh", "raw_exec", `exec sleep 987654`))
	j.TaskGroups[0].Volumes = map[string]*job.VolumeRequest{"data": {
		Name:           "data",
		Type:           job.VolumeTypeCSI,
		Source:         "vol",
		AccessMode:     string(volume.SingleNodeWriter),
		AttachmentMode: string(volume.FileSystem),
	}}
	id := r.servers.place(j)
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	base := filepath.Join(r.dir, "csi")
	if mounts := mountsBeneath(t, base); len(mounts) == 0 {
		t.Fatal("nothing is mounted")
	}
	first.stop()
	r.servers.change(func() { delete(r.servers.allocs, id) })
	r.loseStore()

	second := r.start()
	eventually(t, "it is an orphan that runs", func() bool {
		o := r.servers.orphan(id)
		return o != nil && o.Processes && slices.Equal(o.Volumes, []string{"vol"})
	})
	eventually(t, "the node is armed", second.Armed)
	if err := second.EndOrphan(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says what its end waits for", func() bool {
		o := r.servers.orphan(id)
		return o != nil && !o.Processes && strings.Contains(o.Awaits, made.ID) && strings.Contains(o.Awaits, p.ID)
	})
	if running(id) {
		t.Error("its process lives")
	}
	dir := filepath.Join(second.AllocDir(), string(id))
	if len(mountsBeneath(t, base)) == 0 || !exists(dir) || !second.Holds() {
		t.Error("it is still an orphan, and nothing is left of it")
	}
	socket := csimanager.SocketDir(r.dir, id, "sh") // as if the task had been a plugin
	if err := errors.Join(os.MkdirAll(socket, 0o700),
		unix.Mknod(filepath.Join(socket, csimanager.SocketName), unix.S_IFSOCK|0o600, 0)); err != nil {
		t.Fatal(err)
	}
	declare(second, "22222222-2222-2222-2222-222222222222")
	eventually(t, "it is no orphan", func() bool { return r.servers.orphan(id) == nil })
	if mounts := mountsBeneath(t, base); len(mounts) > 0 || second.Holds() {
		t.Errorf("still mounted: %v", mounts)
	}
	eventually(t, "its directory goes", func() bool { return !exists(dir) })
	if exists(socket) {
		t.Error("the socket of its plugin is left")
	}
}

func mountsBeneath(t *testing.T, dir string) (paths []string) {
	t.Helper()
	table, err := hostfs.ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range table.Beneath(dir) {
		paths = append(paths, m.Path)
	}
	return paths
}
