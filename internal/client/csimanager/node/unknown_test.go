package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// forget lets an agent run end and takes away all by which the next one could know what is mounted: the store and the
// id files, as when a data directory is rolled back; or it damages both.
func (r *rig) forget(damaged bool, gone ...ids.Alloc) {
	r.t.Helper()
	eventually(r.t, "the start is written", func() bool { return !r.keeper.Dirty() })
	if damaged {
		damage(r.t.(*testing.T), r)
	}
	r.kill()
	r.p.Mark(proxy.CallerCrashed, proxy.Entry{})
	r.gate.set(func(g *gate) {
		for _, id := range gone {
			g.unknown[id] = true
		}
	})
	var err error
	if !damaged {
		err = os.Remove(filepath.Join(r.dir, "kv"))
	}
	for _, pattern := range []string{"s/*.id", "p/*.id"} {
		names, gerr := filepath.Glob(filepath.Join(r.base(), pattern))
		err = errors.Join(err, gerr)
		for _, name := range names {
			if damaged {
				err = errors.Join(err, os.WriteFile(name, []byte("no id file"), 0o600))
			} else {
				err = errors.Join(err, os.Remove(name))
			}
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.open()
	if !damaged {
		r.declare(0)
	}
}

// claimOf is the servers' claim of an alloc's use.
func claimOf(r *rig, v csi.Volume, alloc ids.Alloc) volume.Claim {
	g := requestOf(r.p, use(v, string(alloc)))
	return volume.Claim{
		Volume:     g.Volume,
		Plugin:     g.Key.Plugin,
		ExternalID: g.Key.ExternalID,
		Alloc:      alloc,
		Epoch:      g.Epoch,
		AccessMode: g.AccessMode,
		State:      volume.Releasing,

		AttachmentMode: g.AttachmentMode,
	}
}

// TestAMountWithoutRecordIsNamedByItsPathAndUndone: record and id file are gone, or both are damaged; what is mounted
// is found by the claims of the node, by the hash in its path, and goes the ordinary way.
func TestAMountWithoutRecordIsNamedByItsPathAndUndone(t *testing.T) {
	for name, damaged := range map[string]bool{"gone": false, "damaged": true} {
		t.Run(name, func(t *testing.T) {
			p, v := startPlugin(t)
			r := newRig(t, p)
			r.mount(v, "a")
			r.servers.Claims(claimOf(r, v, "a"))
			r.forget(damaged, "a")
			r.atRest()
			if got := r.servers.Unknown(); len(got) > 0 {
				t.Errorf("%+v is said to be unknown", got)
			}
			calls := strings.Join(p.Calls(), " ")
			if want := "NodeUnpublishVolume NodeUnstageVolume"; !strings.HasSuffix(calls, want) {
				t.Errorf("calls: %s", calls)
			}
		})
	}
}

// TestAMountWithoutRecordIsKeptByWhoAsksForItAgain: the alloc goes on, with what is mounted.
func TestAMountWithoutRecordIsKeptByWhoAsksForItAgain(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	path := r.mount(v, "a")
	if err := os.WriteFile(filepath.Join(path, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := claimOf(r, v, "a")
	c.State = volume.Held
	r.servers.Claims(c)
	r.gate.set(func(g *gate) { g.live["a"] = true })
	r.forget(false)
	if again := r.mount(v, "a"); again != path {
		t.Errorf("it was at %s, and is at %s", path, again)
	}
	if calls := strings.Join(p.Calls(), " "); strings.Contains(calls, "Unpublish") {
		t.Errorf("undone under a process: %s", calls)
	}
	r.gate.set(func(g *gate) { delete(g.live, "a") })
	r.unmount(v, "a")
	r.atRest()
}

// TestAMountThatNobodyNamesHoldsItsPluginsVolumes: it is reported, nothing is unstaged beside it, and it ends by its
// disappearance or by a person's word, which holds for that mount alone.
func TestAMountThatNobodyNamesHoldsItsPluginsVolumes(t *testing.T) {
	for name, end := range map[string]func(*rig, string) error{
		"unmounted": func(_ *rig, path string) error { return unix.Unmount(path, 0) },
		"forgotten": func(r *rig, path string) error { return r.keeper.ForgetMount(path, "mine", "me") },
	} {
		t.Run(name, func(t *testing.T) {
			p, v := startPlugin(t)
			r := newRig(t, p)
			stray := filepath.Join(r.base(), "p", "abc", "m")
			if err := os.MkdirAll(stray, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("tmpfs", stray, "tmpfs", 0, "size=64k"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is reported", func() bool {
				u := r.servers.Unknown()
				return len(u) == 1 && u[0].Path == stray && u[0].FSType == "tmpfs" && u[0].Of(ids.Plugin(p.ID))
			})
			r.mount(v, "a")
			r.refusedWith(v, "a", string(entry.WaitUnknown))
			if calls := strings.Join(p.Calls(), " "); strings.Contains(calls, "Unstage") {
				t.Errorf("unstaged beside what may be a publication: %s", calls)
			}
			if err := r.keeper.ForgetMount(stray+"x", "mine", "me"); !fault.Has(err, fault.NotFound) {
				t.Errorf("forgetting what is not there: %v", err)
			}
			if err := end(r, stray); err != nil {
				t.Fatal(err)
			}
			r.unmount(v, "a")
			eventually(t, "it is reported no more", func() bool { return len(r.servers.Unknown()) == 0 })
			if name == "forgotten" {
				r.kill()
				r.open()
				if err := r.keeper.ForgetMount(stray, "mine", "me"); !fault.Has(err, fault.NotFound) {
					t.Errorf("the word of a person does not outlive the agent: %v", err)
				}
				err := errors.Join(unix.Unmount(stray, 0), unix.Mount("tmpfs", stray, "tmpfs", 0, "size=64k"))
				if err != nil {
					t.Fatal(err)
				}
				eventually(t, "another mount there is reported", func() bool { return len(r.servers.Unknown()) == 1 })
				if err := unix.Unmount(stray, 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.RemoveAll(filepath.Dir(stray)); err != nil {
				t.Error(err)
			}
			r.atRest()
		})
	}
}
