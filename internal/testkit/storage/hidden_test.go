package storage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

const secretOfID = "S3CR3T-of-db"

// hidden makes a volume of a plugin that makes ids out of secrets. Nobody may see these.
func hidden(t *testing.T, secrets ...string) (*cluster, *csitest.Plugin) {
	t.Helper()
	c, _, p := one(t, csitest.Fake{Defects: map[string]csitest.Defect{"CreateVolume": csitest.DefectSecretID}})
	p.Tell(func(f *oracle.Facts) { f.Secrets = oracle.Feed(secrets...) })
	_, err := wire.VolumeCreate.Call(t.Context(), c.conn, &wire.VolumeWriteRequest{
		Volume:  volID("db"),
		Spec:    specOf(p, volume.SingleNodeWriter),
		Secrets: wire.Secrets{Values: map[string]string{"password": secretOfID}},
		Wait:    time.Minute,
	})
	if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "holds the value of a secret") ||
		strings.Contains(err.Error(), secretOfID) {
		t.Fatalf("the creation is answered with %v", err)
	}
	v := c.s.Store().Snapshot().Volume(nil, volID("db"))
	if v == nil || v.Status.Phase != volume.PhaseConflict || v.Status.ExternalID != "" ||
		strings.Contains(fmt.Sprintf("%+v", v), secretOfID) {
		t.Fatalf("the record is %+v", v)
	}
	if n := len(kept(t, p, "volumes")); n != 1 {
		t.Fatalf("the provider has %d volumes", n)
	}
	return c, p
}

// Given a plugin that makes ids of snapshots out of secrets, when one is cut, then whoever asked for it gets an error,
// nothing shows the secret, and the provider has none.
func TestASnapshotWhoseIDHoldsASecretIsDeletedAtOnce(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{Defects: map[string]csitest.Defect{"CreateSnapshot": csitest.DefectSecretID}})
	p.Tell(func(f *oracle.Facts) { f.Secrets = oracle.Feed(secretOfID) })
	c.mustCreate("db", p, volume.SingleNodeWriter)
	_, err := wire.SnapshotCreate.Call(t.Context(), c.conn, &wire.SnapshotCreateRequest{
		Volume:  volID("db"),
		Name:    "cut",
		Secrets: wire.Secrets{Values: map[string]string{"password": secretOfID}},
		Wait:    time.Minute,
	})
	if err == nil || strings.Contains(err.Error(), secretOfID) {
		t.Fatalf("the snapshot is answered with %v", err)
	}
	eventually(t, "it is deleted", func() bool {
		for range c.s.Store().Snapshot().VolumeSnapshots(nil) {
			return false
		}
		return true
	})
	if n := len(kept(t, p, "snapshots")); n != 0 || count(p, "DeleteSnapshot") != 1 {
		t.Errorf("the provider has %d snapshots, after the calls %v", n, p.Calls())
	}
	c.atRest(p)
}

func (c *cluster) remove(name string, secrets map[string]string, wait time.Duration) error {
	_, err := wire.VolumeDelete.Call(c.t.Context(), c.conn,
		&wire.VolumeDeleteRequest{Volume: volID(name), Secrets: wire.Secrets{Values: secrets}, Wait: wait})
	return err
}

// Given a plugin that makes ids out of secrets, when a volume was made, then nobody is given it and nothing shows the
// secret; a person deletes it, at the provider too, but not with other secrets.
func TestAVolumeWhoseIDHoldsASecretIsDeletedAtItsProvider(t *testing.T) {
	t.Parallel()
	c, p := hidden(t, secretOfID)
	err := c.remove("db", map[string]string{"password": "another-secret"}, 0)
	if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "without them it is not known which it is") {
		t.Errorf("with other secrets: %v", err)
	}
	if err := c.remove("db", nil, time.Minute); err != nil {
		t.Error(err)
	}
	if n := len(kept(t, p, "volumes")); n != 0 {
		t.Errorf("the provider has %d volumes, after the calls %v", n, p.Calls())
	}
	c.atRest(p)
}

// Given a person who has read the id of such a volume at the provider and registered it, when its first record is
// deleted, then the volume is not, until it is nobody else's.
func TestAVolumeIsNotDeletedByARecordThatHidesItsID(t *testing.T) {
	t.Parallel()
	c, p := hidden(t, "none: a person has typed it")
	if _, err := wire.VolumeRegister.Call(t.Context(), c.conn, &wire.VolumeWriteRequest{
		Volume:     volID("found"),
		Spec:       specOf(p, volume.SingleNodeWriter),
		ExternalID: p.Provider()[0].ID,
	}); err != nil {
		t.Fatal(err)
	}
	err := c.remove("db", nil, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "is registered as volume default/found") {
		t.Errorf("while it is registered as another: %v", err)
	}
	if n := len(kept(t, p, "volumes")); n != 1 || count(p, "DeleteVolume") != 0 {
		t.Fatalf("the provider has %d volumes, after the calls %v", n, p.Calls())
	}
	if _, err := wire.VolumeDeregister.Call(t.Context(), c.conn,
		&wire.VolumeDeleteRequest{Volume: volID("found")}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is deleted", func() bool {
		return c.s.Store().Snapshot().Volume(nil, volID("db")) == nil
	})
	if n := len(kept(t, p, "volumes")); n != 0 {
		t.Errorf("the provider has %d volumes", n)
	}
	c.atRest(p)
}
