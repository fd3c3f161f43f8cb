package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/image"
	"berth/internal/localcsi/loop"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// Foreigner refuses to touch what is mounted at a path and is not the volume.
func (p *Directory) Foreigner(v *store.Volume, path string) error {
	if p.Look(v, path) != Foreign {
		return nil
	}
	if err := p.Displaced(v); err != nil {
		return err
	}
	return request.Refuse(codes.FailedPrecondition, "what is mounted at %s is not volume %s: it is left alone", path,
		p.VolumeID(v.Key))
}

// WholeVolume says that the image of a volume has lost what it had, as far as its length and its first bytes show it;
// nil: they show nothing. An empty disk in the place of one with data is never given to anybody, copied or kept.
func (p *Directory) WholeVolume(v *store.Volume) error {
	return whole(p.Volumes.Image(v.Key), v.LeastImage(), v.Formatted())
}

// Displaced says that the image of a volume was replaced while the volume is in use: a loop device of ours has the file
// open that was there before, and what is written goes to that one. nil: none has. The error is FAILED_PRECONDITION,
// and names the device, which goes with its last unmount, and the way to save what is on it.
func (p *Directory) Displaced(v *store.Volume) error {
	path := p.Volumes.Image(v.Key)
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	all, err := loop.List()
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.Label != p.Label(v.Key) || d.Backs(&st) {
			continue
		}
		device := loop.Path(d.Number)
		return request.Refuse(codes.FailedPrecondition,
			"volume %s is in use on %s, whose file is not %s any more: that was replaced or removed, and %s alone has "+
				"what was written since; it goes with its last unmount: stop the tasks of the volume, copy it (sync; "+
				"dd if=%s of=%s.saved bs=1M conv=sparse,fsync), put the copy in the image's place (mv), and then "+
				"unmount what is mounted of the device (findmnt %s)",
			p.VolumeID(v.Key), device, path, device, device, path, device)
	}
	return nil
}

// WholeSnapshot is WholeVolume of a snapshot.
func (p *Directory) WholeSnapshot(s *store.Snapshot) error {
	return whole(p.Snapshots.Image(s.Key), s.Size, s.Mount && !s.Block)
}

func whole(path string, least int64, formatted bool) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if st.Size() < least {
		return fmt.Errorf("its image %s is cut off: it has %d bytes of %d", path, st.Size(), least)
	}
	if !formatted {
		return nil
	}
	has, err := image.Probe(path)
	if err == nil && has.FS == "" {
		err = fmt.Errorf("its image %s holds no file system any more", path)
	}
	return err
}
