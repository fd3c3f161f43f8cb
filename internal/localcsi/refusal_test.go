package localcsi

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/datadir"
)

// What cannot be made is refused with the code that the specification asks for, and with words that say why.
func TestCreateRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", func(c *Config) { c.Capacity = "2GiB" })
	ext4, xfs := mountCap("ext4", single), mountCap("xfs", single)
	with := func(req *csi.CreateVolumeRequest, change func(*csi.CreateVolumeRequest)) *csi.CreateVolumeRequest {
		change(req)
		return req
	}
	elsewhere := &csi.TopologyRequirement{
		Requisite: []*csi.Topology{{Segments: map[string]string{datadir.TopologyKey: "node-b"}}},
	}
	for name, tc := range map[string]struct {
		req  *csi.CreateVolumeRequest
		code codes.Code
		says string
	}{
		"no name": {createReq("", 64*mib, ext4), codes.InvalidArgument, "name is missing"},
		"long name": {createReq(strings.Repeat("n", 129), 64*mib, ext4), codes.InvalidArgument,
			"limit is 128"},
		"control character": {createReq("a\x00b", 64*mib, ext4), codes.InvalidArgument,
			"control character at byte 1"},
		"no capability":       {createReq("v", 64*mib), codes.InvalidArgument, "volume_capabilities"},
		"unknown file system": {createReq("v", 64*mib, mountCap("ntfs", single)), codes.InvalidArgument, "ntfs"},
		"two file systems":    {createReq("v", 400*mib, ext4, xfs), codes.InvalidArgument, "one file system"},
		"no access mode":      {createReq("v", 64*mib, mountCap("ext4", 0)), codes.InvalidArgument, "access mode"},
		"bind flag": {createReq("v", 64*mib, mountCap("ext4", single, "noatime", "bind")),
			codes.InvalidArgument, "mount flag 2"},
		"two flags in one": {createReq("v", 64*mib, mountCap("ext4", single, "noatime,suid")), codes.InvalidArgument,
			"mount flag 1"},
		"small ext4": {createReq("v", 4*mib, ext4), codes.OutOfRange, "at least 8 MiB"},
		"small xfs":  {createReq("v", 299*mib, xfs), codes.OutOfRange, "300 MiB"},
		"negative":   {createReq("v", -1, ext4), codes.InvalidArgument, "negative"},
		"limit below": {with(createReq("v", 64*mib, ext4), func(r *csi.CreateVolumeRequest) {
			r.CapacityRange.LimitBytes = 32 * mib
		}),
			codes.OutOfRange, "limit_bytes"},
		"no multiple between": {with(createReq("v", 64*mib+1, ext4), func(r *csi.CreateVolumeRequest) {
			r.CapacityRange.LimitBytes = 64*mib + 2
		}),
			codes.OutOfRange, "multiple of 4096"},
		"too large": {createReq("v", 3*gib, ext4), codes.ResourceExhausted, "2 GiB left"},
		"parameter": {with(createReq("v", 64*mib, ext4), func(r *csi.CreateVolumeRequest) {
			r.Parameters = map[string]string{"speed": "fast"}
		}),
			codes.InvalidArgument, "speed"},
		"mutable parameter": {with(createReq("v", 64*mib, ext4), func(r *csi.CreateVolumeRequest) {
			r.MutableParameters = map[string]string{"a": "b"}
		}),
			codes.InvalidArgument, "mutable_parameters"},
		"another node": {with(createReq("v", 64*mib, ext4), func(r *csi.CreateVolumeRequest) {
			r.AccessibilityRequirements = elsewhere
		}),
			codes.ResourceExhausted, "node-a"},
		"empty source": {with(createReq("v", 64*mib, ext4), func(r *csi.CreateVolumeRequest) {
			r.VolumeContentSource = &csi.VolumeContentSource{}
		}),
			codes.InvalidArgument, "volume_content_source"},
		"snapshot elsewhere": {fromSnapshot(createReq("v", 64*mib, ext4), "snap-"+strings.Repeat("0", 24)+"@node-b"),
			codes.NotFound, "not on node"},
		"path as source": {fromVolume(createReq("v", 64*mib, ext4), "vol-../../../etc@node-a"), codes.NotFound,
			"does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.ctl.CreateVolume(w.ctx(), tc.req)
			if text := wantCode(t, err, tc.code); !strings.Contains(text, tc.says) {
				t.Fatalf("%q does not say %q", text, tc.says)
			}
		})
	}
	w.nothingLeft()
}

