package localcsi

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// A capability as tests say it: mountCap("ext4", mode, flags…) or blockCap(mode).
type mode = csi.VolumeCapability_AccessMode_Mode

const (
	single = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	multi  = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	reader = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
)

func mountCap(fs string, m mode, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: m},
		AccessType: &csi.VolumeCapability_Mount{
			Mount: &csi.VolumeCapability_MountVolume{FsType: fs, MountFlags: flags},
		},
	}
}

func blockCap(m mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: m},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
	}
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	w.t.Cleanup(cancel)
	return ctx
}

// must ends the test on an error.
func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// wantCode ends the test unless err has the code, and returns its text.
func wantCode(t *testing.T, err error, code codes.Code) string {
	t.Helper()
	if status.Code(err) != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
	return status.Convert(err).Message()
}

func createReq(name string, size int64, caps ...*csi.VolumeCapability) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{
		Name:               name,
		CapacityRange:      &csi.CapacityRange{RequiredBytes: size},
		VolumeCapabilities: caps,
	}
}

func fromSnapshot(req *csi.CreateVolumeRequest, id string) *csi.CreateVolumeRequest {
	req.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id},
	}}
	return req
}

func fromVolume(req *csi.CreateVolumeRequest, id string) *csi.CreateVolumeRequest {
	req.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id},
	}}
	return req
}

func (w *world) create(req *csi.CreateVolumeRequest) string {
	w.t.Helper()
	return must2(w.ctl.CreateVolume(w.ctx(), req))(w.t).GetVolume().GetVolumeId()
}

// must2 adapts a call's two results to must.
func must2[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T { t.Helper(); return must(t, v, err) }
}

func (w *world) stagingPath(id string) string {
	dir := filepath.Join(w.base, "stage-"+id[:12])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

func (w *world) targetPath(id, name string) string {
	dir := filepath.Join(w.base, "pods")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	return filepath.Join(dir, name+"-"+id[:12])
}

func (w *world) tryStage(id string, c *csi.VolumeCapability) error {
	_, err := w.node.NodeStageVolume(w.ctx(),
		&csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: w.stagingPath(id), VolumeCapability: c})
	return err
}

func (w *world) tryPublish(id, name string, c *csi.VolumeCapability, ro bool) (string, error) {
	path := w.targetPath(id, name)
	_, err := w.node.NodePublishVolume(w.ctx(), &csi.NodePublishVolumeRequest{
		VolumeId:          id,
		StagingTargetPath: w.stagingPath(id),
		TargetPath:        path,
		VolumeCapability:  c,
		Readonly:          ro,
	})
	return path, err
}

// use stages and publishes a volume and returns the target.
func (w *world) use(id, name string, c *csi.VolumeCapability, ro bool) string {
	w.t.Helper()
	if err := w.tryStage(id, c); err != nil {
		w.t.Fatal(err)
	}
	return must2(w.tryPublish(id, name, c, ro))(w.t)
}

func (w *world) unpublish(id, name string) {
	w.t.Helper()
	must2(w.node.NodeUnpublishVolume(w.ctx(),
		&csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: w.targetPath(id, name)}))(w.t)
	if _, err := os.Lstat(w.targetPath(id, name)); !os.IsNotExist(err) {
		w.t.Fatalf("the target is still there: %v", err)
	}
}

func (w *world) unstage(id string) {
	w.t.Helper()
	must2(w.node.NodeUnstageVolume(w.ctx(),
		&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: w.stagingPath(id)}))(w.t)
}

// release ends one use and deletes the volume.
func (w *world) release(id, name string) {
	w.t.Helper()
	w.unpublish(id, name)
	w.unstage(id)
	w.remove(id)
}

func (w *world) remove(id string) {
	w.t.Helper()
	must2(w.ctl.DeleteVolume(w.ctx(), &csi.DeleteVolumeRequest{VolumeId: id}))(w.t)
}

func (w *world) snap(name, id string) string {
	w.t.Helper()
	r := must2(w.ctl.CreateSnapshot(w.ctx(), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: id}))(w.t)
	if !r.GetSnapshot().GetReadyToUse() {
		w.t.Fatal("the snapshot is not ready")
	}
	return r.GetSnapshot().GetSnapshotId()
}

func (w *world) dropSnap(id string) {
	w.t.Helper()
	must2(w.ctl.DeleteSnapshot(w.ctx(), &csi.DeleteSnapshotRequest{SnapshotId: id}))(w.t)
}

func (w *world) socket() string { return strings.TrimPrefix(w.cfg.Endpoint, "unix://") }

func (w *world) image(id string) string {
	return filepath.Join(w.cfg.DataDir, "volumes", id[4:28], "image")
}

func (w *world) nothingLeft() {
	w.t.Helper()
	if left := w.everything(); len(left) > 0 {
		w.t.Fatalf("files are left: %v", left)
	}
	if loops := w.ourLoops(); len(loops) > 0 {
		w.t.Fatalf("loop devices are left: %v", loops)
	}
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	f := must2(os.Create(path))(t)
	must2(f.WriteString(text))(t)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t testing.TB, path, text string) {
	t.Helper()
	if got := string(must2(os.ReadFile(path))(t)); got != text {
		t.Fatalf("%s holds %.60q, want %.60q", path, got, text)
	}
}
