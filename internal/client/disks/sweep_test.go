package disks_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/allocdir"
	"berth/internal/client/disks"
	"berth/internal/testkit/mountns"
)

const (
	small ids.Alloc = "11111111-2222-4333-8444-555555555555"
	other ids.Alloc = "22222222-2222-4333-8444-555555555555"
)

func TestMain(m *testing.M) { mountns.Main(m.Run) }

// node has allocs with directories.
type node struct {
	t       *testing.T
	base    string
	changed lifecycle.Signal
	mu      sync.Mutex
	list    []disks.Disk
	ended   map[ids.Alloc][]string
}

func (n *node) Disks() []disks.Disk {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}

func (n *node) Changed() <-chan struct{} { return n.changed.C() }

func (n *node) DiskExceeded(id ids.Alloc, reason string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended[id] = append(n.ended[id], reason)
}

// Processes are those of this test.
func (n *node) Processes(ids.Alloc) (map[string][]int, error) {
	return map[string][]int{"web": {os.Getpid()}}, nil
}

func (n *node) reasons(id ids.Alloc) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended[id]
}

// run adds an alloc that may take so many bytes.
func (n *node) run(id ids.Alloc, limit int64) allocdir.Dir {
	n.t.Helper()
	d := allocdir.New(n.base, id)
	if err := d.Build(); err != nil {
		n.t.Fatal(err)
	}
	n.mu.Lock()
	n.list = append(n.list, disks.Disk{Alloc: id, Dir: d, Limit: limit})
	n.mu.Unlock()
	n.changed.Notify()
	return d
}