// The same name with the same wish is the same volume; with another wish it is refused.
func TestCreateAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	c := mountCap("ext4", single)
	req := createReq("db", 64*mib, c)
	req.CapacityRange.LimitBytes = 64 * mib
	var g sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		g.Go(func() {
			if r, err := w.ctl.CreateVolume(w.ctx(), req); err != nil {
				t.Error(err)
			} else {
				ids[i] = r.GetVolume().GetVolumeId()
			}
		})
	}
	g.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("one name made %v", ids)
		}
	}
	// Expanded since: the repeated call still means this volume.
	must2(w.ctl.ControllerExpandVolume(w.ctx(),
		&csi.ControllerExpandVolumeRequest{
			VolumeId:      ids[0],
			CapacityRange: &csi.CapacityRange{RequiredBytes: 96 * mib},
		}))(t)
	if id := w.create(req); id != ids[0] {
		t.Fatal("an expanded volume was not recognised")
	}
	for what, other := range map[string]*csi.CreateVolumeRequest{
		"size":   createReq("db", gib, c),
		"block":  createReq("db", 64*mib, blockCap(single)),
		"xfs":    createReq("db", 64*mib, mountCap("xfs", single)),
		"source": fromVolume(createReq("db", 64*mib, c), ids[0]),
	} {
		t.Run(what, func(t *testing.T) {
			_, err := w.ctl.CreateVolume(w.ctx(), other)
			wantCode(t, err, codes.AlreadyExists)
		})
	}
	w.restart()
	if id := w.create(req); id != ids[0] {
		t.Fatal("after a restart the volume was not recognised")
	}
	sid := w.snap("s", ids[0])
	if w.snap("s", ids[0]) != sid {
		t.Fatal("one name made two snapshots")
	}
	w.remove(ids[0])
	w.remove(ids[0])
	w.dropSnap(sid)
	w.dropSnap(sid)
	w.nothingLeft()
}

// Sources bind the size and the kind of what is made from them.
func TestSourceRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	c := mountCap("ext4", single)
	id := w.create(createReq("db", 64*mib, c))
	below := fromVolume(createReq("a", 32*mib, c), id)
	below.CapacityRange.LimitBytes = 48 * mib
	_, err := w.ctl.CreateVolume(w.ctx(), below)
	wantCode(t, err, codes.OutOfRange)
	_, err = w.ctl.CreateVolume(w.ctx(), fromVolume(createReq("a", 64*mib, blockCap(single)), id))
	wantCode(t, err, codes.InvalidArgument)
	_, err = w.ctl.CreateVolume(w.ctx(), fromVolume(createReq("a", 400*mib, mountCap("xfs", single)), id))
	wantCode(t, err, codes.InvalidArgument)
	_, err = w.ctl.CreateSnapshot(w.ctx(),
		&csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id, Parameters: map[string]string{"a": "b"}})
	wantCode(t, err, codes.InvalidArgument)
	req := fromVolume(createReq("a", 0, c), id)
	req.CapacityRange = nil
	if r := must2(w.ctl.CreateVolume(w.ctx(), req))(t); r.GetVolume().GetCapacityBytes() != 64*mib {
		t.Fatalf("a clone without a range has %d", r.GetVolume().GetCapacityBytes())
	} else {
		w.remove(r.GetVolume().GetVolumeId())
	}
	w.remove(id)
	w.nothingLeft()
}

