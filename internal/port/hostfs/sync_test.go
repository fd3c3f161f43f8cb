package hostfs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestAFileIsOnDiskBeforeItHasItsName: whoever loses power in the middle has the old file or the new one, whole; and
// when the write has ended, the new one.
func TestAFileIsOnDiskBeforeItHasItsName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	var synced []string
	fsync = func(f *os.File) error {
		now, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		written := ""
		if f.Name() != filepath.Dir(path) {
			b, err := os.ReadFile(f.Name())
			if err != nil {
				t.Error(err)
			}
			written = ": " + string(b)
		}
		synced = append(synced, filepath.Base(f.Name())+written+", the file is "+string(now))
		return f.Sync()
	}
	t.Cleanup(func() { fsync = (*os.File).Sync })
	if err := WriteFileSync(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{"f.tmp: new, the file is old", filepath.Base(filepath.Dir(path)) + ", the file is new"}
	if !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
}
