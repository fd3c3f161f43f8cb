package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/volume"
)

// TestALostMountIsRemadeWhenItsTasksRest is the policy "restart": the tasks' owner hears of it, nothing is remade
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
			t.Errorf("reported %q as lost", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("it is not reported that the mount is gone")
	}
	if err := r.keeper.Mounted(r.t.Context(), requestOf(p, use(v, "a")).Key, false); err == nil {
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

// TestAMountLostWithoutAnAgentIsReportedToRestoredAllocs: what went while no agent ran is found at the next start, and
// reported when there is somebody who restarts the tasks.
func TestAMountLostWithoutAnAgentIsReportedToRestoredAllocs(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	path := r.mount(v, "a")
	r.gate.set(func(g *gate) { g.live["a"] = true })
	r.stop()
	p.Mark(proxy.MountsLost, proxy.Entry{})
	if err := unix.Unmount(path, 0); err != nil {
		t.Fatal(err)
	}
	r.open()
	select {
	case got := <-r.lost:
		if got != "a data" {
			t.Errorf("reported %q as lost", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("it is not reported that the mount is gone")
	}
	r.gate.set(func(g *gate) { g.idle["a"] = true })
	r.mount(v, "a")
	r.gate.set(func(g *gate) { delete(g.live, "a") })
	r.unmount(v, "a")
	r.atRest()
}

// TestAnotherAttachmentMakesTheStagingAnew: what was staged under an older attachment is undone first.
func TestAnotherAttachmentMakesTheStagingAnew(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	g := requestOf(p, use(v, "a"))
	g.Generation++
	if err := r.mountBy(g); err != nil {
		t.Fatal(err)
	}
	want := "NodeStageVolume NodePublishVolume NodeUnpublishVolume NodeUnstageVolume NodeStageVolume NodePublishVolume"
	if calls := strings.Join(p.Calls(), " "); !strings.HasSuffix(calls, want) {
		t.Errorf("calls: %s", calls)
	}
	r.unmount(v, "a")
	r.atRest()
}

// TestOtherOptionsBesideALivingUseAreRefused: and beside the same options, nothing of what a job spells later changes
// what is mounted.
func TestOtherOptionsBesideALivingUseAreRefused(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	g := requestOf(p, use(v, "b"))
	g.MountOptions = &volume.MountOptions{FSType: "xfs"}
	if err := r.mountBy(g); err == nil || !strings.Contains(err.Error(), "mount options") {
		t.Errorf("got %v", err)
	}
	same := requestOf(p, use(v, "a"))
	same.VolumeContext = map[string]string{"changed": "later"}
	if err := r.mountBy(same); err != nil {
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
		t.Fatal("released without a plugin")
	case <-time.After(200 * time.Millisecond):
	}
	info.Alloc = ids.Alloc("plugin-alloc-2") // another instance finishes what the first began
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
	p.Rules("(NodeUnpublish * before Internal)")
	done := make(chan struct{})
	go func() { defer close(done); r.unmount(v, "a") }()
	eventually(t, "the first try failed", func() bool {
		return strings.Contains(strings.Join(p.Calls(), " "), "Unpublish")
	})
	r.mount(v, "b")
	p.Rules()
	<-done
	r.unmount(v, "b")
	r.atRest()
}

// TestAPluginThatFallsSilentIsNamedToWhoWaits: the call under way goes on, and ends well when the plugin goes on.
func TestAPluginThatFallsSilentIsNamedToWhoWaits(t *testing.T) {
	p, v := startPlugin(t, "(NodeStage * hold)")
	r := newRig(t, p)
	r.declare(4 * time.Second)
	heard, done := make(chan string, 100), make(chan error, 1)
	go func() { done <- r.mountBy(withProgress(requestOf(p, use(v, "a")), func(why string) { heard <- why })) }()
	goesOn := func(why string) bool {
		return strings.HasPrefix(why, `stage in progress, plugin "`+p.ID+`" was asked at 2`) &&
			strings.HasSuffix(why, "Z and has not answered yet; see berth plugin status "+p.ID)
	}
	hears := func(ok func(string) bool) {
		t.Helper()
		for late := time.After(time.Minute); ; {
			select {
			case why := <-heard:
				if ok(why) {
					return
				}
			case err := <-done:
				t.Fatalf("the mount ended: %v", err)
			case <-late:
				t.Fatal("waited in vain")
			}
		}
	}
	hears(goesOn)
	p.Rules("(NodeStage * hold)", "(Probe * hang)")
	hears(func(why string) bool {
		return strings.HasPrefix(why, "stage in progress, plugin ") &&
			strings.Contains(why, "the plugin does not answer")
	})
	if e := r.servers.Entries(); len(e) != 1 || e[0].Staging != volume.Uncertain {
		t.Errorf("the call is under way, and the servers have %+v", e)
	}
	p.Rules("(NodeStage * hold)")
	hears(goesOn)
	p.Rules()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.unmount(v, "a")
	r.atRest()
}

// TestARefusedPublicationIsNotFoundAgain: there is nothing to be undone, neither at its end nor at the next start.
func TestARefusedPublicationIsNotFoundAgain(t *testing.T) {
	p, v := startPlugin(t, "(NodePublish * before InvalidArgument)")
	r := newRig(t, p)
	if err := r.mountBy(requestOf(p, use(v, "a"))); err == nil {
		t.Fatal("what the plugin refuses is mounted")
	}
	r.unmount(v, "a")
	r.kill()
	r.open()
	r.atRest()
	for _, call := range p.Calls() {
		if strings.HasPrefix(call, "NodeUnpublish") {
			t.Errorf("called %q for what was never made", call)
		}
	}
}
