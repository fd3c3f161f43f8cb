package allochooks_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/allochooks"
	"berth/internal/client/csimanager"
	"berth/internal/client/hook"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/port/driver"
	"berth/internal/port/users"
)

// directories are volumes that are directories of the test's.
type directories struct {
	mounter
	dir   string
	users []ids.Alloc
	block bool
}

func (d *directories) MountVolume(_ context.Context, r csimanager.MountRequest) (csimanager.MountInfo, error) {
	return csimanager.MountInfo{Alias: r.Alias, Key: r.Key, Source: d.dir, Block: d.block}, nil
}

func (d *directories) Published() []csimanager.PublishedVolume {
	users := map[ids.Alloc]string{}
	for _, id := range d.users {
		users[id] = "db"
	}
	return []csimanager.PublishedVolume{
		{Key: volume.StagingKey{Plugin: "p", ExternalID: "another"}, Users: map[ids.Alloc]string{"living": "x"}},
		{Key: keyOf("db").StagingKey, Users: users},
	}
}

// gate knows the allocs that have living processes.
type gate struct {
	csimanager.ProcessGate
	living []ids.Alloc
}

func (g *gate) ProcessesGone(id ids.Alloc) (bool, string) {
	return false, "nothing is proven of " + string(id)
}
func (g *gate) ProcessesIdle(id ids.Alloc) bool { return !slices.Contains(g.living, id) }

// given runs the hook for an alloc whose task web uses volume db, and tells whom the directory belongs to then.
func given(t *testing.T, change func(*hook.Alloc, *csimanager.MountRequest, *directories, *gate)) (owner string) {
	t.Helper()
	m, g := &directories{dir: t.TempDir(), users: []ids.Alloc{"a1"}}, &gate{living: []ids.Alloc{"living"}}
	h := &allochooks.CSI{Mounter: m, Uses: m, Processes: g}
	own(t, h, m, g, "a1", change)
	return ownerOf(t, m.dir)
}

func own(t *testing.T, h *allochooks.CSI, m *directories, g *gate, id ids.Alloc,
	change func(*hook.Alloc, *csimanager.MountRequest, *directories, *gate)) {
	t.Helper()
	a := allocWith("db")
	a.Alloc.Alloc.ID = id
	a.Group.Tasks[1].User = "4321:8765"
	req := csimanager.MountRequest{Alias: "db", Key: keyOf("db"), AccessMode: volume.SingleNodeWriter}
	req.Key.Alloc = id
	change(a.Alloc, &req, m, g)
	h.Grants = &servers{answers: []func() (*csimanager.Grants, error){func() (*csimanager.Grants, error) {
		return &csimanager.Grants{Ready: true, Mounts: []csimanager.MountRequest{req}}, nil
	}}}
	if err := h.Prerun(t.Context(), a.Alloc); err != nil {
		t.Fatal(err)
	}
}

func ownerOf(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}

func needRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
}

// TestToWhomAFreshVolumeIsGiven: the first task's user that writes to it, and what the volume says wins.
func TestToWhomAFreshVolumeIsGiven(t *testing.T) {
	needRoot(t)
	number := func(n int) *int { return &n }
	for name, c := range map[string]struct {
		want   string
		change func(*hook.Alloc, *csimanager.MountRequest, *directories, *gate)
	}{
		"the task's user": {"4321:8765", func(*hook.Alloc, *csimanager.MountRequest, *directories, *gate) {}},
		"the driver's default": {"4444:5555", func(a *hook.Alloc, _ *csimanager.MountRequest, _ *directories, _ *gate) {
			a.Group.Tasks[1].User = ""
			a.Driver = func(string) (driver.Info, error) {
				return driver.Info{Users: users.Policy{Default: "4444:5555"}}, nil
			}
		}},
		"the agent's own user": {"0:0", func(a *hook.Alloc, _ *csimanager.MountRequest, _ *directories, _ *gate) {
			a.Group.Tasks[1].User = ""
		}},
		"a task before it reads only": {"4321:8765",
			func(a *hook.Alloc, _ *csimanager.MountRequest, _ *directories, _ *gate) {
				a.Group.Tasks[0].User = "1:1"
				a.Group.Tasks[0].VolumeMounts = []*job.VolumeMount{{Volume: "db", ReadOnly: true}}
			}},
		"all tasks read only": {"0:0", func(a *hook.Alloc, _ *csimanager.MountRequest, _ *directories, _ *gate) {
			a.Group.Tasks[1].VolumeMounts[0].ReadOnly = true
		}},
		"a claim that reads": {"0:0", func(_ *hook.Alloc, r *csimanager.MountRequest, _ *directories, _ *gate) {
			r.ReadOnly = true
		}},
		"an access mode that reads": {"0:0", func(_ *hook.Alloc, r *csimanager.MountRequest, _ *directories, _ *gate) {
			r.AccessMode = volume.MultiNodeReader
		}},
		"a block device": {"0:0", func(_ *hook.Alloc, _ *csimanager.MountRequest, d *directories, _ *gate) {
			d.block = true
		}},
		"none": {"0:0", func(_ *hook.Alloc, r *csimanager.MountRequest, _ *directories, _ *gate) {
			r.Ownership = &volume.Ownership{Policy: volume.OwnNothing, UID: number(1)}
		}},
		"an owner of its own": {"7:8", func(_ *hook.Alloc, r *csimanager.MountRequest, _ *directories, _ *gate) {
			r.Ownership = &volume.Ownership{Policy: volume.OwnRoot, UID: number(7), GID: number(8)}
		}},
		"a group of its own": {"4321:8", func(_ *hook.Alloc, r *csimanager.MountRequest, _ *directories, _ *gate) {
			r.Ownership = &volume.Ownership{Policy: volume.OwnRoot, GID: number(8)}
		}},
		"a group that the plugin gives": {"4321:0",
			func(_ *hook.Alloc, r *csimanager.MountRequest, _ *directories, _ *gate) {
				r.Ownership = &volume.Ownership{Policy: volume.OwnRoot, GID: number(8)}
				r.MountGroup = "8"
			}},
		"used on another node": {"0:0", func(_ *hook.Alloc, r *csimanager.MountRequest, _ *directories, _ *gate) {
			r.Ownership = &volume.Ownership{Policy: volume.OwnRoot}
			r.Shared = true
		}},
		"tasks of an earlier run of the agent": {"0:0",
			func(_ *hook.Alloc, r *csimanager.MountRequest, _ *directories, g *gate) {
				r.Ownership = &volume.Ownership{Policy: volume.OwnRoot}
				g.living = []ids.Alloc{"a1"}
			}},
		"tasks of an earlier run, whose user is gone": {"0:0",
			func(a *hook.Alloc, _ *csimanager.MountRequest, _ *directories, g *gate) {
				a.Group.Tasks[1].User = "no-such-user"
				g.living = []ids.Alloc{"a1"}
			}},
		"tasks of another alloc": {"0:0", func(_ *hook.Alloc, r *csimanager.MountRequest, d *directories, g *gate) {
			r.Ownership = &volume.Ownership{Policy: volume.OwnRoot}
			d.users, g.living = append(d.users, "a2"), []ids.Alloc{"a2"}
		}},
		"another alloc that has not begun": {"4321:8765",
			func(_ *hook.Alloc, _ *csimanager.MountRequest, d *directories, _ *gate) {
				d.users = append(d.users, "a2")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := given(t, c.change); got != c.want {
				t.Errorf("it belongs to %s, want %s", got, c.want)
			}
		})
	}
}

