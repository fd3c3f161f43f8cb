package storage

import (
	"strings"
	"testing"
	"time"

	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/wire"
)

// attachment returns the one that there is of a volume.
func (c *cluster) attachment(name string) (found *volume.Attachment) {
	for a := range c.s.Store().Snapshot().Attachments(nil) {
		if a.Volume == volID(name) {
			found = a
		}
	}
	return found
}

// TestADetachThatIsNotFoundIsVerified: the provider's list decides, not the plugin's word.
func TestADetachThatIsNotFoundIsVerified(t *testing.T) {
	t.Parallel()
	t.Run("gone by the list", func(t *testing.T) {
		t.Parallel()
		c, _, p := one(t, csitest.Fake{}, "(ControllerUnpublish * after-effect NotFound once)")
		c.mustCreate("db", p, volume.SingleNodeWriter)
		c.runJob("web", "db", volume.SingleNodeWriter)
		c.running("web")
		c.stopJob("web")
		c.atRest(p)
		page, err := p.Connect().ListVolumes(t.Context(), csi.ListVolumesRequest{})
		if err != nil || len(page.Entries) != 1 || len(page.Entries[0].NodeIDs) != 0 {
			t.Errorf("at the provider: %+v, %v", page, err)
		}
		if n := count(p, "ControllerUnpublishVolume"); n != 1 {
			t.Errorf("%d calls although the list proved the first one", n)
		}
	})
	t.Run("attached by the list", func(t *testing.T) {
		t.Parallel()
		c, _, p := one(t, csitest.Fake{}, "(ControllerUnpublish * before NotFound)")
		c.mustCreate("db", p, volume.SingleNodeWriter)
		c.runJob("web", "db", volume.SingleNodeWriter)
		c.running("web")
		c.stopJob("web")
		c.staysDetaching(p, "db", `verify: volume "`, `lists it as attached to node "node-a"`)
		p.Rules()
		c.atRest(p)
	})
	for name, caps := range map[string]string{"LIST_VOLUMES": "does not list what its provider has",
		"LIST_VOLUMES_PUBLISHED_NODES": "does not list to which nodes"} {
		t.Run("without "+name, func(t *testing.T) {
			t.Parallel()
			c, _, p := one(t, csitest.Fake{}, "(ControllerGetCapabilities * flip-capability "+name+")",
				"(ControllerUnpublish * before NotFound)")
			c.mustCreate("db", p, volume.SingleNodeWriter)
			c.runJob("web", "db", volume.SingleNodeWriter)
			c.running("web")
			c.stopJob("web")
			c.staysDetaching(p, "db", "verify: ", caps)
			p.Rules("(ControllerGetCapabilities * flip-capability " + name + ")")
			c.atRest(p)
		})
	}
}

// staysDetaching waits for the second failed try, and checks that people can read why, and that the pause grows.
func (c *cluster) staysDetaching(p *csitest.Plugin, name string, words ...string) {
	c.t.Helper()
	var a *volume.Attachment
	eventually(c.t, "the detaching fails twice", func() bool {
		a = c.attachment(name)
		return a != nil && a.Tries >= 2
	})
	if !a.Detaching || !a.Presence.Exists() {
		c.t.Errorf("%+v", a)
	}
	for _, w := range words {
		if !strings.Contains(volume.DescribeAttachment(a), w) {
			c.t.Errorf("%q does not say %q", volume.DescribeAttachment(a), w)
		}
	}
	if pause := time.Until(a.NextTry); pause > time.Minute {
		c.t.Errorf("the next try is in %s", pause)
	}
	if n := count(p, "ControllerUnpublishVolume"); n > a.Tries+1 {
		c.t.Errorf("%d calls in %d tries", n, a.Tries)
	}
}

