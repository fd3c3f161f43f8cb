package paths_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"berth/internal/client/host/paths"
	"berth/internal/testkit/mountns"
)

func TestMain(m *testing.M) { mountns.Main(m.Run) }

// hung is a file system that says nothing until it is released.
type hung struct {
	fs.Inode
	released <-chan struct{}
}

func (h *hung) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	<-h.released
	out.Mode = 0o755
	return 0
}

// Given a path on a file system that never answers beside others that do, when all are looked at, then the others are
// reported as they are, the silent one by its path and since when, in the same words as long as it lasts; when it
// answers, it can be used.
func TestAPathThatDoesNotAnswerHoldsUpNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	at, well := t.TempDir(), t.TempDir()
	options := &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}}
	server, err := fs.Mount(at, &hung{released: released}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		release()
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	var p paths.Paths
	begun := time.Now().UTC().Truncate(time.Second)
	first := p.Look(t.Context(), at, well, well+"/none", "relative")
	if first[well] != "" || !strings.Contains(first[well+"/none"], "no such file") ||
		!strings.Contains(first["relative"], "not absolute") {
		t.Errorf("the others: %q", first)
	}
	_, since, found := strings.Cut(first[at], at+" does not answer since ")
	when, err := time.Parse(time.RFC3339, strings.SplitN(since, ": ", 2)[0])
	if !found || err != nil || when.Before(begun) {
		t.Errorf("the silent one: %q, %v", first[at], err)
	}
	if again := p.Look(t.Context(), at, well); again[at] != first[at] || again[well] != "" {
		t.Errorf("looked at again: %q", again)
	}
	release()
	for why := first[at]; why != ""; why = p.Look(t.Context(), at)[at] {
		if why != first[at] {
			t.Fatalf("when it answers: %q", why)
		}
	}
}
