package node_test

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// begun waits until a call has reached the plugin n times, or what stands before it.
func begun(t testing.TB, p *csitest.Plugin, rpc csi.RPC, n int) {
	t.Helper()
	eventually(t, "the plugin is called: "+string(rpc), func() bool {
		calls := 0
		for _, e := range p.Entries() {
			if e.Kind == proxy.CallBegins && e.RPC == string(rpc) {
				calls++
			}
		}
		return calls >= n
	})
}

// measuring asks in the background how full a volume is.
func (r *rig) measuring(key volume.StagingKey) (answer chan error) {
	answer = make(chan error, 1)
	go func() {
		_, err := r.keeper.Measure(r.t.Context(), key)
		answer <- err
	}()
	return answer
}

// TestAVolumeInUseIsMeasured: with what it is published as, as long as somebody uses it.
func TestAVolumeInUseIsMeasured(t *testing.T) {
	p, v := startFake(t, csitest.Fake{Condition: "the disk is slow"})
	r := newRig(t, p)
	key := requestOf(p, use(v, "a")).Key.StagingKey
	r.mount(v, "a")
	got, err := r.keeper.Measure(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if got.Bytes == nil || *got.Bytes != (csi.Usage{Total: 1 << 20, Used: 1 << 18, Available: 3 << 18}) ||
		got.Inodes == nil || *got.Inodes != (csi.Usage{Total: 1000, Used: 10, Available: 990}) {
		t.Errorf("measured %+v, %+v", got.Bytes, got.Inodes)
	}
	if got.Condition == nil || !got.Condition.Abnormal || got.Condition.Message != "the disk is slow" {
		t.Errorf("its condition is %+v", got.Condition)
	}
	list := r.keeper.Published()
	if len(list) != 1 || list[0].Key != key || list[0].Users["a"] != "data" || list[0].Volume.ID != "vol" {
		t.Errorf("published: %+v", list)
	}
	r.unmount(v, "a")
	if _, err := r.keeper.Measure(t.Context(), key); !fault.Has(err, fault.Busy) {
		t.Errorf("a volume that nobody uses was measured: %v", err)
	}
	if list := r.keeper.Published(); len(list) > 0 {
		t.Errorf("published: %+v", list)
	}
	r.atRest()
}

// TestAPluginThatDoesNotMeasureIsNotAsked: a call without its capability is never sent.
func TestAPluginThatDoesNotMeasureIsNotAsked(t *testing.T) {
	p, v := startFake(t, csitest.Fake{Node: csi.Caps[csi.NodeCap]{csi.CapStage}})
	r := newRig(t, p)
	r.mount(v, "a")
	key := requestOf(p, use(v, "a")).Key.StagingKey
	if _, err := r.keeper.Measure(t.Context(), key); !fault.Has(err, fault.Unsupported) {
		t.Errorf("measured without GET_VOLUME_STATS: %v", err)
	}
	for _, e := range p.Entries() {
		if e.RPC == string(csi.NodeGetVolumeStats) {
			t.Errorf("sent without its capability: %+v", e)
		}
	}
	r.unmount(v, "a")
	r.atRest()
}

// TestAReleaseDoesNotWaitForAMeasuring: a plugin that does not answer how full the volume is delays nothing that is
// done with it. That no two calls overlap is the oracle's to judge.
func TestAReleaseDoesNotWaitForAMeasuring(t *testing.T) {
	p, v := startPlugin(t, "(NodeGetVolumeStats * hang)")
	r := newRig(t, p)
	key := requestOf(p, use(v, "a")).Key.StagingKey
	r.mount(v, "a")
	answer := r.measuring(key)
	begun(t, p, csi.NodeGetVolumeStats, 1)
	r.mount(v, "b")
	if err := <-answer; !fault.Has(err, fault.Busy) {
		t.Errorf("the measuring ends with %v beside a publishing", err)
	}
	r.unmount(v, "b")
	answer = r.measuring(key)
	begun(t, p, csi.NodeGetVolumeStats, 2)
	r.unmount(v, "a")
	if err := <-answer; !fault.Has(err, fault.Busy) {
		t.Errorf("the measuring ends with %v beside a release", err)
	}
	r.atRest()
}

// TestNothingIsMeasuredBesideACall: who measures is refused at once, and does not wait.
func TestNothingIsMeasuredBesideACall(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	key := requestOf(p, use(v, "a")).Key.StagingKey
	r.mount(v, "a")
	p.Rules("(NodePublishVolume * hold)")
	mounted := make(chan struct{})
	go func() { defer close(mounted); r.mount(v, "b") }()
	begun(t, p, csi.NodePublishVolume, 2)
	if _, err := r.keeper.Measure(t.Context(), key); !fault.Has(err, fault.Busy) {
		t.Errorf("measured beside another call: %v", err)
	}
	p.Rules()
	<-mounted
	r.unmount(v, "a")
	r.unmount(v, "b")
	r.atRest()
}

// TestANodeUnmountsNothingItselfWhileAPluginMayStillMeasure: what the plugin was told to stop at it may still be at. It
// is tried again until that cannot be any more.
func TestANodeUnmountsNothingItselfWhileAPluginMayStillMeasure(t *testing.T) {
	p, v := startForgetful(t, "(NodeGetVolumeStats * hang)")
	r := newRig(t, p)
	key := requestOf(p, use(v, "a")).Key.StagingKey
	r.mount(v, "a")
	answer := r.measuring(key)
	begun(t, p, csi.NodeGetVolumeStats, 1)
	done := r.releasing(v, "a")
	if err := <-answer; !fault.Has(err, fault.Busy) {
		t.Fatalf("the measuring ends with %v", err)
	}
	eventually(t, "the release says why it waits", func() bool {
		select {
		case <-done:
			t.Fatal("it was unmounted although the plugin may still be at it")
		default:
		}
		return slices.ContainsFunc(r.servers.Entries(), func(e volume.InventoryEntry) bool {
			return strings.Contains(e.LastError, "may still be at it")
		})
	})
	r.keeper.ReadingsEnded()
	<-done
	r.atRest()
	if u := r.servers.Undone(key); u == nil || !strings.Contains(u.Reason, "unmounted by node") {
		t.Errorf("reported as undone by %+v", u)
	}
}
