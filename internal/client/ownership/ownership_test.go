package ownership_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/client/ownership"
	"berth/internal/model/volume"
	"berth/internal/testkit/mountns"
)

func TestMain(m *testing.M) { mountns.Main(m.Run) }

// mounted is a file system of its own, with a victim beside it that links in it lead to.
type mounted struct {
	*testing.T
	dir, victim string
}

func mount(t *testing.T) *mounted {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount and give files away")
	}
	m := &mounted{T: t, dir: filepath.Join(t.TempDir(), "volume"), victim: filepath.Join(t.TempDir(), "victim")}
	m.must(os.Mkdir(m.dir, 0o755))
	m.must(os.Mkdir(m.victim, 0o755))
	m.must(os.WriteFile(filepath.Join(m.victim, "f"), nil, 0o600))
	m.on(m.dir)
	return m
}

func (m *mounted) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *mounted) on(dir string) {
	m.Helper()
	m.must(unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755,size=1m"))
	m.Cleanup(func() { m.must(unix.Unmount(dir, 0)) })
}

func (m *mounted) path(name string) string { return filepath.Join(m.dir, name) }

// fill makes files, a deep tree, links that lead out, and another file system.
func (m *mounted) fill() {
	m.Helper()
	m.must(os.Mkdir(m.path("lost+found"), 0o700))
	m.must(os.MkdirAll(m.path("a/b/c"), 0o755))
	m.must(os.MkdirAll(m.path("a/lost+found"), 0o755))
	m.must(os.WriteFile(m.path("a/b/c/f"), nil, 0o600))
	m.must(os.WriteFile(m.path("f"), nil, 0o600))
	m.must(os.Symlink(m.victim, m.path("a/dir")))
	m.must(os.Symlink(filepath.Join(m.victim, "f"), m.path("file")))
	m.must(os.Symlink("nowhere", m.path("dangling")))
	m.must(os.Mkdir(m.path("other"), 0o755))
	m.on(m.path("other"))
	m.must(os.WriteFile(m.path("other/f"), nil, 0o600))
}

// owners lists who has what, in short: everything beneath the volume, by lstat.
func (m *mounted) owner(path string) string {
	m.Helper()
	info, err := os.Lstat(path)
	m.must(err)
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}

func (m *mounted) give(want ownership.Want) (walked bool) {
	m.Helper()
	m.must(ownership.Give(m.Context(), m.dir, want, func() { walked = true }))
	return walked
}

var app = ownership.Want{UID: 4321, GID: 8765, Mode: -1}

func with(p volume.OwnershipPolicy) ownership.Want {
	w := app
	w.Policy = p
	return w
}

func TestAFreshFileSystemIsGivenAndNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*mounted)
		given  bool
	}{
		"empty":               {func(*mounted) {}, true},
		"with lost and found": {func(m *mounted) { m.must(os.Mkdir(m.path("lost+found"), 0o700)) }, true},
		"with a file":         {func(m *mounted) { m.must(os.WriteFile(m.path("f"), nil, 0o600)) }, false},
		"with both": {func(m *mounted) {
			m.must(os.Mkdir(m.path("lost+found"), 0o700))
			m.must(os.WriteFile(m.path("f"), nil, 0o600))
		}, false},
		"another user's":  {func(m *mounted) { m.must(os.Chown(m.dir, 7, 0)) }, false},
		"another group's": {func(m *mounted) { m.must(os.Chown(m.dir, 0, 7)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := mount(t)
			c.before(m)
			before := m.owner(m.dir)
			m.give(with(volume.OwnFresh))
			if got := m.owner(m.dir); (got == "4321:8765") != c.given || !c.given && got != before {
				t.Errorf("its root belongs to %s", got)
			}
		})
	}
}

func TestWhatEachPolicyGives(t *testing.T) {
	everything := []string{"a", "a/b", "a/b/c", "a/b/c/f", "a/lost+found", "f", "a/dir", "file", "dangling"}
	for policy, want := range map[volume.OwnershipPolicy]struct{ root, below string }{
		volume.OwnNothing:          {"0:0", "0:0"},
		volume.OwnRoot:             {"4321:8765", "0:0"},
		volume.OwnAllIfRootDiffers: {"4321:8765", "4321:8765"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			m := mount(t)
			m.fill()
			w := with(policy)
			w.Mode = 0o2770
			if walked := m.give(w); walked != (policy == volume.OwnAllIfRootDiffers) {
				t.Errorf("that all files were walked through is %v", walked)
			}
			if got := m.owner(m.dir); got != want.root {
				t.Errorf("the root belongs to %s", got)
			}
			info, err := os.Stat(m.dir)
			m.must(err)
			if given := info.Mode() == os.ModeDir|os.ModeSetgid|0o770; given != (policy != volume.OwnNothing) {
				t.Errorf("the root's mode is %v", info.Mode())
			}
			for _, name := range everything {
				if got := m.owner(m.path(name)); got != want.below {
					t.Errorf("%s belongs to %s", name, got)
				}
			}
			for _, path := range []string{m.path("other"), m.path("other/f"), m.path("lost+found"), m.victim,
				filepath.Join(m.victim, "f")} {
				if got := m.owner(path); got != "0:0" {
					t.Errorf("%s belongs to %s", path, got)
				}
			}
			if m.give(w) {
				t.Error("a root that is right was walked through again")
			}
		})
	}
}

