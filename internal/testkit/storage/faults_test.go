package storage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/wire"
)

// one is a cluster of one node in front of one plugin.
func one(t *testing.T, fake csitest.Fake, rules ...string) (*cluster, *member, *csitest.Plugin) {
	t.Helper()
	c := newCluster(t)
	p := c.startPlugin(fake, rules...)
	m := c.member("one", p)
	c.awaitPlugin(p.ID)
	return c, m, p
}

// TestALostAnswerOfCreateMakesOneVolume: the same call under the same generated name is repeated.
func TestALostAnswerOfCreateMakesOneVolume(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{}, "(CreateVolume * after-effect DeadlineExceeded once)")
	v := c.mustCreate("db", p, volume.SingleNodeWriter)
	again := c.mustCreate("db", p, volume.SingleNodeWriter)
	if again.Status.ExternalID != v.Status.ExternalID || count(p, "CreateVolume") != 2 {
		t.Errorf("%q and %q, calls %v", v.Status.ExternalID, again.Status.ExternalID, p.Calls())
	}
	if n := len(backend(t, p)); n != 1 {
		t.Errorf("%d volumes at the provider", n)
	}
	if err := c.delete("db", 50*time.Second); err != nil {
		t.Error(err)
	}
	if n := len(backend(t, p)); n != 0 {
		t.Errorf("%d volumes are left at the provider", n)
	}
	c.atRest(p)
}

// backend lists what the provider has.
func backend(t *testing.T, p *csitest.Plugin) (out []string) {
	t.Helper()
	return kept(t, p, "volumes")
}

// kept lists what the plugin keeps of a kind.
func kept(t *testing.T, p *csitest.Plugin, kind string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(p.Dir, kind))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestAProviderWithoutSpaceSaysSoAndNothingIsLeft: RESOURCE_EXHAUSTED and OUT_OF_RANGE end the creation.
func TestAProviderWithoutSpaceSaysSoAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"ResourceExhausted", "OutOfRange", "InvalidArgument"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			c, _, p := one(t, csitest.Fake{}, "(CreateVolume * before "+code+" once)")
			if _, err := c.create("db", specOf(p, volume.SingleNodeWriter)); err == nil ||
				!strings.Contains(err.Error(), code) {
				t.Errorf("got %v", err)
			}
			if v := c.s.Store().Snapshot().Volume(nil, volID("db")); v != nil || len(backend(t, p)) != 0 {
				t.Errorf("left: %+v and %v", v, backend(t, p))
			}
			if got := count(p, "CreateVolume"); got != 1 {
				t.Errorf("%d calls", got)
			}
			c.atRest(p)
		})
	}
}

func TestAnUnknownPluginIsNamed(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{})
	spec := specOf(p, volume.SingleNodeWriter)
	spec.Plugin = "nobody"
	if _, err := c.create("db", spec); err == nil || !strings.Contains(err.Error(), `plugin "nobody" is not known`) {
		t.Errorf("got %v", err)
	}
	if v := c.s.Store().Snapshot().Volume(nil, volID("db")); v != nil {
		t.Errorf("left: %+v", v)
	}
	c.atRest(p)
}

// TestTheSameProviderVolumeIsRegisteredOnce: the identity of a volume is its plugin and its external id.
func TestTheSameProviderVolumeIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{})
	v := c.mustCreate("db", p, volume.SingleNodeWriter)
	spec := specOf(p, volume.SingleNodeWriter)
	_, err := wire.VolumeRegister.Call(t.Context(), c.conn,
		&wire.VolumeWriteRequest{
			Volume:     volID("twin"),
			Spec:       spec,
			ExternalID: v.Status.ExternalID,
			Context:    v.Status.Context,
		})
	if err == nil || !strings.Contains(err.Error(), "registered as volume") {
		t.Errorf("got %v", err)
	}
	if err := c.delete("db", 50*time.Second); err != nil {
		t.Error(err)
	}
	c.atRest(p)
}

