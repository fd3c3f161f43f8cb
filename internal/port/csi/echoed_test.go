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
// does not show it.
func TestAnIDMadeOfASecretIsRefused(t *testing.T) {
	p := csitest.New(t, csitest.Options{
		Unjudged: "a volume whose id is refused stays at the provider",
		Fake: csitest.Fake{EchoContext: true,
			Defects: map[string]csitest.Defect{"CreateVolume": csitest.DefectSecretID}},
	})
	c := p.Connect()
	_, err := c.CreateVolume(t.Context(), csi.CreateVolumeRequest{
		Name:         "db",
		Capabilities: []csi.VolumeCapability{fsWriter},
		Secrets:      redact.MapOf(map[string]string{"password": "S3CR3T-of-db"}),
	})
	if csi.CodeOf(err) != codes.Internal || !strings.Contains(err.Error(), "holds the value of a secret") ||
		strings.Contains(err.Error(), "S3CR3T") {
		t.Errorf("the id is answered with %v", err)
	}
}
