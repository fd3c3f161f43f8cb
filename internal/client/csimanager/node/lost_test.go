package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/port/csi/proxy"
)

// TestALostMountIsRemadeWhenItsTasksRest is P47 with the policy "restart": the tasks' owner is told, nothing is remade
// under a process, and the alloc keeps its volume.
func TestALostMountIsRemadeWhenItsTasksRest(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	path := r.mount(v, "a")
	if err := os.WriteFile(filepath.Join(path, "x"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.gate.set(func(g *gate) { g.live["a"] = true })
	p.Mark(proxy.MountsLost, proxy.Entry{})
	if err := unix.Unmount(path, 0); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-r.lost:
		if got != "a data" {
			t.Errorf("told of %q", got)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("nobody is told that the mount is gone")
	}
	if err := r.keeper.Mounted(grantOf(p, use(v, "a")).Key); err == nil {
		t.Error("a task would start on a target that is not mounted")
	}
	time.Sleep(100 * time.Millisecond)
	if calls := strings.Join(p.Calls(), " "); strings.Contains(calls, "Unpublish") {
		t.Errorf("unpublished under a living process: %s", calls)
	}
	r.gate.set(func(g *gate) { g.idle["a"] = true })
	again := r.mount(v, "a")
	if got, err := os.ReadFile(filepath.Join(again, "x")); err != nil || string(got) != "1" {
		t.Errorf("after it was remade: %q, %v", got, err)
	}
	r.gate.set(func(g *gate) { delete(g.live, "a") })
	r.unmount(v, "a")
	r.atRest()
}

// TestAnotherAttachmentMakesTheStagingAnew: what was staged under an older attachment is undone first.
func TestAnotherAttachmentMakesTheStagingAnew(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	g := grantOf(p, use(v, "a"))
	g.Generation++
	if err := r.mountGrant(g); err != nil {
		t.Fatal(err)
	}
	want := "NodeStageVolume NodePublishVolume NodeUnpublishVolume NodeUnstageVolume NodeStageVolume NodePublishVolume"
	if calls := strings.Join(p.Calls(), " "); !strings.HasSuffix(calls, want) {
		t.Errorf("calls: %s", calls)
	}
	r.unmount(v, "a")
	r.atRest()
}

// TestOtherOptionsBesideALivingUseAreRefused is P06; with the same use nothing of what a job spells later changes what
// is mounted.
func TestOtherOptionsBesideALivingUseAreRefused(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	g := grantOf(p, use(v, "b"))
	g.MountOptions = &volume.MountOptions{FSType: "xfs"}
	if err := r.mountGrant(g); err == nil || !strings.Contains(err.Error(), "mount options") {
		t.Errorf("got %v", err)
	}
	same := grantOf(p, use(v, "a"))
	same.VolumeContext = map[string]string{"changed": "later"}
	if err := r.mountGrant(same); err != nil {
		t.Error(err)
	}
	if n := strings.Count(strings.Join(p.Calls(), " "), "NodeStageVolume"); n != 1 {
		t.Errorf("staged %d times: a running alloc lost its volume to a change of words", n)
	}
	r.unmount(v, "a")
	r.unmount(v, "b")
	r.atRest()
}

// TestAPluginThatIsGoneIsWaitedFor: an alloc stops while its plugin is away; the release finishes when it is back.
func TestAPluginThatIsGoneIsWaitedFor(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	info := r.registry.List()[0]
	if err := r.registry.Deregister(info.Role, info.Plugin, info.Alloc); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the instance is gone", func() bool { return len(r.instances.States()) == 0 })
	done := make(chan struct{})
	go func() { defer close(done); r.unmount(v, "a") }()
	select {
	case <-done:
		t.Fatal("let go without a plugin")
	case <-time.After(200 * time.Millisecond):
	}
	info.Alloc = ids.Alloc("plugin-alloc-2") // P08: another instance finishes what the first began
	if err := r.registry.Register(info); err != nil {
		t.Fatal(err)
	}
	<-done
	r.atRest()
}

// TestAFailingStepDoesNotHoldUpOthers: one alloc's unpublishing fails, another alloc of the volume starts.
func TestAFailingStepDoesNotHoldUpOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for real pauses between tries: not in a short run")
	}
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	p.Rules("(NodeUnpublish * before Internal x4)")
	done := make(chan struct{})
	go func() { defer close(done); r.unmount(v, "a") }()
	eventually(t, "the first try failed", func() bool { return strings.Contains(strings.Join(p.Calls(), " "), "Unpublish") })
	begun := time.Now()
	r.mount(v, "b")
	if took := time.Since(begun); took > 400*time.Millisecond {
		t.Errorf("the other alloc waited %s", took)
	}
	<-done
	r.unmount(v, "b")
	r.atRest()
}