// TestACopyIsAsLargeAsItsSource: given a volume and its snapshot, when copies are asked for whose capacity range begins
// below it and does not end there, then each has the size of its source (CSI spec, CreateVolume: required_bytes is "at
// least"), and the repeated call finds it.
func TestACopyIsAsLargeAsItsSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	c := mountCap("ext4", single)
	source := w.create(createReq("db", 64*mib, c))
	snapshot := w.snap("s", source)
	limits := map[string]int64{"no limit": 0, "limit above": 128 * mib, "limit at the source": 64 * mib}
	for name, limit := range limits {
		for kind, req := range map[string]*csi.CreateVolumeRequest{
			"clone":    fromVolume(createReq("copy", 16*mib, c), source),
			"snapshot": fromSnapshot(createReq("copy", 16*mib, c), snapshot),
		} {
			req.CapacityRange.LimitBytes = limit
			v := must2(w.ctl.CreateVolume(w.ctx(), req))(t).GetVolume()
			if v.GetCapacityBytes() != 64*mib {
				t.Errorf("%s, %s: the copy has %d bytes", kind, name, v.GetCapacityBytes())
			}
			if again := w.create(req); again != v.GetVolumeId() {
				t.Errorf("%s, %s: the repeated call made %s, the first %s", kind, name, again, v.GetVolumeId())
			}
			w.remove(v.GetVolumeId())
		}
	}
	w.dropSnap(snapshot)
	w.remove(source)
	w.nothingLeft()
}

// Strange ids name nothing, and those of other nodes are never answered with success.
func TestStrangeIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	witness := filepath.Join(w.base, "witness")
	writeFile(t, witness, "x")
	key := strings.Repeat("a", 24)
	for _, id := range []string{"../witness", "vol-../../witness@node-a", "vol-" + key, "vol-" + key + "@",
		"vol-" + strings.ToUpper(key) + "@node-a",
		"vol-" + key + "@node-a/../x", "vol-" + key + "@node-a\x00", strings.Repeat("v", 300), "vol-" + key +
			"@node-a"} {
		_, err := w.ctl.ControllerExpandVolume(w.ctx(),
			&csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: gib}})
		wantCode(t, err, codes.NotFound)
		must2(w.ctl.DeleteVolume(w.ctx(), &csi.DeleteVolumeRequest{VolumeId: id}))(t)
		must2(w.ctl.DeleteSnapshot(w.ctx(),
			&csi.DeleteSnapshotRequest{SnapshotId: "snap" + strings.TrimPrefix(id, "vol")}))(t)
	}
	for _, err := range []error{
		call(w.ctl.DeleteVolume(w.ctx(), &csi.DeleteVolumeRequest{VolumeId: "vol-" + key + "@node-b"})),
		call(w.ctl.DeleteSnapshot(w.ctx(), &csi.DeleteSnapshotRequest{SnapshotId: "snap-" + key + "@node-b"})),
	} {
		if text := wantCode(t, err, codes.InvalidArgument); !strings.Contains(text, "node-a") {
			t.Fatal(text)
		}
	}
	err := w.tryStage("vol-"+key+"@node-b", mountCap("ext4", single))
	wantCode(t, err, codes.NotFound)
	wantFile(t, witness, "x")
}

func call[T any](_ T, err error) error { return err }

