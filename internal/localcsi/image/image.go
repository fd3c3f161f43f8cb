// Package image owns image files and the file systems inside them: it makes, copies, formats, checks and grows them,
// and freezes a mounted one for the moment of a copy. Nothing here knows of CSI. Only package localcsi imports it.
package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/sparse"
)

const chunk = 4 << 20

// Create makes a new sparse image of size bytes; an existing file is an error.
func Create(path string, size int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(size); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Extend makes the image at path at least size bytes long, durably. It never shortens one.
func Extend(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && st.Size() < size {
		if err = f.Truncate(size); err == nil {
			err = f.Sync()
		}
	}
	return errors.Join(err, f.Close())
}

// ErrHeld says that a program still works on an image.
var ErrHeld = errors.New("a program that an earlier plugin started still works on the image")

// Hold takes the image at path for programs that work on it. The programs inherit the hold, so that one which outlives
// a killed plugin keeps it until it is done. Close releases it.
func Hold(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrHeld
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return f, nil
}

// Allocated reports how many bytes the file at path takes from its file system.
func Allocated(path string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return st.Blocks * 512, nil
}

// Copier copies images, by reference where the file system below can do it, and remembers how fast copies were.
type Copier struct {
	// Reflink says that the file system below shares extents between files.
	Reflink bool
	rate    atomic.Int64 // bytes per second of the copies so far
}

// assumedRate is what a copy is expected to do at least: a plain disk's figure.
const assumedRate = 256 << 20

// Expect reports how long copying n bytes would take.
func (c *Copier) Expect(n int64) time.Duration {
	if c.Reflink {
		return 0
	}
	// A slow copy of the past is no reason to refuse for ever; where the guess is too good the limit cuts the copy off.
	rate := max(c.rate.Load(), assumedRate)
	return time.Duration(float64(n) / float64(rate) * float64(time.Second))
}

// Copy fills the empty file dst with the contents of src, holes staying holes. It does not sync dst. shared says that
// both now refer to the same blocks.
func (c *Copier) Copy(ctx context.Context, dst, src *os.File) (shared bool, err error) {
	if c.Reflink {
		err := unix.IoctlFileClone(int(dst.Fd()), int(src.Fd()))
		if err == nil {
			return true, nil
		}
		if !cannotClone(err) {
			return false, fmt.Errorf("share the blocks of %s with %s: %w", src.Name(), dst.Name(), err)
		}
	}
	begun := time.Now()
	n, err := copySparse(ctx, dst, src)
	if took := time.Since(begun); err == nil && n > 16<<20 && took > 0 {
		c.rate.Store(int64(float64(n) / took.Seconds()))
	}
	return false, err
}

func cannotClone(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EINVAL) ||
		errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.ENOSYS)
}

// CanReflink tries whether files in dir can share blocks.
func CanReflink(dir string) (bool, error) {
	src, err := scratch(dir)
	if err != nil {
		return false, err
	}
	defer src.Close()
	dst, err := scratch(dir)
	if err != nil {
		return false, err
	}
	defer dst.Close()
	if _, err := src.Write(make([]byte, 4096)); err != nil {
		return false, err
	}
	err = unix.IoctlFileClone(int(dst.Fd()), int(src.Fd()))
	if err != nil && !cannotClone(err) {
		return false, fmt.Errorf("try to share blocks in %s: %w", dir, err)
	}
	return err == nil, nil
}

// scratch returns a file that has no name once it is open.
func scratch(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func copySparse(ctx context.Context, dst, src *os.File) (copied int64, err error) {
	st, err := src.Stat()
	if err != nil {
		return 0, err
	}
	if err := dst.Truncate(st.Size()); err != nil {
		return 0, err
	}
	err = sparse.Data(src, func(from, to int64) error {
		if err := copyRange(ctx, dst, src, from, to); err != nil {
			return fmt.Errorf("copy %s: %w", src.Name(), err)
		}
		copied += to - from
		return nil
	})
	return copied, err
}

// CopyParts copies stretches of src to where they lie in dst, which has its size; what is a hole in src becomes one. It
// does not sync dst.
func CopyParts(ctx context.Context, dst, src *os.File, parts func(func(from, to int64) error) error) error {
	st, err := src.Stat()
	if err != nil {
		return err
	}
	return parts(func(from, to int64) error {
		for to = min(to, st.Size()); from < to; {
			data, err := unix.Seek(int(src.Fd()), from, unix.SEEK_DATA)
			if errors.Is(err, unix.ENXIO) {
				data, err = to, nil
			}
			if err != nil {
				return fmt.Errorf("look for data in %s: %w", src.Name(), err)
			}
			if data = min(data, to); data > from {
				if err := punch(dst, from, data); err != nil {
					return fmt.Errorf("make a hole in %s: %w", dst.Name(), err)
				}
			}
			hole := to
			if data < to {
				if hole, err = unix.Seek(int(src.Fd()), data, unix.SEEK_HOLE); err != nil {
					return fmt.Errorf("look for holes in %s: %w", src.Name(), err)
				}
			}
			from = min(hole, to)
			if err := copyRange(ctx, dst, src, data, from); err != nil {
				return fmt.Errorf("copy %s: %w", src.Name(), err)
			}
		}
		return nil
	})
}

// punch makes a part of a file read as zeroes.
func punch(f *os.File, from, to int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	zeroes := make([]byte, min(to-from, chunk))
	for ; from < to; from += int64(len(zeroes)) {
		if _, err := f.WriteAt(zeroes[:min(to-from, int64(len(zeroes)))], from); err != nil {
			return err
		}
	}
	return nil
}

func copyRange(ctx context.Context, dst, src *os.File, from, to int64) error {
	inKernel := true
	for from < to {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n := int(min(to-from, chunk))
		if !inKernel {
			if _, err := io.CopyN(io.NewOffsetWriter(dst, from), io.NewSectionReader(src, from, int64(n)),
				int64(n)); err != nil {
				return err
			}
			from += int64(n)
			continue
		}
		in, out := from, from
		done, err := unix.CopyFileRange(int(src.Fd()), &in, int(dst.Fd()), &out, n, 0)
		switch {
		case err != nil && cannotClone(err) || err == nil && done == 0:
			inKernel = false
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		default:
			from += int64(done)
		}
	}
	return nil
}

// Empty reports whether the file at path holds nothing but zeroes.
func Empty(ctx context.Context, path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	off := int64(0)
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		begin, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("look for data in %s: %w", path, err)
		}
		n, err := f.ReadAt(buf, begin)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		for _, b := range buf[:n] {
			if b != 0 {
				return false, nil
			}
		}
		off = begin + int64(n)
	}
}