// TestAVolumeGrowsUnderItsUser expands online.
func TestAVolumeGrowsUnderItsUser(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{NodeExpand: true}, "(NodeExpand * before Internal once)")
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	c.running("web")
	r, err := wire.VolumeExpand.Call(t.Context(), c.conn,
		&wire.VolumeExpandRequest{Volume: volID("db"), Min: 2 << 20, Max: 4 << 20, Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if r.Volume.Status.Capacity < 2<<20 {
		t.Errorf("it has %d bytes", r.Volume.Status.Capacity)
	}
	eventually(t, "the file system has grown", func() bool {
		v := c.s.Store().Snapshot().Volume(nil, volID("db"))
		return !v.Status.NodeExpandPending
	})
	if n := count(p, "NodeExpandVolume"); n != 2 {
		t.Errorf("%d calls to grow it on the node, want one that failed and one that did not", n)
	}
	c.stopJob("web")
	c.atRest(p)
}

// TestAVolumeThatGrewAloneGrowsOnTheNodeAtItsNextUse expands offline.
func TestAVolumeThatGrewAloneGrowsOnTheNodeAtItsNextUse(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{NodeExpand: true})
	c.mustCreate("db", p, volume.SingleNodeWriter)
	if _, err := wire.VolumeExpand.Call(t.Context(), c.conn,
		&wire.VolumeExpandRequest{Volume: volID("db"), Min: 2 << 20, Wait: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if count(p, "NodeExpandVolume") != 0 {
		t.Error("grown on a node that does not have it")
	}
	c.runJob("web", "db", volume.SingleNodeWriter)
	c.running("web")
	calls := p.Calls()
	if slices.Index(calls, "NodeExpandVolume") < slices.Index(calls, "NodeStageVolume") {
		t.Errorf("calls %v", calls)
	}
	c.stopJob("web")
	c.atRest(p)
	c.runJob("again", "db", volume.SingleNodeWriter)
	c.running("again")
	if n := count(p, "NodeExpandVolume"); n != 1 {
		t.Errorf("grown %d times", n)
	}
	c.stopJob("again")
	c.atRest(p)
}

// TestSnapshotsAndClones: cut, refuse to delete what a volume is made from while it is made, clone, delete all.
func TestSnapshotsAndClones(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{})
	c.mustCreate("db", p, volume.SingleNodeWriter)
	sn, err := wire.SnapshotCreate.Call(t.Context(), c.conn,
		&wire.SnapshotCreateRequest{Volume: volID("db"), Name: "cut", Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for name, tune := range map[string]func(*volume.Spec){
		"restored": func(s *volume.Spec) { s.SnapshotID = sn.Snapshot.ExternalID },
		"clone":    func(s *volume.Spec) { s.CloneID = "db" },
	} {
		spec := specOf(p, volume.SingleNodeWriter)
		tune(&spec)
		if _, err := c.create(name, spec); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := wire.SnapshotDelete.Call(t.Context(), c.conn,
		&wire.SnapshotDeleteRequest{
			Plugin:     ids.Plugin(p.ID),
			SnapshotID: sn.Snapshot.ExternalID,
			Wait:       time.Minute,
		}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"restored", "clone", "db"} {
		if err := c.delete(name, 50*time.Second); err != nil {
			t.Error(err)
		}
	}
	if left := backend(t, p); len(left) != 0 {
		t.Errorf("left at the provider: %v", left)
	}
	c.atRest(p)
}

// TestACutConnectionLeavesTheCallUncertainAndItIsRepeated: the executor's stream ends while the plugin attaches.
func TestACutConnectionLeavesTheCallUncertainAndItIsRepeated(t *testing.T) {
	t.Parallel()
	c, m, p := one(t, csitest.Fake{}, "(ControllerPublish * hold)")
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	var before *volume.Attachment
	eventually(t, "the attach has begun", func() bool {
		for a := range c.s.Store().Snapshot().Attachments(nil) {
			before = a
			return a.Presence == volume.Uncertain
		}
		return false
	})
	eventually(t, "the plugin attaches", func() bool {
		return slices.ContainsFunc(p.Entries(), func(e proxy.Entry) bool {
			return e.Kind == proxy.CallBegins && e.RPC == "ControllerPublishVolume"
		})
	})
	p.Mark(proxy.CallerCrashed, proxy.Entry{})
	m.calls.cut()
	p.Rules()
	c.running("web")
	if a := c.attachment("db"); a == nil || a.Generation != before.Generation {
		t.Errorf("the call was %+v, the repetition is %+v", before, a)
	}
	if n := count(p, "ControllerPublishVolume"); n != 2 {
		t.Errorf("%d calls", n)
	}
	c.stopJob("web")
	c.atRest(p)
}

// TestADetachThatWasBegunEndsBeforeTheNodeIsAttachedAnew: attach and detach of a volume and node are one flow.
func TestADetachThatWasBegunEndsBeforeTheNodeIsAttachedAnew(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{}, "(ControllerUnpublish * delay 700ms once)")
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	c.running("web")
	c.stopJob("web")
	eventually(t, "the detach has begun", func() bool {
		for a := range c.s.Store().Snapshot().Attachments(nil) {
			return a.Detaching
		}
		return false
	})
	c.runJob("next", "db", volume.SingleNodeWriter)
	c.running("next")
	want := []string{"ControllerPublishVolume", "ControllerUnpublishVolume", "ControllerPublishVolume"}
	var got []string
	for _, call := range p.Calls() {
		if strings.HasPrefix(call, "Controller") {
			got = append(got, call)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls %v", got)
	}
	c.stopJob("next")
	c.atRest(p)
}

// TestTheSuccessorsClaimIsHeldWhenTheFirstEnds: an update of a job with an exclusive volume.
func TestTheSuccessorsClaimIsHeldWhenTheFirstEnds(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{}, "(NodeUnstage * delay 300ms once)")
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	first := c.running("web")
	c.runJob("web", "db", volume.SingleNodeWriter, func(j *job.Job) {
		j.TaskGroups[0].Tasks[0].Env = map[string]string{"VERSION": "2"}
	})
	eventually(t, "the new allocation runs", func() bool {
		for a := range c.s.Store().Snapshot().AllocsByJob(nil, ids.DefaultNamespace, "web") {
			if a.ID != first.ID && a.ClientStatus == alloc.ClientRunning {
				return true
			}
		}
		return false
	})
	calls := p.Calls()
	if slices.Index(calls, "NodeUnpublishVolume") < 0 ||
		slices.Index(calls, "NodeUnpublishVolume") > lastIndex(calls, "NodePublishVolume") {
		t.Errorf("published for the second before the first released it: %v", calls)
	}
	c.stopJob("web")
	c.atRest(p)
}

func lastIndex(list []string, s string) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == s {
			return i
		}
	}
	return -1
}

// TestTheNodeRestartsInTheMiddleOfAUse: the servers stay, and nothing is called that changes anything.
func TestTheNodeRestartsInTheMiddleOfAUse(t *testing.T) {
	t.Parallel()
	c, m, p := one(t, csitest.Fake{})
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	a := c.running("web")
	before := len(p.Calls())
	m.stop()
	m.start("one")
	eventually(t, "the node is back", func() bool { return m.client.Armed() })
	time.Sleep(300 * time.Millisecond)
	if got := p.Calls()[before:]; len(got) != 0 {
		t.Errorf("the restart called %v", got)
	}
	if got := c.running("web"); got.ID != a.ID {
		t.Errorf("the allocation was replaced by %s", got.ID)
	}
	c.stopJob("web")
	c.atRest(p)
}

// TestAnAllocThatNeverMountedReleasesItsClaim: stopped while its attach fails, its claim ends all the same.
func TestAnAllocThatNeverMountedReleasesItsClaim(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{}, "(ControllerPublish * before Internal x2)")
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	eventually(t, "the attach was tried", func() bool { return count(p, "ControllerPublishVolume") > 0 })
	c.stopJob("web")
	c.atRest(p)
	if n := count(p, "NodeStageVolume"); n != 0 {
		t.Errorf("staged %d times", n)
	}
}

