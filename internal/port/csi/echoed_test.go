package csi_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/port/csi"
)

// Given a plugin that puts secrets into contexts and conditions, when it answers, then what is kept and shown of it has
// none, and each later call hands the contexts back as they were: the fake refuses any other.
func TestWhatAPluginRepeatsIsKeptByReference(t *testing.T) {
	needRoot(t)
	const secret = "S3CR3T-of-db"
	p := csitest.Alone(t, csitest.Options{Fake: csitest.Fake{EchoContext: true, Condition: "no login with " + secret}})
	c := p.Connect()
	ctx := t.Context()
	secrets := redact.MapOf(map[string]string{"password": secret, "user": "admin"})
	kept := func(what string, v any) {
		t.Helper()
		if text := fmt.Sprintf("%+v", v); strings.Contains(text, secret) {
			t.Errorf("%s shows the secret: %s", what, text)
		}
	}
	capabilities := []csi.VolumeCapability{fsWriter}
	v, err := c.CreateVolume(ctx,
		csi.CreateVolumeRequest{
			Name:         "db",
			Capacity:     csi.CapacityRange{Required: 1 << 20},
			Capabilities: capabilities,
			Secrets:      secrets,
		})
	ok(t, err)
	kept("the volume", v)
	said := v.Context["fake/login"]
	if !strings.Contains(said, "password:${secret:password}") || !strings.Contains(said, "user:${secret:user}") {
		t.Errorf("the context is kept as %q", v.Context)
	}
	valid, err := c.ValidateVolume(ctx,
		csi.ValidateVolumeRequest{
			VolumeID:      v.ID,
			VolumeContext: v.Context,
			Capabilities:  capabilities,
			Secrets:       secrets,
		})
	ok(t, err)
	if !valid.Confirmed {
		t.Errorf("the context that was answered is not the one that was asked of: %+v", valid)
	}
	attach := csi.AttachRequest{
		VolumeID:      v.ID,
		NodeID:        p.Node,
		Capability:    fsWriter,
		VolumeContext: v.Context,
		Secrets:       secrets,
	}
	a, err := c.Attach(ctx, attach)
	ok(t, err)
	kept("the attachment", a)
	staging, target := paths(t, p)
	stage := csi.StageRequest{
		VolumeID:       v.ID,
		StagingPath:    staging,
		Capability:     fsWriter,
		PublishContext: a.PublishContext,
		VolumeContext:  v.Context,
		Secrets:        secrets,
	}
	ok(t, c.Stage(ctx, stage))
	ok(t, c.Publish(ctx, csi.PublishRequest{
		VolumeID:       v.ID,
		StagingPath:    staging,
		TargetPath:     target,
		Capability:     fsWriter,
		PublishContext: a.PublishContext,
		VolumeContext:  v.Context,
		Secrets:        secrets,
	}))
	stats, err := c.VolumeStats(ctx, csi.StatsRequest{VolumeID: v.ID, VolumePath: target, StagingPath: staging})
	ok(t, err)
	if stats.Condition == nil || stats.Condition.Message != "no login with ***" {
		t.Errorf("the condition on the node is %+v", stats.Condition)
	}
	page, err := c.ListVolumes(ctx, csi.ListVolumesRequest{})
	ok(t, err)
	kept("the list", page)

	stage.Secrets = redact.MapOf(map[string]string{"user": "admin"})
	err = c.Stage(ctx, stage)
	if !fault.Has(err, fault.Invalid) || !strings.Contains(fmt.Sprint(err), "no longer has: password") {
		t.Errorf("a context whose secret is gone: %v", err)
	}
	ok(t, c.Unpublish(ctx, csi.UnpublishRequest{VolumeID: v.ID, TargetPath: target}))
	ok(t, c.Unstage(ctx, csi.UnstageRequest{VolumeID: v.ID, StagingPath: staging}))
	ok(t, c.Detach(ctx, csi.DetachRequest{VolumeID: v.ID, NodeID: p.Node, Secrets: secrets}))
	ok(t, c.DeleteVolume(ctx, csi.DeleteVolumeRequest{VolumeID: v.ID, Secrets: secrets}))
}

// Given a plugin that makes ids out of secrets, when it makes a volume, then the id is refused with a sentence that
// does not show it; and by what stands for the id the volume can be deleted, with the same secrets alone.
func TestAVolumeWhoseIDIsMadeOfASecretCanOnlyBeDeleted(t *testing.T) {
	p := csitest.Alone(t, csitest.Options{Fake: csitest.Fake{
		Defects: map[string]csitest.Defect{"CreateVolume": csitest.DefectSecretID},
	}})
	c := p.Connect()
	ctx := t.Context()
	const secret = "S3CR3T-of-db"
	secrets := redact.MapOf(map[string]string{"password": secret})
	_, err := c.CreateVolume(ctx, csi.CreateVolumeRequest{
		Name:         "db",
		Capabilities: []csi.VolumeCapability{fsWriter},
		Secrets:      secrets,
	})
	e, refused := csi.AsError(err)
	if !refused || e.Code != codes.Internal || !strings.Contains(err.Error(), "holds the value of a secret") ||
		strings.Contains(err.Error(), secret) {
		t.Fatalf("the id is answered with %v", err)
	}
	if !strings.Contains(e.HiddenID, "${secret:password}") || strings.Contains(e.HiddenID, secret) {
		t.Fatalf("what stands for it is %q", e.HiddenID)
	}
	page, err := c.ListVolumes(ctx, csi.ListVolumesRequest{})
	ok(t, err)
	if len(page.Entries) != 1 || strings.Contains(fmt.Sprintf("%+v", page), secret) ||
		!strings.Contains(page.Entries[0].Volume.ID, redact.Mask) {
		t.Errorf("the list is %+v", page)
	}
	err = c.DeleteVolume(ctx, csi.DeleteVolumeRequest{
		HiddenID: e.HiddenID,
		Secrets:  redact.MapOf(map[string]string{"user": "somebody"}),
	})
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "no longer has: password") {
		t.Errorf("without the secret it is deleted with %v", err)
	}
	ok(t, c.DeleteVolume(ctx, csi.DeleteVolumeRequest{HiddenID: e.HiddenID, Secrets: secrets}))
	page, err = c.ListVolumes(ctx, csi.ListVolumesRequest{})
	ok(t, err)
	if len(page.Entries) != 0 {
		t.Errorf("the provider still has %+v", page)
	}
}