// TestADeletionThatIsNotFoundIsVerified: the list of volumes decides.
func TestADeletionThatIsNotFoundIsVerified(t *testing.T) {
	t.Parallel()
	t.Run("gone by the list", func(t *testing.T) {
		t.Parallel()
		c, _, p := one(t, csitest.Fake{}, "(DeleteVolume * after-effect NotFound once)")
		c.mustCreate("db", p, volume.SingleNodeWriter)
		if err := c.delete("db", 50*time.Second); err != nil {
			t.Error(err)
		}
		if n := count(p, "DeleteVolume"); n != 1 || c.s.Store().Snapshot().Volume(nil, volID("db")) != nil {
			t.Errorf("%d calls", n)
		}
		c.atRest(p)
	})
	t.Run("there by the list", func(t *testing.T) {
		t.Parallel()
		c, _, p := one(t, csitest.Fake{}, "(DeleteVolume * before NotFound once)")
		c.mustCreate("db", p, volume.SingleNodeWriter)
		if err := c.delete("db", 50*time.Second); err == nil || !strings.Contains(err.Error(), "verify: ") ||
			!strings.Contains(err.Error(), "the provider still lists it") {
			t.Errorf("got %v", err)
		}
		eventually(t, "the deletion is tried again", func() bool {
			return c.s.Store().Snapshot().Volume(nil, volID("db")) == nil
		})
		if n := len(backend(t, p)); n != 0 {
			t.Errorf("%d volumes are left at the provider", n)
		}
		c.atRest(p)
	})
	t.Run("without a list", func(t *testing.T) {
		t.Parallel()
		flip := "(ControllerGetCapabilities * flip-capability LIST_VOLUMES)"
		c, _, p := one(t, csitest.Fake{}, flip, "(DeleteVolume * after-effect NotFound)")
		c.mustCreate("db", p, volume.SingleNodeWriter)
		if err := c.delete("db", 50*time.Second); err == nil ||
			!strings.Contains(err.Error(), "does not list what its provider has") {
			t.Errorf("got %v", err)
		}
		var v *volume.Volume
		eventually(t, "it stays, and is tried again", func() bool {
			v = c.s.Store().Snapshot().Volume(nil, volID("db"))
			return v != nil && v.Status.Tries >= 2
		})
		if v.Status.Phase != volume.PhaseDeleting || time.Until(v.Status.NextTry) > time.Minute {
			t.Errorf("%+v", v.Status)
		}
		p.Rules(flip)
		eventually(t, "the plugin's OK ends it", func() bool {
			return c.s.Store().Snapshot().Volume(nil, volID("db")) == nil
		})
		c.atRest(p)
	})
}

// TestASnapshotsDeletionThatIsNotFoundIsVerified: the list of snapshots decides.
func TestASnapshotsDeletionThatIsNotFoundIsVerified(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]int{"after-effect": 1, "before": 2} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			c, _, p := one(t, csitest.Fake{}, "(DeleteSnapshot * "+when+" NotFound once)")
			c.mustCreate("db", p, volume.SingleNodeWriter)
			r, err := wire.SnapshotCreate.Call(t.Context(), c.conn,
				&wire.SnapshotCreateRequest{Volume: volID("db"), Name: "s", Wait: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			_, err = wire.SnapshotDelete.Call(t.Context(), c.conn,
				&wire.SnapshotDeleteRequest{
					Plugin:     r.Snapshot.Plugin,
					SnapshotID: r.Snapshot.ExternalID,
					Wait:       time.Minute,
				})
			if want == 1 && err != nil ||
				want == 2 && (err == nil || !strings.Contains(err.Error(), "still lists it")) {
				t.Errorf("got %v", err)
			}
			eventually(t, "the snapshot is forgotten", func() bool {
				return c.s.Store().Snapshot().VolumeSnapshot(nil, r.Snapshot.ID) == nil
			})
			if n := count(p, "DeleteSnapshot"); n != want {
				t.Errorf("%d calls, want %d", n, want)
			}
			c.atRest(p)
		})
	}
}
