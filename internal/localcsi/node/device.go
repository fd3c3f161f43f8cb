package node

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/loop"
	"berth/internal/localcsi/mount"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// keepDevice makes sure that a raw device stays which an unfinished unstaging wanted released while somebody had it
// open.
func (p *Server) keepDevice(v *store.Volume, s store.Staging) error {
	if s.FS != "" {
		return nil // it goes with its last mount, and it is mounted
	}
	f, is, err := loop.Keep(s.Loop)
	if err != nil {
		return err
	}
	defer f.Close()
	return p.still(v, is)
}

// still refuses a device that is not bound to the volume's image, or by somebody else.
func (p *Server) still(v *store.Volume, is loop.Info) error {
	var st unix.Stat_t
	if err := unix.Stat(p.Volumes.Image(v.Key), &st); err != nil {
		return err
	}
	if !is.Backs(&st) || is.Label != p.Label(v.Key) {
		return request.Refuse(codes.Unavailable, "volume %s: %s was released meanwhile; call again",
			p.VolumeID(v.Key), loop.Path(is.Number))
	}
	return nil
}

// mountAgain mounts what an equal staging before this one had mounted, and what could not be released because it is
// mounted in another mount namespace: the device is the same, so the kernel shows the one file system that it has. On
// another device it would be written by two. It reports false when nobody has it mounted.
func (p *Server) mountAgain(v *store.Volume, before, s *store.Staging, opt mount.Options) (bool, error) {
	if before == nil || s.FS == "" || before.Loop < 0 || before.Path != s.Path || before.FS != s.FS ||
		before.Fingerprint != s.Fingerprint || before.ReadOnly != s.ReadOnly || !p.Backs(v, before.Loop) {
		return false, nil
	}
	dev, is, err := loop.Held(before.Loop)
	if dev == nil {
		return false, err
	}
	defer dev.Close()
	if err := p.still(v, is); err != nil {
		return false, err
	}
	s.Loop = before.Loop
	if err := mount.Device(loop.Path(s.Loop), s.Path, v.FS, ours(v.FS, opt)); err != nil {
		return false, fmt.Errorf("stage volume %s again: %w", p.VolumeID(v.Key), err)
	}
	p.Step("stage: mounted again")
	return true, nil
}

func (p *Server) bindAndMount(ctx context.Context, v *store.Volume, s *store.Staging, opt mount.Options) error {
	path := p.Volumes.Image(v.Key)
	if err := p.DropLoops(v); err != nil {
		return err
	}
	if err := p.WholeVolume(v); err != nil {
		return request.Refuse(codes.FailedPrecondition,
			"volume %s: %w; nothing was written: put the image back from a backup, or delete the volume",
			p.VolumeID(v.Key), err)
	}
	if s.FS == "" {
		if err := p.prepareDevice(v); err != nil {
			return err
		}
	} else if err := p.prepareFS(ctx, v, path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// The kernel releases a file system's device with its last mount. A raw device has no user of its own, so it
	// stays until it is unstaged; the note keeps it from being taken for a leftover.
	n, dev, err := loop.Attach(ctx, f,
		loop.Options{Autoclear: s.FS != "", ReadOnly: s.FS == "" && s.ReadOnly, Label: p.Label(v.Key)})
	if err != nil {
		return err
	}
	defer dev.Close()
	s.Loop = n
	p.Step("stage: loop device bound")
	if s.FS == "" {
		return nil
	}
	if err := mount.Device(loop.Path(n), s.Path, v.FS, ours(v.FS, opt)); err != nil {
		return fmt.Errorf("stage volume %s: %w", p.VolumeID(v.Key), err)
	}
	p.Step("stage: mounted")
	return nil
}

// releaseLoops releases the recorded devices of a volume.
func (p *Server) releaseLoops(v *store.Volume, u store.Usage) error {
	if u.Staging == nil || u.Staging.Loop < 0 {
		return p.DropLoops(v)
	}
	n := u.Staging.Loop
	if !p.Backs(v, n) {
		return nil
	}
	if u.Staging.FS == "" {
		return p.Release(v, n)
	}
	return p.AwaitRelease(v, n)
}