// Given an alloc whose volume was given to it and whose tasks may start at any moment, when another alloc of another
// user comes to share the volume, then it stays as it is; once the first has ended, the next one is given it.
func TestASecondSharerTakesNothingFromTheFirst(t *testing.T) {
	needRoot(t)
	m, g := &directories{dir: t.TempDir()}, &gate{living: []ids.Alloc{"living"}}
	h := &allochooks.CSI{Mounter: m, Uses: m, Processes: g}
	as := func(user string) func(*hook.Alloc, *csimanager.MountRequest, *directories, *gate) {
		return func(a *hook.Alloc, r *csimanager.MountRequest, _ *directories, _ *gate) {
			a.Group.Tasks[1].User = user
			r.Ownership = &volume.Ownership{Policy: volume.OwnAllIfRootDiffers}
		}
	}
	own(t, h, m, g, "a1", as("1:1"))
	own(t, h, m, g, "a2", as("2:2"))
	if got := ownerOf(t, m.dir); got != "1:1" {
		t.Fatalf("beside the first it belongs to %s", got)
	}
	for _, id := range []ids.Alloc{"a1", "a2"} {
		a := allocWith("db")
		a.Alloc.Alloc.ID = id
		key := keyOf("db")
		key.Alloc = id
		m.known = []volume.PublicationKey{key}
		if err := h.Postrun(t.Context(), a.Alloc); err != nil {
			t.Fatal(err)
		}
	}
	own(t, h, m, g, "a3", as("3:3"))
	if got := ownerOf(t, m.dir); got != "3:3" {
		t.Errorf("after their end it belongs to %s", got)
	}
}

// TestAnOwnerThatTheNodeDoesNotKnowIsRefused: before the task is.
func TestAnOwnerThatTheNodeDoesNotKnowIsRefused(t *testing.T) {
	m, a := &directories{dir: t.TempDir()}, allocWith("db")
	a.Group.Tasks[1].User = "no-such-user"
	err := (&allochooks.CSI{Grants: &servers{answers: []func() (*csimanager.Grants, error){grants("db")}}, Mounter: m,
		Uses: m, Processes: &gate{}}).Prerun(t.Context(), a.Alloc)
	if !fault.Has(err, fault.Invalid) {
		t.Errorf("it says %v", err)
	}
}

// TestAVolumeThatDiesWhileItIsGivenIsWaitedFor: given a file system that takes no owner because it is dead, then no
// task starts on it without its owner: the alloc waits until it is mounted anew.
func TestAVolumeThatDiesWhileItIsGivenIsWaitedFor(t *testing.T) {
	needRoot(t)
	m := &directories{dir: t.TempDir()}
	if err := unix.Mount("tmpfs", m.dir, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(m.dir, 0); err != nil {
			t.Error(err)
		}
	})
	m.mounter.dead = fault.New(fault.NotReady, "use", "db", "its file system has become read-only")
	h := &allochooks.CSI{Mounter: m, Uses: m, Processes: &gate{}}
	a := allocWith("db")
	a.Group.Tasks[1].User = "4321:8765"
	h.Grants = &servers{answers: []func() (*csimanager.Grants, error){grants("db"), grants("db")}}
	if err := h.Prerun(t.Context(), a.Alloc); !fault.Has(err, fault.NotReady) {
		t.Errorf("on a dead file system: %v", err)
	}
	m.mounter.dead = nil // one that is read-only and lives, as nobody asked for an owner
	if err := h.Prerun(t.Context(), a.Alloc); err != nil {
		t.Errorf("on one that lives: %v", err)
	}
}
