package bundled

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/volumestore"
)

// Given volumes on a file system of their own, when something else takes so much of it that they cannot be written
// full, then the log says so once, with the figures and what to do, and again only after there was room in between.
func TestVolumesThatCannotBeWrittenFullAreSaid(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=32m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	var said bytes.Buffer
	p := &Plugin{Dir: dir, Log: slog.New(slog.NewTextHandler(&said, nil))}
	look := func(want ...string) {
		t.Helper()
		said.Reset()
		p.look()
		for _, w := range want {
			if !strings.Contains(said.String(), w) {
				t.Errorf("it does not say %q: %s", w, said.String())
			}
		}
		if len(want) == 0 && said.Len() > 0 {
			t.Errorf("it says %s", said.String())
		}
	}
	look() // there is none
	image := filepath.Join(dir, volumestore.VolumesDir, "a", "image")
	if err := errors.Join(os.MkdirAll(filepath.Dir(image), 0o700), os.WriteFile(image, make([]byte, 4<<20), 0o600),
		os.Truncate(image, 20<<20)); err != nil {
		t.Fatal(err)
	}
	look()
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 20<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	look("level=WARN", `free="8 MiB"`, `may_grow_by="16 MiB"`, "free at least 8 MiB", "mount it on "+dir)
	look()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	look("level=INFO", "can be written full again")
	look()
}
