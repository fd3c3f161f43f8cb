package controller

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/base/retry"
	"berth/internal/base/sizes"
	"berth/internal/localcsi/blocktrace"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/mount"
	"berth/internal/localcsi/request"
)

const (
	// maxPasses bounds how often what was written meanwhile is copied.
	maxPasses = 10
	// little is not worth another pass, in bytes: its copy stops the writers for less than they notice.
	little = 16 << 20
)

// copyRunning copies the image of a mounted file system whose writers go on: first all of it, then again and again what
// was written meanwhile, and at last, while they are stopped, what is left. The volume's lock is free in between, so
// that nobody waits for the copy who wants to unmount it.
func (p *Server) copyRunning(ctx context.Context, from *origin, mounted string, dst, src *os.File) error {
	device, err := mount.At(mounted)
	if err != nil {
		return err
	}
	var trace *blocktrace.Trace
	if err := p.whileFrozen(ctx, from.volume, mounted, func(context.Context) (err error) {
		trace, err = blocktrace.Start(ctx, device.Major, device.Minor)
		p.Step("copy: writes are followed")
		return err
	}); err != nil {
		return errors.Join(err, closeTrace(trace))
	}
	err = p.whileUnlocked(ctx, from, func() error { return p.passes(ctx, from, trace, mounted, dst, src) })
	if err == nil {
		err = p.lastPass(ctx, from, trace, mounted, dst, src)
	}
	return errors.Join(err, closeTrace(trace))
}

func closeTrace(t *blocktrace.Trace) error {
	if t == nil {
		return nil
	}
	return t.Close()
}

// passes copies until another pass would bring little. It ends with little to copy, or refuses.
func (p *Server) passes(
	ctx context.Context, from *origin, trace *blocktrace.Trace, mounted string, dst, src *os.File,
) error {
	if _, err := p.Copier.Copy(ctx, dst, src); err != nil {
		return err
	}
	var before, left int64
	for pass := 1; ; pass++ {
		p.Step("copy: pass made")
		if err := errors.Join(p.settle(mounted, dst), from.grown()); err != nil {
			return err
		}
		left = trace.Pending()
		if left <= little || pass > 1 && left > before/2 || pass == maxPasses {
			break
		}
		before = left
		blocks, err := trace.Take()
		if err != nil {
			return err
		}
		if err := image.CopyParts(ctx, dst, src, blocks.Each); err != nil {
			return err
		}
	}
	if expect := p.Copier.Expect(left); expect > p.FreezeLimit {
		return request.Refuse(codes.FailedPrecondition,
			"volume %s is written faster than it can be copied: %s are left after each pass, and copying them would "+
				"stop its writers for about %s, more than the %s allowed: %s",
			p.VolumeID(from.volume.Key), sizes.Human(left), expect.Round(time.Second), p.FreezeLimit, longerHint)
	}
	return nil
}

// settle brings to disk what was copied and what the file system has not written yet, so that neither has to happen
// while it is frozen.
func (p *Server) settle(mounted string, dst *os.File) error {
	if err := dst.Sync(); err != nil {
		return err
	}
	f, err := os.Open(mounted)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

// lastPass copies what is left while the writers are stopped: the copy is as of that moment.
func (p *Server) lastPass(
	ctx context.Context, from *origin, trace *blocktrace.Trace, mounted string, dst, src *os.File,
) error {
	err := p.whileFrozen(ctx, from.volume, mounted, func(ctx context.Context) error {
		p.Step("copy: frozen")
		from.asOf = time.Now()
		blocks, err := trace.TakeLast(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx) // writers may go on, and the kernel's count with them
		case errors.Is(err, blocktrace.ErrReplaced):
			return p.changed(from.volume.Key)
		case err != nil:
			return err
		}
		err = image.CopyParts(ctx, dst, src, blocks.Each)
		p.Step("copy: copied while frozen")
		return err
	})
	if err != nil {
		return err
	}
	// The kernel reports here what it could not drop of the pages that the passes have read before they were written.
	return src.Sync()
}

// relockPatience is how long others may work on a volume before its copy is given up.
const relockPatience = time.Minute

// whileUnlocked runs fn while others may work on the volume, and then takes its lock again. If it is not mounted any
// more as it was, or has another size, the copy is of no use: that is ABORTED, and the caller calls again.
func (p *Server) whileUnlocked(ctx context.Context, from *origin, fn func() error) error {
	was, staged := from.volume, p.Usages.Get(from.volume.Key).Staging
	from.unlock()
	failed := fn()
	for deadline := time.Now().Add(relockPatience); ; {
		again, err := p.lockOrigin(p.VolumeID(was.Key), from.what)
		if request.Is(err, codes.Aborted) && time.Now().Before(deadline) &&
			retry.Sleep(ctx, 10*time.Millisecond) {
			continue
		}
		if err != nil {
			return errors.Join(failed, err)
		}
		from.volume, from.release = again.volume, again.release
		break
	}
	now := p.Usages.Get(was.Key).Staging
	if now == nil || *now != *staged || from.volume.Size != was.Size || !p.StagedAt(from.volume, *now) {
		return p.changed(was.Key)
	}
	return failed
}

// changed is the end of a copy whose volume became another one meanwhile.
func (p *Server) changed(key string) error {
	return request.Refuse(codes.Aborted,
		"volume %s was unmounted or enlarged while it was copied; nothing was kept: call again", p.VolumeID(key))
}
