package storage

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// adopt has a volume at the provider that the cluster does not know, and registers it.
func adopt(t *testing.T, c *cluster, p *csitest.Plugin) (*wire.VolumeWriteReply, error) {
	t.Helper()
	v := c.mustCreate("made", p, volume.SingleNodeWriter)
	c.deregister(string(v.ID.ID))
	return wire.VolumeRegister.Call(t.Context(), c.conn, &wire.VolumeWriteRequest{
		Volume:     volID("db"),
		Spec:       specOf(p, volume.SingleNodeWriter),
		ExternalID: v.Status.ExternalID,
		Context:    v.Status.Context,
		Wait:       time.Minute,
	})
}

// TestARegisteredVolumeThatIsSomethingElseIsRefused: what the plugin confirms beyond the question is named.
func TestARegisteredVolumeThatIsSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	c, _, p := one(t,
		csitest.Fake{Defects: map[string]csitest.Defect{"ValidateVolumeCapabilities": csitest.DefectMore}})
	_, err := adopt(t, c, p)
	if !fault.Has(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "multi-node-multi-writer block-device is confirmed, which was not asked") ||
		!strings.Contains(err.Error(), `volume "`) {
		t.Errorf("got %v", err)
	}
	if v := c.s.Store().Snapshot().Volume(nil, volID("db")); v != nil {
		t.Errorf("left: %+v", v)
	}
	c.atRest(p)
}

// TestAVolumeThatIsRegisteredAgainIsValidatedAgain: given a registered volume, when it is registered again, then its
// plugin is asked again, and what it says reaches who asked.
func TestAVolumeThatIsRegisteredAgainIsValidatedAgain(t *testing.T) {
	t.Parallel()
	c, _, p := one(t,
		csitest.Fake{Defects: map[string]csitest.Defect{"ValidateVolumeCapabilities": csitest.DefectEmpty}})
	first, err := adopt(t, c, p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := wire.VolumeRegister.Call(t.Context(), c.conn, &wire.VolumeWriteRequest{
		Volume:     volID("db"),
		Spec:       specOf(p, volume.SingleNodeWriter),
		ExternalID: first.Volume.Status.ExternalID,
		Context:    first.Volume.Status.Context,
		Wait:       time.Minute,
	})
	want := []string{"the fake does not look at capabilities"}
	if err != nil || again.Outcome != "unchanged" || !slices.Equal(again.Warnings, want) {
		t.Errorf("got %+v, %v", again, err)
	}
	c.atRest(p)
}

// TestAPluginThatDoesNotConfirmIsOnlyAWarning: the plugin's words reach who asked, and stay with the volume.
func TestAPluginThatDoesNotConfirmIsOnlyAWarning(t *testing.T) {
	t.Parallel()
	c, _, p := one(t,
		csitest.Fake{Defects: map[string]csitest.Defect{"ValidateVolumeCapabilities": csitest.DefectEmpty}})
	r, err := adopt(t, c, p)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"the fake does not look at capabilities"}
	if r.Outcome != "registered" || !slices.Equal(r.Warnings, want) || !slices.Equal(r.Volume.Status.Warnings, want) {
		t.Errorf("outcome %q, warnings %q, kept %q", r.Outcome, r.Warnings, r.Volume.Status.Warnings)
	}
	c.atRest(p)
}

// TestARegisteredVolumeHasTheSizeThatItsProviderLists: it is known before it was ever expanded.
func TestARegisteredVolumeHasTheSizeThatItsProviderLists(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{})
	r, err := adopt(t, c, p)
	if err != nil {
		t.Fatal(err)
	}
	if size := r.Volume.Status.Capacity; size <= 0 {
		t.Errorf("the size is %d", size)
	}
	if err := c.delete("db", time.Minute); err != nil {
		t.Error(err)
	}
	c.atRest(p)
}