// Paths that are not the caller's to give are refused.
func TestStrangePaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	c := mountCap("ext4", single)
	id := w.create(createReq("db", 64*mib, c))
	for _, path := range []string{"relative", "/", w.base + "/../x", w.base + "//x", w.base + "/x/",
		filepath.Join(w.cfg.DataDir, "volumes"), "/" + strings.Repeat("p", 5000)} {
		_, err := w.node.NodeStageVolume(w.ctx(),
			&csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: path, VolumeCapability: c})
		wantCode(t, err, codes.InvalidArgument)
		_, err = w.node.NodeUnpublishVolume(w.ctx(), &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: path})
		wantCode(t, err, codes.InvalidArgument)
	}
	if err := w.tryStage(id, c); err != nil {
		t.Fatal(err)
	}
	link := w.targetPath(id, "a")
	if err := os.Symlink(w.base, link); err != nil {
		t.Fatal(err)
	}
	_, err := w.tryPublish(id, "a", c, false)
	wantCode(t, err, codes.FailedPrecondition)
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	_, err = w.node.NodePublishVolume(w.ctx(), &csi.NodePublishVolumeRequest{
		VolumeId: id, StagingTargetPath: w.stagingPath(id), TargetPath: filepath.Join(w.base, "no",
			"parent"), VolumeCapability: c,
	})
	wantCode(t, err, codes.FailedPrecondition)
	// What a workload wrote beneath a target that was not mounted is never deleted.
	full := w.targetPath(id, "full")
	if err := os.MkdirAll(filepath.Join(full, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = w.node.NodeUnpublishVolume(w.ctx(), &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: full})
	wantCode(t, err, codes.FailedPrecondition)
	if _, err := os.Stat(filepath.Join(full, "data")); err != nil {
		t.Fatal(err)
	}
	w.unstage(id)
	w.remove(id)
	w.nothingLeft()
}

// Capacity is promised once: what was asked for at the same time is not given twice, and comes back with the volume.
func TestCapacity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", func(c *Config) { c.Capacity = "1GiB" })
	c := mountCap("ext4", single)
	available := func() int64 {
		return must2(
			w.ctl.GetCapacity(w.ctx(),
				&csi.GetCapacityRequest{VolumeCapabilities: []*csi.VolumeCapability{c}}))(t).GetAvailableCapacity()
	}
	if available() != gib {
		t.Fatalf("an empty node has %d", available())
	}
	var g sync.WaitGroup
	var mu sync.Mutex
	var made []string
	for _, name := range []string{"a", "b", "c", "d"} {
		g.Go(func() {
			r, err := w.ctl.CreateVolume(w.ctx(), createReq(name, 400*mib, c))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made = append(made, r.GetVolume().GetVolumeId())
			} else if text := wantCode(t, err, codes.ResourceExhausted); !strings.Contains(text,
				"raise the plugin's capacity") {
				t.Error(text)
			}
		})
	}
	g.Wait()
	if len(made) != 2 || available() != gib-800*mib {
		t.Fatalf("%d volumes were made, %d MiB are left", len(made), available()/mib)
	}
	_, err := w.ctl.ControllerExpandVolume(w.ctx(),
		&csi.ControllerExpandVolumeRequest{
			VolumeId:      made[0],
			CapacityRange: &csi.CapacityRange{RequiredBytes: 800 * mib},
		})
	wantCode(t, err, codes.ResourceExhausted)
	elsewhere := &csi.Topology{Segments: map[string]string{datadir.TopologyKey: "node-b"}}
	if r := must2(w.ctl.GetCapacity(w.ctx(), &csi.GetCapacityRequest{AccessibleTopology: elsewhere}))(
		t); r.GetAvailableCapacity() != 0 {
		t.Fatalf("another node has %d", r.GetAvailableCapacity())
	}
	for _, id := range made {
		w.remove(id)
	}
	if available() != gib {
		t.Fatalf("the capacity did not come back: %d", available())
	}
}

