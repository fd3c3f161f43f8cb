package controller

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/base/logkey"
	"berth/internal/base/sizes"
	"berth/internal/localcsi/blocktrace"
	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/loop"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

const freezeHint = "stop the writers, or keep the plugin's data directory on a file system with reflinks (xfs, " +
	"btrfs), where a copy takes no time"

// longerHint is the way out where it is the time that does not suffice.
const longerHint = freezeHint + "; or have the plugin stop them for longer (--freeze-limit)"

// copyVolume copies the image of a volume whose lock is held, as of one moment if it is in use: a mounted file system
// is frozen at the end of the copy, a device is copied in use only where the copy is one step.
func (p *Server) copyVolume(ctx context.Context, from *origin, dst, src *os.File) (shared bool, err error) {
	v := from.volume
	u := p.Usages.Get(v.Key)
	s := u.Staging
	switch {
	case s == nil || !p.StagedAt(v, *s):
		return p.copyUnused(ctx, v, dst, src)
	case s.ReadOnly:
		return p.Copier.Copy(ctx, dst, src)
	case s.FS == "":
		return p.copyDevice(ctx, v, u, dst, src)
	}
	if !p.Copier.Reflink {
		err := p.copyRunning(ctx, from, s.Path, dst, src)
		if !errors.Is(err, blocktrace.ErrUnavailable) && !errors.Is(err, blocktrace.ErrIncomplete) {
			return false, err
		}
		p.Log.Warn("a volume in use is copied while its writers are stopped", logkey.Volume, p.VolumeID(v.Key),
			logkey.Error, err)
		if refused := p.fits(v, src, err); refused != nil {
			return false, refused
		}
	}
	return p.copyStopped(ctx, from, s.Path, dst, src)
}

// fits refuses to stop the writers of a volume for its whole copy where that would take too long. It is asked where
// what they write cannot be known, for the reason that is given.
func (p *Server) fits(v *store.Volume, src *os.File, why error) error {
	takes, err := image.Allocated(src.Name())
	if err != nil {
		return err
	}
	if expect := p.Copier.Expect(takes); expect > p.FreezeLimit {
		return request.Refuse(codes.FailedPrecondition,
			"volume %s is in use and copying its %s would stop its writers for about %s, more than the %s allowed: "+
				"%s; it cannot be copied while they go on: %w",
			p.VolumeID(v.Key), sizes.Human(takes), expect.Round(time.Second), p.FreezeLimit, longerHint, why)
	}
	return nil
}

// copyUnused makes sure that nobody has the volume in use unknown to us, as a mount in another mount namespace for one.
func (p *Server) copyUnused(ctx context.Context, v *store.Volume, dst, src *os.File) (shared bool, err error) {
	if err := p.DropLoops(v); err != nil {
		return false, err
	}
	held, err := p.Hold(v)
	if err != nil {
		return false, err
	}
	defer held.Close()
	return p.Copier.Copy(ctx, dst, src)
}

// copyStopped stops the writers of a mounted file system for the time of the copy.
func (p *Server) copyStopped(
	ctx context.Context, from *origin, mounted string, dst, src *os.File,
) (shared bool, err error) {
	err = p.whileFrozen(ctx, from.volume, mounted, func(ctx context.Context) error {
		p.Step("copy: frozen")
		from.asOf = time.Now()
		if err := dst.Truncate(0); err != nil { // it may hold what an earlier try copied
			return err
		}
		var err error
		shared, err = p.Copier.Copy(ctx, dst, src)
		p.Step("copy: copied while frozen")
		return err
	})
	return shared, err
}

// whileFrozen stops the writers of a mounted file system for the time of fn. A marker tells the next start what may
// still be frozen.
func (p *Server) whileFrozen(
	ctx context.Context, v *store.Volume, mounted string, fn func(context.Context) error,
) error {
	marker := filepath.Join(p.Dir(datadir.FrozenDir), v.Key)
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		return err
	}
	err := image.WhileFrozen(ctx, mounted, p.FreezeLimit, fn)
	switch {
	case errors.Is(err, unix.EBUSY):
		err = request.Refuse(codes.FailedPrecondition, "volume %s is frozen by somebody else: thaw %s first: %w",
			p.VolumeID(v.Key), mounted, err)
	case errors.Is(err, image.ErrTooLong):
		err = request.Refuse(codes.FailedPrecondition,
			"volume %s is in use and its copy was not done within the %s that its writers may be stopped; nothing "+
				"was kept: %s: %w",
			p.VolumeID(v.Key), p.FreezeLimit, longerHint, err)
	case errors.Is(err, image.ErrThawed):
		err = request.Refuse(codes.Aborted, "volume %s: %w, before its copy was done; nothing was kept: call again",
			p.VolumeID(v.Key), err)
	}
	if errors.Is(err, image.ErrStillFrozen) {
		return err // the marker stays: the next start tries again
	}
	return errors.Join(err, os.Remove(marker))
}

func (p *Server) copyDevice(ctx context.Context, v *store.Volume, u store.Usage, dst, src *os.File) (bool, error) {
	inUse := false
	for path := range u.Targets {
		inUse = inUse || p.Published(v, path)
	}
	if inUse && !p.Copier.Reflink {
		return false,
			request.Refuse(codes.FailedPrecondition, "volume %s is a block device in use, which cannot be frozen: %s",
				p.VolumeID(v.Key), freezeHint)
	}
	dev, err := os.Open(loop.Path(u.Staging.Loop))
	if err != nil {
		return false, err
	}
	// What was written to the device but not yet to the image.
	if err := errors.Join(unix.Fsync(int(dev.Fd())), dev.Close()); err != nil {
		return false, err
	}
	return p.Copier.Copy(ctx, dst, src)
}