// TestVolumesOfOneNodeAreShared: two jobs, one staging.
func TestVolumesOfOneNodeAreShared(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{})
	c.mustCreate("share", p, volume.MultiNodeMultiWriter)
	c.runJob("a", "share", volume.MultiNodeMultiWriter)
	c.runJob("b", "share", volume.MultiNodeMultiWriter)
	c.running("a")
	c.running("b")
	c.stopJob("a")
	eventually(t, "a has released it", func() bool { return count(p, "NodeUnpublishVolume") == 1 })
	time.Sleep(100 * time.Millisecond)
	if count(p, "NodeStageVolume") != 1 || count(p, "NodeUnstageVolume") != 0 ||
		count(p, "ControllerUnpublishVolume") != 0 {
		t.Errorf("calls %v", p.Calls())
	}
	c.stopJob("b")
	c.atRest(p)
}

// TestRegistrationIsValidatedByThePlugin: what the provider does not know is refused; one that confirms is taken.
func TestRegistrationIsValidatedByThePlugin(t *testing.T) {
	t.Parallel()
	c, _, p := one(t, csitest.Fake{})
	_, err := wire.VolumeRegister.Call(t.Context(), c.conn,
		&wire.VolumeWriteRequest{Volume: volID("old"), Spec: specOf(p, volume.SingleNodeWriter), ExternalID: "no-such"})
	if !fault.Has(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
	client := p.Connect()
	v, err := client.CreateVolume(t.Context(),
		csi.CreateVolumeRequest{
			Name: "by-hand",
			Capabilities: []csi.VolumeCapability{{
				AccessMode:     volume.SingleNodeWriter,
				AttachmentMode: volume.FileSystem,
			}},
		})
	if err != nil {
		t.Fatal(err)
	}
	r, err := wire.VolumeRegister.Call(t.Context(), c.conn,
		&wire.VolumeWriteRequest{
			Volume:     volID("old"),
			Spec:       specOf(p, volume.SingleNodeWriter),
			ExternalID: v.ID,
			Context:    v.Context,
		})
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != "registered" {
		t.Errorf("outcome %q", r.Outcome)
	}
	c.deregister("old")
	c.atRest(p)
}
