// Package controller owns the CSI controller service of the bundled plugin: the life of volumes and snapshots, and
// attachment to the one node that they live on. Only package localcsi imports it.
package controller

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/base/sizes"
	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// Server is the controller service over one datadir.
type Server struct {
	csi.UnimplementedControllerServer
	*datadir.Directory
}

// origin is what a volume is filled from. Its lock is held until unlock is called.
type origin struct {
	request.Origin
	path    string
	volume  *store.Volume // set when it may be in use
	what    string        // it is locked for
	release func()
	grow    func(takes int64) error // sets capacity aside for a volume that grew meanwhile; nil: enough is
	asOf    time.Time               // when its writers were stopped for the copy; zero: they were not
}

func (o *origin) unlock() {
	if o.release != nil {
		o.release()
	}
	o.release = nil
}

// grown looks whether more is to be copied than was set aside for.
func (o *origin) grown() error {
	if o.grow == nil {
		return nil
	}
	takes, err := image.Allocated(o.path)
	if err != nil {
		return err
	}
	return o.grow(takes)
}

// CreateVolume makes a volume, empty or filled from a snapshot or another volume.
func (p *Server) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	w, err := request.Create(req)
	if err != nil {
		return nil, err
	}
	if err := p.Reachable(req.GetAccessibilityRequirements(), "create volume"); err != nil {
		return nil, err
	}
	if err := p.There(); err != nil {
		return nil, err
	}
	release, err := p.Locks.Take("volume name "+w.Name, "create volume")
	if err != nil {
		return nil, err
	}
	defer release()
	if v, ok := p.Volumes.Named(w.Name); ok {
		if why := w.Differs(v); why != "" {
			return nil, request.Refuse(codes.AlreadyExists,
				"a volume of that name exists as %s, and %s: use the same arguments or another name", p.VolumeID(v.Key),
				why)
		}
		return &csi.CreateVolumeResponse{Volume: p.describe(v)}, nil
	}
	from, err := p.origin(w.From)
	if err != nil {
		return nil, err
	}
	var facts *request.Origin
	if from != nil {
		defer from.unlock()
		if err := w.Adopt(&from.Origin); err != nil {
			return nil, err
		}
		facts = &from.Origin
	}
	v, err := w.Shape(facts)
	if err != nil {
		return nil, err
	}
	made := filepath.Join(p.Dir(datadir.MakingDir), v.Key)
	unreserve, err := p.Reserve(v.Size, "the volume", filepath.Join(made, store.ImageFile))
	if err != nil {
		return nil, err
	}
	defer unreserve()
	if err := p.makeVolume(ctx, v, made, from); err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: p.describe(v)}, nil
}

// origin finds and locks the source of a new volume; nil when it has none.
func (p *Server) origin(from *store.Source) (*origin, error) {
	switch {
	case from == nil:
		return nil, nil
	case from.Snapshot != "":
		s, err := p.Snapshot(from.Snapshot)
		if err != nil {
			return nil, err
		}
		release, err := p.Locks.Take(s.Key, "copy of snapshot "+from.Snapshot)
		if err != nil {
			return nil, err
		}
		if s, err = p.Snapshot(from.Snapshot); err != nil {
			release()
			return nil, err
		}
		if err := p.WholeSnapshot(s); err != nil {
			release()
			return nil, lost("snapshot "+from.Snapshot, err)
		}
		return &origin{
			path:    p.Snapshots.Image(s.Key),
			Origin:  request.Origin{Size: s.Size, FS: s.FS, Mount: s.Mount, Block: s.Block},
			release: release,
		}, nil
	case from.Volume == "":
		return nil, request.Refuse(codes.InvalidArgument, "volume_content_source has no id")
	}
	return p.lockOrigin(from.Volume, "clone")
}

func (p *Server) lockOrigin(id, what string) (*origin, error) {
	v, release, err := p.LockVolume(id, what)
	if err != nil {
		return nil, err
	}
	if err := p.Displaced(v); err != nil {
		release()
		return nil, err
	}
	if err := p.WholeVolume(v); err != nil {
		release()
		return nil, lost("volume "+id, err)
	}
	return &origin{
		path:    p.Volumes.Image(v.Key),
		what:    what,
		Origin:  request.Origin{Size: v.Size, FS: v.FS, Mount: v.Mount, Block: v.Block},
		volume:  v,
		release: release,
	}, nil
}

// lost refuses work on what has lost its content.
func lost(what string, why error) error {
	return request.Refuse(codes.FailedPrecondition,
		"%s: %w; nothing was written: put the image back from a backup, or delete it", what, why)
}

// makeVolume builds the volume out of sight and puts it on the collection in one step.
func (p *Server) makeVolume(ctx context.Context, v *store.Volume, made string, from *origin) (err error) {
	if err := os.Mkdir(made, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, store.RemoveFlat(made))
		}
	}()
	p.Step("create: directory made")
	path := filepath.Join(made, store.ImageFile)
	if from != nil {
		v.Shared, err = p.fill(ctx, path, from)
	} else {
		err = p.makeEmpty(ctx, path, v)
	}
	if err != nil {
		return err
	}
	if err := image.Extend(path, v.Size); err != nil {
		return err
	}
	p.Step("create: image made")
	if err := p.Volumes.Add(made, v); err != nil {
		return err
	}
	p.Step("create: volume added")
	return nil
}

func (p *Server) makeEmpty(ctx context.Context, path string, v *store.Volume) error {
	f, err := image.Create(path, v.Size)
	if errors.Is(err, unix.EFBIG) {
		return request.Refuse(codes.OutOfRange,
			"%s is more than a file may have on the file system of the data directory", sizes.Human(v.Size))
	}
	if err != nil {
		return err
	}
	// A volume that may also be used raw is formatted when it is first mounted, if it is still empty then.
	if !v.Mount || v.Block {
		return errors.Join(f.Sync(), f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	return image.Format(ctx, nil, path, v.FS, v.Size)
}

// fill makes the image at path a durable copy of the origin and tells how much of it is shared.
func (p *Server) fill(ctx context.Context, path string, from *origin) (shared int64, err error) {
	dst, err := image.Create(path, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	src, err := os.Open(from.path)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	var isShared bool
	if from.volume != nil {
		isShared, err = p.copyVolume(ctx, from, dst, src)
	} else {
		isShared, err = p.Copier.Copy(ctx, dst, src)
	}
	if err != nil {
		return 0, err
	}
	p.Step("copy: contents copied")
	if err := dst.Sync(); err != nil {
		return 0, err
	}
	if !isShared {
		return 0, nil
	}
	return image.Allocated(path)
}

func (p *Server) describe(v *store.Volume) *csi.Volume {
	out := &csi.Volume{
		VolumeId:           p.VolumeID(v.Key),
		CapacityBytes:      v.Size,
		AccessibleTopology: []*csi.Topology{p.Topology()},
	}
	switch {
	case v.Source == nil:
	case v.Source.Snapshot != "":
		out.ContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: v.Source.Snapshot},
		}}
	default:
		out.ContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: v.Source.Volume},
		}}
	}
	return out
}