// TestCapacityIsPromisedInFull: given a file system of 100 MiB and no other bound, when sparse volumes are made on it,
// then it is promised in full to each, so that another one or a growth is refused with what is left and the way out,
// although hardly anything is written; what something else has taken is not promised.
func TestCapacityIsPromisedInFull(t *testing.T) {
	needRoot(t)
	disk := filepath.Join(t.TempDir(), "disk")
	must(t, 0, os.Mkdir(disk, 0o700))
	must(t, 0, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=100m"))
	t.Cleanup(func() { must(t, 0, unix.Unmount(disk, unix.MNT_DETACH)) }) // the plugin ends after this
	w := newWorld(t, filepath.Join(disk, "data"), nil)
	c := mountCap("ext4", single)
	id := w.create(createReq("a", 60*mib, c))
	refused := func(err error) {
		t.Helper()
		text := wantCode(t, err, codes.ResourceExhausted)
		if !strings.Contains(text, "free space in the file system of "+w.cfg.DataDir) {
			t.Error(text)
		}
	}
	_, err := w.ctl.CreateVolume(w.ctx(), createReq("b", 60*mib, c))
	refused(err)
	_, err = w.ctl.ControllerExpandVolume(w.ctx(), &csi.ControllerExpandVolumeRequest{VolumeId: id,
		CapacityRange: &csi.CapacityRange{RequiredBytes: 120 * mib}})
	refused(err)
	must(t, 0, os.WriteFile(filepath.Join(disk, "ballast"), make([]byte, 30*mib), 0o600))
	_, err = w.ctl.CreateVolume(w.ctx(), createReq("c", 20*mib, c))
	refused(err)
	w.remove(id)
	w.remove(w.create(createReq("c", 20*mib, c)))
}

// With attaching on, nothing is staged that is not attached, and nothing is detached that is staged.
func TestAttach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", func(c *Config) { c.Attach, c.AttachLimit = true, 1 })
	c := mountCap("ext4", single)
	id, other := w.create(createReq("db", 64*mib, c)), w.create(createReq("other", 64*mib, c))
	attach := func(id string, ro bool) error {
		return call(
			w.ctl.ControllerPublishVolume(w.ctx(),
				&csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: testNode, VolumeCapability: c, Readonly: ro}))
	}
	detach := func(id, node string) error {
		return call(
			w.ctl.ControllerUnpublishVolume(w.ctx(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: node}))
	}
	wantCode(t, w.tryStage(id, c), codes.FailedPrecondition)
	if err := attach(id, true); err != nil {
		t.Fatal(err)
	}
	wantCode(t, attach(other, false), codes.ResourceExhausted)
	wantCode(t, attach(id, false), codes.AlreadyExists)
	w.restart()
	list := must2(w.ctl.ListVolumes(w.ctx(), &csi.ListVolumesRequest{}))(t)
	for _, e := range list.GetEntries() {
		if nodes := e.GetStatus().GetPublishedNodeIds(); (e.GetVolume().GetVolumeId() == id) !=
			(len(nodes) == 1 && nodes[0] == testNode) {
			t.Fatalf("%s is reported as attached to %v", e.GetVolume().GetVolumeId(), nodes)
		}
	}
	if err := w.tryStage(id, c); err != nil {
		t.Fatal(err)
	}
	_, err := w.tryPublish(id, "a", c, false)
	wantCode(t, err, codes.FailedPrecondition)
	at := must2(w.tryPublish(id, "a", c, true))(t)
	if err := os.WriteFile(filepath.Join(at, "f"), nil, 0o600); err == nil {
		t.Fatal("a volume attached read-only could be written to")
	}
	wantCode(t, detach(id, testNode), codes.FailedPrecondition)
	w.unpublish(id, "a")
	wantCode(t, detach(id, testNode), codes.FailedPrecondition)
	w.unstage(id)
	if err := detach(id, "node-b"); err != nil {
		t.Fatal(err)
	}
	_, err = w.ctl.DeleteVolume(w.ctx(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition)
	for range 2 {
		if err := detach(id, testNode); err != nil {
			t.Fatal(err)
		}
	}
	w.remove(id)
	w.remove(other)
	w.nothingLeft()
}

