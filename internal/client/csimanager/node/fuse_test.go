package node_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"berth/internal/base/ids"
	"berth/internal/port/hostfs"
)

// TestOurUnmountOfAFuseMountReleasesNothing: given a volume that a process serves by FUSE, and a plugin that calls its
// unpublishing done and leaves the mount, when the node has unmounted it itself, then the plugin's OK to the unstaging
// is not enough, because the process may still write; it is when that run of the plugin is over.
func TestOurUnmountOfAFuseMountReleasesNothing(t *testing.T) {
	p, v := startForgetful(t)
	served := filepath.Join(p.Dir, "volumes", ids.Segment(v.ID))
	root, err := fs.NewLoopbackRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server, err := fs.Mount(served, root, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	r := newRig(t, p)
	path := r.mount(v, "a")
	if m, _ := mustTable(t).At(path); !strings.HasPrefix(m.FSType, "fuse") {
		t.Fatalf("%s is mounted, no FUSE", m.FSType)
	}
	done := r.releasing(v, "a")
	r.says("which served it, still runs and may write")
	table, err := hostfs.ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	if left := table.Beneath(r.base()); len(left) > 0 {
		t.Errorf("it is still mounted: %v", left)
	}
	select {
	case <-done:
		t.Error("released while the process lives that served it")
	default:
	}
	if len(r.servers.Entries()) == 0 {
		t.Error("the servers believe that nothing is left")
	}
	r.startAnew()
	<-done
	r.atRest()
}
