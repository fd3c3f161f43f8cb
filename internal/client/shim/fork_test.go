package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/cgroup"
)

// forks is how many children the test below forks, and forkers how many goroutines do so at once.
const (
	forks   = 1200
	forkers = 24
)

// A thread that stays in the groups of an alloc keeps them from being removed for as long as the agent runs.
func TestNoThreadOfTheAgentStaysInTheGroupsOfAnAlloc(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("cgroups need root")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // goroutines change their threads most often
	slice := fmt.Sprintf("berth-fork-test-%d.slice", os.Getpid())
	tree, err := cgroup.Discover()
	if err != nil {
		t.Fatal(err)
	}
	l := &Launcher{cfg: Config{Slice: slice, Log: slog.New(slog.DiscardHandler)}, tree: tree}
	t.Cleanup(func() { bringHome(t, l) })
	g, ctx := lifecycle.NewGroup(t.Context())
	for i := range forkers {
		g.Go("fork", func() error { return forkMany(ctx, l, i) })
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	for thread, groups := range threadsIn(t, slice) {
		t.Errorf("thread %s did not find back: it is in %s", thread, groups)
	}
}

// forkMany forks children for allocs of its own, one after another, and removes their groups.
func forkMany(ctx context.Context, l *Launcher, forker int) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	attr := &os.ProcAttr{Files: []*os.File{null, null, null}}
	for i := range forks / forkers {
		alloc := forked(forker, i)
		child, err := l.fork(ctx, alloc, "/bin/true", []string{"true"}, attr)
		if err != nil {
			return err
		}
		if _, err := child.Wait(); err != nil {
			return err
		}
		if err := l.tree.RemoveAlloc(l.cfg.Slice, alloc); err != nil {
			return err
		}
	}
	return nil
}

// threadsIn maps the threads of this process that are in groups of the slice to the groups of each.
func threadsIn(t *testing.T, slice string) map[string]string {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
		if strings.Contains(string(text), slice) {
			out[filepath.Base(filepath.Dir(file))] = string(text)
		}
	}
	return out
}

// bringHome leaves no group of the slice, also when the test failed.
func bringHome(t *testing.T, l *Launcher) {
	for range 10 { // a thread that is not home makes others that are not
		for thread := range threadsIn(t, l.cfg.Slice) {
			for _, point := range l.tree.V1 {
				if err := os.WriteFile(filepath.Join(point, "tasks"), []byte(thread), 0); err != nil {
					t.Log(err) // a hierarchy that does not take it
				}
			}
		}
	}
	for i := range forkers {
		for k := range forks / forkers {
			if err := l.tree.RemoveAlloc(l.cfg.Slice, forked(i, k)); err != nil {
				t.Error(err)
			}
		}
	}
}

// forked names an alloc.
func forked(forker, i int) string { return ids.Segment(fmt.Sprint("alloc ", forker, " ", i)) }