// Given a walk that was cut off, when the volume is given again, then it goes on: the root is not right before all is.
func TestAWalkThatIsCutOffGoesOn(t *testing.T) {
	m := mount(t)
	m.fill()
	ctx, cancel := context.WithCancel(t.Context())
	err := ownership.Give(ctx, m.dir, with(volume.OwnAllIfRootDiffers), cancel)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("it was not cut off: %v", err)
	}
	if got := m.owner(m.dir); got != "0:0" {
		t.Fatalf("the root belongs to %s already", got)
	}
	// What a walk that died half-way leaves.
	m.must(os.Lchown(m.path("f"), 4321, 8765))
	if !m.give(with(volume.OwnAllIfRootDiffers)) || m.owner(m.path("a/b/c/f")) != "4321:8765" ||
		m.owner(m.dir) != "4321:8765" {
		t.Errorf("the root belongs to %s, a file below to %s", m.owner(m.dir), m.owner(m.path("a/b/c/f")))
	}
}

// Given a volume that belongs to whom it shall already, when it is given with a mode or without, then its root has that
// mode, or the one it had.
func TestTheModeOfARootIsGivenWhereItIsAskedFor(t *testing.T) {
	for _, policy := range []volume.OwnershipPolicy{volume.OwnRoot, volume.OwnAllIfRootDiffers} {
		for _, owned := range []bool{false, true} {
			m := mount(t)
			m.must(os.Chmod(m.dir, 0o751))
			if owned {
				m.must(os.Chown(m.dir, app.UID, app.GID))
			}
			for _, c := range []struct {
				want int
				mode os.FileMode
			}{{-1, 0o751}, {0o700, 0o700}, {0, 0}, {-1, 0}} {
				w := with(policy)
				w.Mode = c.want
				m.give(w)
				info, err := os.Stat(m.dir)
				m.must(err)
				if info.Mode() != os.ModeDir|c.mode || m.owner(m.dir) != "4321:8765" {
					t.Errorf("%s, right before: %t, asked for %o: %v of %s", policy, owned, c.want, info.Mode(),
						m.owner(m.dir))
				}
			}
		}
	}
}

// Given a volume on a disk of which nothing is written that nobody asks for, when it was given and the power fails,
// then everything in it is given, as a root that is right says, and so is the root.
func TestWhatWasGivenIsOnDiskBeforeTheRoot(t *testing.T) {
	d := lasting(t)
	d.must(os.MkdirAll(d.path("a/b"), 0o755))
	d.must(os.WriteFile(d.path("a/b/f"), nil, 0o600))
	d.run("sync", "-f", d.dir)
	d.give(with(volume.OwnAllIfRootDiffers))
	d.afterLoss(".", "a", "a/b", "a/b/f")
}

// Given a file system that was made just now, when it was given to its first user and the power fails, then its root is
// that user's: nobody gives it again to a task that has started.
func TestARootThatWasGivenIsOnDisk(t *testing.T) {
	for _, policy := range []volume.OwnershipPolicy{volume.OwnFresh, volume.OwnRoot} {
		t.Run(string(policy), func(t *testing.T) {
			d := lasting(t)
			d.give(with(policy))
			d.afterLoss(".")
		})
	}
	t.Run("by an earlier try", func(t *testing.T) {
		d := lasting(t)
		d.must(os.Chown(d.dir, app.UID, app.GID))
		d.give(with(volume.OwnFresh))
		d.afterLoss(".")
	})
}

// onDisk is a file system on a disk, which writes nothing by itself for a long time.
type onDisk struct {
	*mounted
	disk string
}

func lasting(t *testing.T) *onDisk {
	t.Helper()
	d := &onDisk{mounted: mount(t), disk: filepath.Join(t.TempDir(), "disk")}
	d.must(os.WriteFile(d.disk, nil, 0o600))
	d.must(os.Truncate(d.disk, 16<<20))
	d.run("mkfs.ext4", "-q", d.disk)
	d.attach(d.disk, d.dir)
	return d
}

func (d *onDisk) attach(image, dir string) {
	d.Helper()
	d.run("mount", "-o", "loop,commit=300", image, dir)
	d.Cleanup(func() { d.must(unix.Unmount(dir, 0)) })
}

// afterLoss mounts what the disk has at this moment, and says what of it does not belong to whom it was given.
func (d *onDisk) afterLoss(names ...string) {
	d.Helper()
	copied, after := filepath.Join(d.TempDir(), "copied"), filepath.Join(d.TempDir(), "after")
	d.run("cp", "--sparse=always", d.disk, copied)
	d.must(os.Mkdir(after, 0o755))
	d.attach(copied, after)
	for _, name := range names {
		if got := d.owner(filepath.Join(after, name)); got != "4321:8765" {
			d.Errorf("%s belongs to %s after the power failed", name, got)
		}
	}
}

func (m *mounted) run(name string, args ...string) {
	m.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		m.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

func TestAFileSystemThatRefusesIsNamedWithTheWayOut(t *testing.T) {
	m := mount(t)
	m.must(unix.Mount("", m.dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	for _, policy := range []volume.OwnershipPolicy{volume.OwnFresh, volume.OwnRoot, volume.OwnAllIfRootDiffers} {
		err := ownership.Give(t.Context(), m.dir, with(policy), func() {})
		if !fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), m.dir) ||
			!strings.Contains(err.Error(), `policy = "none"`) {
			t.Errorf("%s: %v", policy, err)
		}
	}
}
