package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/client/localstate"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/volume"
	"berth/internal/port/kv"
	"berth/internal/wire"
)

// rollBack takes away all that a node's data directory says of its stagings and publications: as it was before they
// were made. The node's agent is stopped.
func (m *member) rollBack() {
	m.c.t.Helper()
	store, err := kv.Open(filepath.Join(m.dir, "client", "client.db"), localstate.Codec)
	if err != nil {
		m.c.t.Fatal(err)
	}
	err = store.Update(func(tx *kv.Tx) error {
		keys := tx.Keys("csi-volumes")
		if len(keys) == 0 {
			m.c.t.Error("there are no records")
		}
		for _, key := range keys {
			if err := tx.Delete("csi-volumes", key); err != nil {
				return err
			}
		}
		return nil
	})
	names, gerr := filepath.Glob(filepath.Join(m.dir, "csi", "*", "*", "*.id"))
	if len(names) == 0 {
		m.c.t.Error("there are no id files")
	}
	for _, name := range names {
		gerr = errors.Join(gerr, os.Remove(name))
	}
	if err := errors.Join(err, store.Close(), gerr); err != nil {
		m.c.t.Fatal(err)
	}
}

// TestADataDirectoryThatWasRolledBackGivesNoVolumeAway: while the node was away its job ended. It comes back with no
// record of what is mounted; that is named by the servers' claims and undone before the volume is free.
func TestADataDirectoryThatWasRolledBackGivesNoVolumeAway(t *testing.T) {
	t.Parallel()
	c, m, p := one(t, csitest.Fake{})
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	c.running("web")
	m.stop()
	p.Mark(proxy.CallerCrashed, proxy.Entry{})
	m.rollBack()
	c.stopJob("web")
	before := len(p.Calls())
	m.start("one")
	c.atRest(p)
	calls := strings.Join(p.Calls()[before:], " ")
	if want := "NodeUnpublishVolume NodeUnstageVolume ControllerUnpublishVolume"; !strings.HasSuffix(calls, want) {
		t.Errorf("called %s, want %s at the end", calls, want)
	}
}

// TestAnUnknownMountHoldsTheClaimsOfItsPlugin: the claim that the node would release stays, and says why; a person's
// word ends that.
func TestAnUnknownMountHoldsTheClaimsOfItsPlugin(t *testing.T) {
	t.Parallel()
	c, m, p := one(t, csitest.Fake{})
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	c.running("web")
	stray := filepath.Join(csimanager.HostBase(m.dir, ids.Plugin(p.ID)), "s", "stray")
	if err := os.MkdirAll(stray, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", stray, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	node := func() *wire.NodeGetReply {
		r, err := wire.NodeGet.Call(t.Context(), c.conn, &wire.Ref[ids.Node]{ID: m.client.ID()})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	eventually(t, "the node says so", func() bool {
		u := node().Unknown
		return len(u) == 1 && u[0].Path == stray && u[0].FSType == "tmpfs"
	})
	c.stopJob("web")
	eventually(t, "it is unstaged", func() bool { return count(p, "NodeUnstageVolume") == 1 })
	eventually(t, "the volume says what it waits for", func() bool {
		r, err := wire.VolumeGet.Call(t.Context(), c.conn,
			&wire.Ref[ids.Volume]{Query: wire.Query{Namespace: ids.DefaultNamespace}, ID: "db"})
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(r.Item.State, "; ")
		return strings.Contains(said, "being released by") && strings.Contains(said, stray) &&
			strings.Contains(said, "berth node unknown-mount forget")
	})
	if err := c.delete("db", 0); !fault.Has(err, fault.Busy) || !strings.Contains(err.Error(), stray) {
		t.Errorf("deleting it: %v", err)
	}
	if n := count(p, "ControllerUnpublishVolume"); n != 0 {
		t.Errorf("detached %d times beside what may be its mount", n)
	}
	forget := &wire.ForgetMountRequest{Node: m.client.ID(), Path: stray, Reason: "mine", By: "me"}
	if _, err := wire.AgentForgetMount.Call(t.Context(), c.conn, forget); err != nil {
		t.Fatal(err)
	}
	c.released()
	if u := node().Unknown; len(u) != 0 {
		t.Errorf("after it was forgotten the node says %+v", u)
	}
	if err := errors.Join(unix.Unmount(stray, 0), os.Remove(stray)); err != nil {
		t.Fatal(err)
	}
	c.atRest(p)
}
