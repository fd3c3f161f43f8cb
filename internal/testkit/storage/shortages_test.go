package storage

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/alloc"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// TestAFullNodeSendsTheJobElsewhere: the provider refuses to attach one more volume to a node. Its alloc ends there,
// saying so, and the job runs on the other node.
func TestAFullNodeSendsTheJobElsewhere(t *testing.T) {
	t.Parallel()
	c, _, _, p := two(t, "(ControllerPublish * before ResourceExhausted once)")
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	a := c.running("web")
	first := c.s.Store().Snapshot().Alloc(nil, a.PreviousAlloc)
	if first == nil || first.Node == a.Node {
		t.Fatalf("it runs on node %s; the alloc before it is %+v", a.Node, first)
	}
	if !strings.Contains(first.DesiredDescription, "has no room for another volume of plugin") {
		t.Errorf("the first alloc ended because %q", first.DesiredDescription)
	}
	c.stopJob("web")
	c.atRest(p)
}

// TestAJobWithoutCapacityAnywhereSaysWhyItWaits: the only node is full. The job waits, with that as the reason, and the
// provider is not asked again meanwhile; a volume that leaves the node lets it go on.
func TestAJobWithoutCapacityAnywhereSaysWhyItWaits(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{}, "(ControllerPublish * before ResourceExhausted from 2 once)")
	c.mustCreate("one", p, volume.SingleNodeWriter)
	c.mustCreate("two", p, volume.SingleNodeWriter)
	c.runJob("first", "one", volume.SingleNodeWriter)
	c.running("first")
	c.runJob("second", "two", volume.SingleNodeWriter)
	eventually(t, "the job waits and says why", func() bool {
		for e := range c.s.Store().Snapshot().EvalsByJob(nil, ids.DefaultNamespace, "second") {
			for _, m := range e.FailedTGAllocs {
				if e.Status == "blocked" && slices.ContainsFunc(m.Reasons, func(r alloc.NodeReason) bool {
					return strings.Contains(r.Reason, "has no room for another volume of plugin")
				}) {
					return true
				}
			}
		}
		return false
	})
	if n := count(p, "ControllerPublishVolume"); n != 2 {
		t.Errorf("the provider was asked to attach %d times, want 2", n)
	}
	c.stopJob("first")
	c.running("second")
	c.stopJob("second")
	c.atRest(p)
}

// TestAVolumeThatIsPermanentlyRefusedOnANodeIsPlacedElsewhere: the provider refuses the arguments of an attach to a
// node. The alloc ends there with the reason, the job runs on the other node, and the same is not asked again.
func TestAVolumeThatIsPermanentlyRefusedOnANodeIsPlacedElsewhere(t *testing.T) {
	t.Parallel()
	c, _, _, p := two(t, "(ControllerPublish * before InvalidArgument once)")
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	a := c.running("web")
	first := c.s.Store().Snapshot().Alloc(nil, a.PreviousAlloc)
	if first == nil || first.Node == a.Node {
		t.Fatalf("it runs on node %s; the alloc before it is %+v", a.Node, first)
	}
	if !strings.Contains(first.DesiredDescription, "permanently refuses to attach the volume") {
		t.Errorf("the first alloc ended because %q", first.DesiredDescription)
	}
	c.stopJob("web")
	c.atRest(p)
}

// TestAVolumeThatIsPermanentlyRefusedEverywhereSaysWhyItsJobWaits: the only node is refused. The job waits with the
// reason, the provider is not asked again, and the volume says what ends that.
func TestAVolumeThatIsPermanentlyRefusedEverywhereSaysWhyItsJobWaits(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{}, "(ControllerPublish * before InvalidArgument once)")
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	eventually(t, "the job waits and says why", func() bool {
		for e := range c.s.Store().Snapshot().EvalsByJob(nil, ids.DefaultNamespace, "web") {
			for _, m := range e.FailedTGAllocs {
				if e.Status == "blocked" && slices.ContainsFunc(m.Reasons, func(r alloc.NodeReason) bool {
					return strings.Contains(r.Reason, "permanently refuses to attach the volume")
				}) {
					return true
				}
			}
		}
		return false
	})
	if n := count(p, "ControllerPublishVolume"); n != 1 {
		t.Errorf("the provider was asked to attach %d times, want 1", n)
	}
	r, err := wire.VolumeGet.Call(t.Context(), c.conn,
		&wire.Ref[ids.Volume]{Query: wire.Query{Namespace: ids.DefaultNamespace}, ID: "db"})
	if err != nil || r.Item == nil || !slices.ContainsFunc(r.Item.State, func(text string) bool {
		return strings.Contains(text, "permanently refuses to attach") && strings.Contains(text, "asked again when")
	}) {
		t.Errorf("the volume does not say what ends the refusal: %+v, %v", r, err)
	}
	c.stopJob("web")
	c.atRest(p)
}
