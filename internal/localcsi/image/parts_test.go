package image_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/localcsi/blocktrace"
	"berth/internal/localcsi/image"
)

// Given a copy of a file of which blocks are written, and others made holes, when those are copied again, then the copy
// has the file's content, and takes no more than it; what lies behind its end is left alone.
func TestPartsAreCopiedAgain(t *testing.T) {
	const size = 8<<20 + 512
	var files [2]*os.File
	for i := range files {
		f, err := image.Create(filepath.Join(t.TempDir(), "image"), size)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = f
		t.Cleanup(func() { _ = f.Close() })
	}
	dst, src := files[0], files[1]
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 30 {
		var parts blocktrace.Blocks
		for range r.IntN(20) {
			from := r.Int64N(size)
			to := min(size, from+r.Int64N(200<<10)+1)
			parts.Add(from, to)
			var err error
			if r.IntN(3) == 0 {
				err = unix.Fallocate(int(src.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
			} else {
				_, err = src.WriteAt(bytes.Repeat([]byte{byte(round + 1)}, int(to-from)), from)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := image.CopyParts(t.Context(), dst, src, parts.Each); err != nil {
			t.Fatal(err)
		}
		a, err := os.ReadFile(dst.Name())
		b, err2 := os.ReadFile(src.Name())
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Fatalf("after round %d the copy differs", round)
		}
	}
	if err := errors.Join(dst.Sync(), src.Sync()); err != nil {
		t.Fatal(err)
	}
	a, err := image.Allocated(dst.Name())
	b, err2 := image.Allocated(src.Name())
	if err := errors.Join(err, err2); err != nil || a > b {
		t.Errorf("the copy takes %d bytes, the file %d: %v", a, b, err)
	}
}
