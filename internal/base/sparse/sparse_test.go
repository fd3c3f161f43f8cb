package sparse_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/base/sparse"
)

// made is a file of a size with data at some places.
func made(t *testing.T, size int64, data map[int64]string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for at, text := range data { // places are apart: the order does not matter
		if _, err := f.WriteAt([]byte(text), at); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func sum(t *testing.T, f *os.File) string {
	t.Helper()
	s, err := sparse.Sum(t.Context(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Given files of equal content, when one has zeros where the other has holes, then their checksums are equal; those of
// files that differ in a byte, in its place, or in their size are not.
func TestTheChecksumIsOfTheContentAlone(t *testing.T) {
	const size = 3<<20 + 100
	plain := map[int64]string{5: "a", 1<<20 - 1: "bc", size - 1: "d"}
	want := sum(t, made(t, size, plain))
	zeros := made(t, size, map[int64]string{0: string(make([]byte, size))})
	for at, text := range plain {
		if _, err := zeros.WriteAt([]byte(text), at); err != nil {
			t.Fatal(err)
		}
	}
	if got := sum(t, zeros); got != want {
		t.Errorf("without holes the checksum is %s, with holes %s", got, want)
	}
	for name, other := range map[string]*os.File{
		"another byte":          made(t, size, map[int64]string{5: "x", 1<<20 - 1: "bc", size - 1: "d"}),
		"another place":         made(t, size, map[int64]string{6: "a", 1<<20 - 1: "bc", size - 1: "d"}),
		"another block":         made(t, size, map[int64]string{5 + 4096: "a", 1<<20 - 1: "bc", size - 1: "d"}),
		"without the last byte": made(t, size, map[int64]string{5: "a", 1<<20 - 1: "bc"}),
		"longer":                made(t, size+1, plain),
		"empty":                 made(t, 0, nil),
		"holes alone":           made(t, size, nil),
	} {
		if sum(t, other) == want {
			t.Errorf("%s: the checksum is the same", name)
		}
	}
}

// Given a file with holes, when it is copied, then the copy has its content and its checksum, and takes no more room;
// one that nobody waits for any more is given up.
func TestACopyHasTheContentAndTheHoles(t *testing.T) {
	const size = 64 << 20
	from := made(t, size, map[int64]string{7: "head", 40<<20 + 3: "middle", size - 4: "tail"})
	to := made(t, 0, nil)
	var read int64
	got, err := sparse.Copy(t.Context(), to, from, func(n int64) { read += n })
	if err != nil || got != sum(t, from) || got != sum(t, to) {
		t.Fatalf("the checksum of the copy is %s and %s, of the file %s: %v", got, sum(t, to), sum(t, from), err)
	}
	a, err := os.ReadFile(from.Name())
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(to.Name())
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("the copy differs: %v", err)
	}
	if read > 1<<20 {
		t.Errorf("%d bytes were read of a file with a few", read)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := sparse.Copy(ctx, made(t, 0, nil), from, nil); !errors.Is(err, enough) {
		t.Errorf("after the end of patience: %v", err)
	}
}