func (n *node) write(d allocdir.Dir, size int) {
	n.t.Helper()
	path := filepath.Join(d.SharedDir(), "data/file")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// sweeping runs a sweep in fake time.
func sweeping(t *testing.T, story func(n *node, s *disks.Sweep)) { sweepingIn(t, t.TempDir(), story) }

func sweepingIn(t *testing.T, base string, story func(n *node, s *disks.Sweep)) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{t: t, base: base, ended: map[ids.Alloc][]string{}}
		s := disks.New(n, n, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		g, gctx := lifecycle.NewGroup(ctx)
		g.Go("sweep", func() error { return s.Run(gctx) })
		story(n, s)
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// settle lets so much time pass that an alloc with few files is measured.
func settle() {
	time.Sleep(10 * time.Second)
	synctest.Wait()
}

// Given an alloc that comes with too much on its disk, then it is left alone while its tasks start, and ended before an
// alloc that rests would be measured again.
func TestAnAllocIsLeftAloneWhileItsTasksStart(t *testing.T) {
	sweeping(t, func(n *node, s *disks.Sweep) {
		n.write(n.run(small, 1<<20), 3<<20)
		time.Sleep(time.Second)
		synctest.Wait()
		if got, measured := s.Of(small); measured {
			t.Errorf("measured while its tasks start: %+v", got)
		}
		time.Sleep(disks.Rest(0) - time.Second)
		synctest.Wait()
		if got := n.reasons(small); len(got) != 1 {
			t.Errorf("ended: %q", got)
		}
	})
}

// Given two allocs, when one takes more than it may, then it alone is ended, with limit, use and place in the reason;
// as long as it takes what it may, nobody is.
func TestAnAllocThatTakesTooMuchIsEnded(t *testing.T) {
	sweeping(t, func(n *node, s *disks.Sweep) {
		d := n.run(small, 1<<20)
		n.write(n.run(other, 4<<20), 2<<20)
		n.write(d, 900<<10)
		settle()
		if got, measured := s.Of(small); !measured || got.Limit != 1<<20 || got.Bytes < 900<<10 {
			t.Errorf("measured %v: %+v", measured, got)
		}
		if got := append(n.reasons(small), n.reasons(other)...); len(got) > 0 {
			t.Fatalf("within the limit: %q", got)
		}
		n.write(d, 3<<20)
		settle()
		got := n.reasons(small)
		if len(got) == 0 || len(n.reasons(other)) > 0 {
			t.Fatalf("ended: %q, and the other %q", got, n.reasons(other))
		}
		for _, want := range []string{"3 MiB", "allows 1 MiB", "in alloc/data"} {
			if !strings.Contains(got[0], want) {
				t.Errorf("%q does not say %q", got[0], want)
			}
		}
	})
}

// Given an alloc within its limit, when a process of its task writes to a file, removes it and keeps it open, then it
// is ended, and the reason says whose file it is; as long as the file has its name, it counts once.
func TestAFileThatWasRemovedAndIsOpenCounts(t *testing.T) {
	sweeping(t, func(n *node, s *disks.Sweep) {
		d := n.run(small, 4<<20)
		f, err := os.Create(filepath.Join(d.SharedDir(), "data/file"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }() // it is gone
		write := func(size int) {
			if _, err := f.Write(make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			settle()
		}
		write(2 << 20)
		if got, _ := s.Of(small); got.Bytes > 3<<20 || len(n.reasons(small)) > 0 {
			t.Fatalf("with its name: %+v, ended %q", got, n.reasons(small))
		}
		if err := os.Remove(f.Name()); err != nil {
			t.Fatal(err)
		}
		settle()
		if got, _ := s.Of(small); got.Bytes < 2<<20 || got.Bytes > 3<<20 || len(n.reasons(small)) > 0 {
			t.Fatalf("without its name: %+v, ended %q", got, n.reasons(small))
		}
		write(10 << 20)
		if got := n.reasons(small); len(got) == 0 ||
			!strings.Contains(got[0], `12 MiB in files that were removed but are open by task "web"`) {
			t.Fatalf("ended: %q", got)
		}
	})
}

// Given a plugin that writes beside its socket, then that counts, too: with what lies in its alloc's directory, and by
// itself where the kernel bounds that.
func TestWhatIsWrittenBesideCounts(t *testing.T) {
	sweeping(t, func(n *node, s *disks.Sweep) {
		beside := n.t.TempDir()
		d := n.run(small, 2<<20)
		n.mu.Lock()
		n.list[0].Beside = map[string]string{"web's socket directory": beside, "nothing": filepath.Join(beside, "none")}
		n.mu.Unlock()
		n.changed.Notify()
		n.write(d, 1<<20)
		settle()
		if got := n.reasons(small); len(got) > 0 {
			t.Fatalf("within the limit: %q", got)
		}
		if err := os.WriteFile(filepath.Join(beside, "junk"), make([]byte, 1500<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		settle()
		got := n.reasons(small)
		if len(got) == 0 || !strings.Contains(got[0], "in web's socket directory") {
			t.Fatalf("ended: %q", got)
		}
		if m, _ := s.Of(small); m.Bytes < 2500<<10 {
			t.Errorf("measured %+v", m)
		}
	})
}

// Given an alloc with a file system of its own, which the kernel bounds, then what that holds ends nobody, and what a
// plugin writes beside its socket does: by its size, and by hiding it.
func TestAFileSystemOfItsOwnDoesNotBoundWhatIsBeside(t *testing.T) {
	for what, write := range map[string]func(t *testing.T, beside string){
		"too much": func(t *testing.T, beside string) {
			if err := os.WriteFile(filepath.Join(beside, "junk"), make([]byte, 11<<20), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"too deep": deep,
	} {
		t.Run(what, func(t *testing.T) {
			base := t.TempDir()
			d := allocdir.New(base, small)
			if err := d.Enclose(t.Context(), 10<<20, true); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := d.Disclose(); err != nil {
					t.Error(err)
				}
			})
			sweepingIn(t, base, func(n *node, s *disks.Sweep) {
				beside := n.t.TempDir()
				n.write(n.run(small, 1<<20), 3<<20) // the group asks for less than the file system has
				n.mu.Lock()
				n.list[0].Limit = 10 << 20
				n.list[0].Beside = map[string]string{"web's socket directory": beside}
				n.mu.Unlock()
				n.changed.Notify()
				settle()
				if got, _ := s.Of(small); !got.Enclosed || got.Bytes < 3<<20 || len(n.reasons(small)) > 0 {
					t.Fatalf("measured %+v, ended %q", got, n.reasons(small))
				}
				write(t, beside)
				settle()
				if len(n.reasons(small)) == 0 {
					t.Error("what is beside counts for nobody")
				}
			})
		})
	}
}

// deep makes directories in each other, deeper than is looked at.
func deep(t *testing.T, path string) {
	t.Helper()
	for range allocdir.Deepest/100 + 1 {
		path = filepath.Join(path, strings.Repeat("d/", 100))
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// A task cannot hide what it takes from being measured.
func TestAnAllocWithDirectoriesTooDeepIsEnded(t *testing.T) {
	sweeping(t, func(n *node, _ *disks.Sweep) {
		d := n.run(small, 1<<30)
		path := filepath.Join(d.SharedDir(), "data")
		for i := range allocdir.Deepest / 100 * 100 {
			if i%100 == 0 && i > 0 {
				if err := os.MkdirAll(path, 0o755); err != nil {
					n.t.Fatal(err)
				}
			}
			path = filepath.Join(path, "d")
		}
		if err := os.MkdirAll(filepath.Join(path, strings.Repeat("d/", 20)), 0o755); err != nil {
			n.t.Fatal(err)
		}
		settle()
		if got := n.reasons(small); len(got) == 0 || !strings.Contains(got[0], "deeper than 512") {
			n.t.Errorf("ended: %q", got)
		}
	})
}

// What a file system of its own takes beyond the limit, such as what is reserved for output, is no excess.
func TestAFileSystemOfItsOwnIsHeldByTheKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	base := t.TempDir()
	d := allocdir.New(base, small)
	if err := d.Enclose(t.Context(), 10<<20, true); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Destroy(); err != nil {
			t.Error(err)
		}
	}()
	sweepingIn(t, base, func(n *node, s *disks.Sweep) {
		n.write(n.run(small, 1<<20), 3<<20)
		settle()
		if got, measured := s.Of(small); !measured || got.Bytes < 3<<20 || len(n.reasons(small)) > 0 {
			t.Errorf("measured %v: %+v, ended %q", measured, got, n.reasons(small))
		}
	})
}

// What has ended is measured no more a moment later, and what it took is forgotten.
func TestAnAllocThatEndedIsForgotten(t *testing.T) {
	sweeping(t, func(n *node, s *disks.Sweep) {
		d := n.run(small, 1<<20)
		settle()
		n.mu.Lock()
		n.list = nil
		n.mu.Unlock()
		n.changed.Notify()
		time.Sleep(time.Second) // ends are taken up twice a second
		n.write(d, 3<<20)
		settle()
		if _, known := s.Of(small); known || len(n.reasons(small)) > 0 {
			t.Errorf("known %v, ended %q", known, n.reasons(small))
		}
	})
}

func TestManyFilesAreMeasuredSeldom(t *testing.T) {
	for entries, want := range map[int]time.Duration{
		0: 5 * time.Second, 10_000: 15 * time.Second, 100_000: 105 * time.Second, 10_000_000: 5 * time.Minute,
	} {
		if got := disks.Rest(entries); got != want {
			t.Errorf("%d files rest %s, want %s", entries, got, want)
		}
	}
}