// Without attaching, the limit counts what is staged.
func TestStageLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", func(c *Config) { c.AttachLimit = 1 })
	c := mountCap("ext4", single)
	id, other := w.create(createReq("db", 64*mib, c)), w.create(createReq("other", 64*mib, c))
	if info := must2(w.node.NodeGetInfo(w.ctx(), &csi.NodeGetInfoRequest{}))(t); info.GetMaxVolumesPerNode() != 1 {
		t.Fatalf("the node says it takes %d", info.GetMaxVolumesPerNode())
	}
	for range 2 {
		if err := w.tryStage(id, c); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, w.tryStage(other, c), codes.ResourceExhausted)
	w.unstage(id)
	if err := w.tryStage(other, c); err != nil {
		t.Fatal(err)
	}
	w.unstage(other)
	w.remove(id)
	w.remove(other)
	w.nothingLeft()
}

// One plugin per socket and per data directory, and a data directory belongs to one node.
func TestOneOfEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	st := must2(os.Lstat(w.socket()))(t)
	if st.Mode() != os.ModeSocket|0o600 {
		t.Fatalf("the socket is %s", st.Mode())
	}
	fails := func(cfg Config, says string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := Run(ctx, cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Fatalf("got %v, want a refusal that says %q", err, says)
		}
	}
	second := w.cfg
	second.Endpoint = "unix://" + filepath.Join(w.base, "second.sock")
	fails(second, "another local-csi plugin works on")
	second = w.cfg
	second.DataDir = filepath.Join(w.base, "data2")
	fails(second, "another process answers there")
	w.stop()
	if _, err := os.Lstat(w.socket()); !os.IsNotExist(err) {
		t.Fatalf("the socket outlived the plugin: %v", err)
	}
	second = w.cfg
	second.NodeID = "node-b"
	fails(second, "--node-id node-a")

	// A socket that nobody answers on is replaced; a file is not.
	ln := must2(net.Listen("unix", w.socket()))(t)
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
	w.start()
	w.stop()
	writeFile(t, w.socket(), "precious")
	fails(w.cfg, "remove it or choose another endpoint")
	wantFile(t, w.socket(), "precious")
}

func TestConfigRefusals(t *testing.T) {
	good := Config{Endpoint: "unix:///run/x/csi.sock", DataDir: "/data", NodeID: "n"}
	for says, change := range map[string]func(*Config){
		"no endpoint":             func(c *Config) { c.Endpoint = "" },
		"must read unix://":       func(c *Config) { c.Endpoint = "tcp://1.2.3.4:5" },
		"clean absolute path":     func(c *Config) { c.Endpoint = "unix:///a/../csi.sock" },
		"must end in .sock":       func(c *Config) { c.Endpoint = "unix:///a/csi" },
		"a socket may have 107":   func(c *Config) { c.Endpoint = "unix:///" + strings.Repeat("d", 100) + "/csi.sock" },
		"absolute path below /":   func(c *Config) { c.DataDir = "data" },
		"it is empty":             func(c *Config) { c.NodeID = "" },
		"not allowed there":       func(c *Config) { c.NodeID = "a/b" },
		"the limit is 63":         func(c *Config) { c.NodeID = strings.Repeat("n", 64) },
		"must not be negative":    func(c *Config) { c.AttachLimit = -1 },
		"a positive number":       func(c *Config) { c.Capacity = "lots" },
		"such as 500MiB":          func(c *Config) { c.Capacity = "-1GiB" },
		"10GiB or 1TB":            func(c *Config) { c.Capacity = "99999999999TiB" },
		`"10 monkeys"`:            func(c *Config) { c.Capacity = "10 monkeys" },
		"(set --node-id)":         func(c *Config) { c.NodeID = "-x" },
		"give --data-dir an abso": func(c *Config) { c.DataDir = "/" },
	} {
		t.Setenv("CSI_ENDPOINT", "")
		c := good
		change(&c)
		if _, err := c.prepare(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want a refusal that says %q", err, says)
		}
	}
	c := good
	c.Capacity = "1.5"
	if _, err := c.prepare(); err == nil {
		t.Error("1.5 was taken for a size")
	}
	for text, want := range map[string]int64{"10GiB": 10 * gib, "500 MiB": 500 * mib, "1TB": 1e12, "4096": 4096,
		"4Gi": 4 * gib} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
}
