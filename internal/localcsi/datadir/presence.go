package datadir

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/base/logkey"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/loop"
	"berth/internal/localcsi/mount"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// Presence is what the kernel says about a path, seen from one volume.
type Presence int

// What can be at a path.
const (
	Absent  Presence = iota // nothing is mounted there
	Ours                    // the volume is, or it cannot be seen
	Foreign                 // something else is
)

// Look finds out what is mounted at path. What cannot be read (a file system that was shut down, say) counts as ours:
// then it can be unmounted, and nothing is assumed to be free.
func (p *Directory) Look(v *store.Volume, path string) Presence {
	is, err := mount.IsPoint(path)
	if err == nil && !is {
		return Absent
	}
	n, isNode, err := mount.Node(path)
	if err == nil && !isNode {
		n, err = mount.At(path)
	}
	if err != nil {
		return Ours
	}
	if n.Major == loop.Major && p.Backs(v, int(n.Minor)) {
		return Ours
	}
	return Foreign
}

// Backs reports whether loop device n is bound to the volume's image.
func (p *Directory) Backs(v *store.Volume, n int) bool {
	if n < 0 {
		return false
	}
	var st unix.Stat_t
	if err := unix.Stat(p.Volumes.Image(v.Key), &st); err != nil {
		return false
	}
	d, ok, err := loop.Status(n)
	if err != nil {
		p.Log.Warn("a loop device does not say what it is bound to; taken as used", logkey.Path, loop.Path(n),
			logkey.Error, err)
		return true
	}
	return ok && d.Backs(&st)
}

// Published reports whether the volume is mounted at path.
func (p *Directory) Published(v *store.Volume, path string) bool { return p.Look(v, path) == Ours }

// StagedAt reports whether the kernel agrees with a note of a staging.
func (p *Directory) StagedAt(v *store.Volume, s store.Staging) bool {
	if s.FS == "" {
		return p.Backs(v, s.Loop)
	}
	return p.Published(v, s.Path)
}

// DeviceOf reports which loop device a staging is on. For a file system the mount says so: its note may lack the number
// when the plugin was killed between the mount and the note.
func (p *Directory) DeviceOf(s store.Staging) (int, error) {
	if s.FS == "" {
		return s.Loop, nil
	}
	n, err := mount.At(s.Path)
	return int(n.Minor), err
}

// ClearTarget unmounts what is at a target and removes the file or directory that a publication made there. It never
// removes anything that has contents.
func (p *Directory) ClearTarget(ctx context.Context, path string) error {
	if err := mount.Unmount(ctx, path); err != nil {
		return Busy(err)
	}
	p.Step("unpublish: unmounted")
	return p.removeTarget(path)
}

// removeTarget removes the empty file or directory at a path where nothing is mounted.
func (p *Directory) removeTarget(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	if !st.IsDir() && !(st.Mode().IsRegular() && st.Size() == 0) {
		return request.Refuse(codes.FailedPrecondition,
			"target %s is not mounted and is neither an empty file nor a directory: this plugin did not make it and "+
				"leaves it alone", path)
	}
	// Neither unlink nor rmdir removes what something is mounted on.
	err = os.Remove(path)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return request.Refuse(codes.FailedPrecondition,
			"target %s is not mounted and has contents, which were written beneath the mount: move them away", path)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Busy says what to do about a mount that processes hold.
func Busy(err error) error {
	if errors.Is(err, unix.EBUSY) {
		return request.Refuse(codes.FailedPrecondition,
			"a process still uses it (a file is open there, or it is a working directory); stop it and call again: %w",
			err)
	}
	return err
}

// Release releases loop device n of the volume and waits until the kernel has done so.
func (p *Directory) Release(v *store.Volume, n int) error {
	if err := loop.Clear(n); err != nil {
		return err
	}
	return p.AwaitRelease(v, n)
}

// releasePatience covers what holds a device for a moment: a probe, or a task that is just being started in a mount
// namespace of its own, which begins as a copy of this one.
const releasePatience = 5 * time.Second

// AwaitRelease waits until loop device n is not bound to the volume any more. Somebody who probes the device, or a
// mount in another mount namespace, can hold it.
func (p *Directory) AwaitRelease(v *store.Volume, n int) error {
	for deadline := time.Now().Add(releasePatience); p.Backs(v, n); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return request.Refuse(codes.FailedPrecondition,
				"volume %s: %s is still open, by a process or by a mount in another mount namespace; stop what uses "+
					"it and call again",
				p.VolumeID(v.Key), loop.Path(n))
		}
	}
	return nil
}

// DropLoops releases devices that an earlier, unfinished staging left bound. Whoever else has bound the image could
// write to it behind the file system's back, so that is refused.
func (p *Directory) DropLoops(v *store.Volume) error {
	devices, err := loop.Find(p.Volumes.Image(v.Key))
	if err != nil {
		return err
	}
	for _, d := range devices {
		if d.Label != p.Label(v.Key) {
			return request.Refuse(codes.FailedPrecondition,
				"volume %s: somebody else has bound its image to %s: run losetup -d on it", p.VolumeID(v.Key),
				loop.Path(d.Number))
		}
		if err := p.Release(v, d.Number); err != nil {
			return err
		}
	}
	return nil
}

// Hold takes the volume's image for programs that work on it, or refuses while one of an earlier plugin does.
func (p *Directory) Hold(v *store.Volume) (*os.File, error) {
	held, err := image.Hold(p.Volumes.Image(v.Key))
	if errors.Is(err, image.ErrHeld) {
		return nil, request.Refuse(codes.Aborted, "volume %s: %w; call again", p.VolumeID(v.Key), image.ErrHeld)
	}
	return held, err
}

// Unused refuses while the volume is staged, published, or bound to a loop device that somebody has open, and releases
// loop devices that nobody has.
func (p *Directory) Unused(v *store.Volume) error {
	id := p.VolumeID(v.Key)
	u := p.Usages.Get(v.Key)
	for path := range u.Targets {
		if p.Published(v, path) {
			return request.Refuse(codes.FailedPrecondition,
				"volume %s is published at %s: call NodeUnpublishVolume first", id, path)
		}
	}
	if u.Staging != nil && p.StagedAt(v, *u.Staging) {
		return request.Refuse(codes.FailedPrecondition, "volume %s is staged at %s: call NodeUnstageVolume first", id,
			u.Staging.Path)
	}
	if err := p.Displaced(v); err != nil {
		return err
	}
	devices, err := loop.Find(p.Volumes.Image(v.Key))
	if err != nil || len(devices) == 0 {
		return err
	}
	table, err := mount.LoopTable(loop.Major)
	if err != nil {
		return err
	}
	for _, d := range devices {
		if at := table[d.Number]; len(at) > 0 {
			return request.Refuse(codes.FailedPrecondition,
				"volume %s is still mounted at %s, which this plugin did not ask for: unmount it there", id, at[0].Path)
		}
	}
	return p.DropLoops(v)
}

// GrowDevices tells devices that were handed out raw of the new size. A mounted file system's device grows in
// NodeExpandVolume, together with the file system.
func (p *Directory) GrowDevices(v *store.Volume) error {
	s := p.Usages.Get(v.Key).Staging
	if s == nil || s.FS != "" || !p.StagedAt(v, *s) {
		return nil
	}
	devices, err := loop.Find(p.Volumes.Image(v.Key))
	if err != nil {
		return err
	}
	for _, d := range devices {
		if err := loop.Grow(d.Number); err != nil {
			return err
		}
	}
	return nil
}
