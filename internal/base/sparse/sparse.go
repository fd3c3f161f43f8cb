// Package sparse owns how files with holes are read: which parts of one hold data, what their checksum is, and how one
// is copied so that holes stay holes. Everybody may import it.
package sparse

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Data calls each with the parts of a file that may hold other bytes than zeros, in their order.
func Data(f *os.File, each func(from, to int64) error) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	for off := int64(0); off < st.Size(); {
		from, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for data in %s: %w", f.Name(), err)
		}
		to, err := unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		if err != nil {
			return fmt.Errorf("look for holes in %s: %w", f.Name(), err)
		}
		if err := each(from, to); err != nil {
			return err
		}
		off = to
	}
	return nil
}

const (
	// block is the unit of the checksum, in bytes: a block of zeros counts as a hole, however it is stored.
	block = 4096
	// window is how much is read at once, in bytes.
	window = 1 << 20
)

// Sum is the checksum of a file with holes: SHA-256 over each block of 4096 bytes that holds other bytes than zeros,
// in front of it its offset, and at the end over the file's size; numbers have eight bytes, the highest first. It does
// not depend on where the holes are.
func Sum(ctx context.Context, f *os.File, progress func(bytes int64)) (string, error) {
	return pass(ctx, nil, f, progress)
}

// Copy fills the empty file dst with what src holds, and returns its checksum. It does not sync dst. progress, unless
// it is nil, hears how many bytes of data more have been read.
func Copy(ctx context.Context, dst, src *os.File, progress func(bytes int64)) (string, error) {
	st, err := src.Stat()
	if err != nil {
		return "", err
	}
	if err := dst.Truncate(st.Size()); err != nil {
		return "", err
	}
	return pass(ctx, dst, src, progress)
}

func pass(ctx context.Context, dst io.WriterAt, src *os.File, progress func(int64)) (string, error) {
	st, err := src.Stat()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	number := func(n int64) { _, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) } // a hash takes everything
	buf := make([]byte, window)
	next := int64(0) // what lies before has been read
	err = Data(src, func(from, to int64) error {
		from = max(from-from%block, next)
		to = min((to+block-1)/block*block, st.Size())
		for ; from < to; next = from {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			part := buf[:min(window, to-from)]
			if _, err := io.ReadFull(io.NewSectionReader(src, from, int64(len(part))), part); err != nil {
				return fmt.Errorf("read %s: %w", src.Name(), err)
			}
			for at := 0; at < len(part); at += block {
				one := part[at:min(at+block, len(part))]
				if zero(one) {
					continue
				}
				number(from + int64(at))
				_, _ = h.Write(one)
				if dst == nil {
					continue
				}
				if _, err := dst.WriteAt(one, from+int64(at)); err != nil {
					return err
				}
			}
			from += int64(len(part))
			if progress != nil {
				progress(int64(len(part)))
			}
		}
		return nil
	})
	number(st.Size())
	return hex.EncodeToString(h.Sum(nil)), err
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
