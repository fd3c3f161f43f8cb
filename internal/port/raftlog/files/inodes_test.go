package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// Given a file system on which no file can be made any more, though there is room for data, when the snapshots are
// opened, then the refusal says of what there is none left, and how to look; with one file less they are opened.
func TestAFileSystemWithoutInodesIsSaid(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a small file system is mounted, which takes root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,nr_inodes=20"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	log := hclog.NewNullLogger()
	if _, err := OpenSnapshots(dir, log); err != nil {
		t.Fatal(err)
	}
	var last string
	for n := 0; ; n++ {
		path := filepath.Join(dir, fmt.Sprint(n))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			break
		}
		last = path
	}
	_, err := OpenSnapshots(dir, log)
	if !fault.Has(err, fault.Exhausted) || !strings.Contains(err.Error(), "df -i") {
		t.Errorf("it says %v", err)
	}
	if err := os.Remove(last); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSnapshots(dir, log); err != nil {
		t.Error(err)
	}
}
