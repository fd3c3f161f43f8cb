package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/node"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
)

// releasing asks in the background for the release of a volume, end closes done.
func (r *rig) releasing(v csi.Volume, alloc string) (done chan struct{}) {
	done = make(chan struct{})
	go func() { defer close(done); r.unmount(v, alloc) }()
	return done
}

// says waits until the servers hear why a release does not end.
func (r *rig) says(why string) {
	r.t.Helper()
	eventually(r.t, "the release says "+why, func() bool { return r.heard(why) })
}

// heard reports whether the servers have heard why something does not go on.
func (r *rig) heard(why string) bool {
	return slices.ContainsFunc(r.servers.Entries(), func(e volume.InventoryEntry) bool {
		return strings.Contains(e.LastError+e.Step, why)
	})
}

// startAnew says that the plugin's task was started anew.
func (r *rig) startAnew() {
	r.t.Helper()
	info := r.registry.List()[0]
	info.Attempt++
	if err := r.registry.Register(info); err != nil {
		r.t.Fatal(err)
	}
}

func countOf(calls []string, name string) (n int) {
	for _, c := range calls {
		if strings.HasPrefix(c, name) {
			n++
		}
	}
	return n
}

// TestTheNodeUnmountsItselfWhatAPluginCallsDone: it said OK twice, nobody uses the mount, and it is the one that was
// made. Then the plugin is asked to unstage as always.
func TestTheNodeUnmountsItselfWhatAPluginCallsDone(t *testing.T) {
	p, v := startForgetful(t)
	r := newRig(t, p)
	r.mount(v, "a")
	r.unmount(v, "a")
	calls := p.Calls()
	if n := countOf(calls, "NodeUnpublishVolume"); n != 2 {
		t.Errorf("the plugin had its say %d times: %v", n, calls)
	}
	if n := countOf(calls, "NodeUnstageVolume"); n != 1 {
		t.Errorf("unstaged %d times: %v", n, calls)
	}
	key := requestOf(p, use(v, "a")).Key.StagingKey
	r.atRest()
	if u := r.servers.Undone(key); u == nil || !strings.Contains(u.Reason, "unmounted by node") {
		t.Errorf("reported as undone by %+v", u)
	}
}

// TestTheNodeUnmountsAStagingAndAsksThePluginOnceMore: the last word is the plugin's.
func TestTheNodeUnmountsAStagingAndAsksThePluginOnceMore(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	path := r.mount(v, "a")
	table, err := hostfs.ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Beneath(filepath.Join(r.base(), "s"))) == 0 {
		t.Fatalf("the plugin mounts nothing when it stages, only %s", path)
	}
	p.Rules("(NodeUnstage * ok-without-effect x2)")
	r.unmount(v, "a")
	if n := countOf(p.Calls(), "NodeUnstageVolume"); n != 3 {
		t.Errorf("unstaged %d times: %v", n, p.Calls())
	}
	r.atRest()
}

// TestTheNodeUnmountsNothingThatItDoesNotKnow: what lies on top of the target is not what was seen when it was made.
func TestTheNodeUnmountsNothingThatItDoesNotKnow(t *testing.T) {
	p, v := startForgetful(t)
	r := newRig(t, p)
	path := r.mount(v, "a")
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	done := r.releasing(v, "a")
	r.says("is not what was seen there when it was made")
	table, err := hostfs.ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(table.Beneath(path)); n != 2 {
		t.Errorf("%d mounts are left of 2", n)
	}
	if err := unix.Unmount(path, 0); err != nil {
		t.Fatal(err)
	}
	<-done
	r.atRest()
}

// TestTheNodeDoesNotUnmountBesideALateCall: one that was not answered may still unmount what is there by then. A new
// run of the plugin makes none of the calls of the one before it.
func TestTheNodeDoesNotUnmountBesideALateCall(t *testing.T) {
	p, v := startForgetful(t)
	r := newRig(t, p)
	path := r.mount(v, "a")
	p.Rules("(NodeUnpublish * before DeadlineExceeded once)")
	done := r.releasing(v, "a")
	r.says("an earlier call is unanswered at a plugin that still runs")
	if _, mounted := mustTable(t).At(path); !mounted {
		t.Error("it is not mounted any more")
	}
	r.startAnew()
	<-done
	r.atRest()
}

// TestABusyMountStays: it is never unmounted lazily.
func TestABusyMountStays(t *testing.T) {
	p, v := startForgetful(t)
	r := newRig(t, p)
	path := r.mount(v, "a")
	used, err := os.Create(filepath.Join(path, "used"))
	if err != nil {
		t.Fatal(err)
	}
	done := r.releasing(v, "a")
	r.says("device or resource busy")
	if _, mounted := mustTable(t).At(path); !mounted {
		t.Error("it is not mounted any more")
	}
	if err := errors.Join(os.Remove(used.Name()), used.Close()); err != nil {
		t.Fatal(err)
	}
	<-done
	r.atRest()
}

// TestWhoUnmountsIsOnDiskBefore: after a crash within it, the history would say that the plugin did.
func TestWhoUnmountsIsOnDiskBefore(t *testing.T) {
	p, v := startForgetful(t)
	r := newRig(t, p)
	r.stop()
	unmounted := 0
	r.around = func(ctx context.Context, m entry.Mount, unmount func(context.Context, entry.Mount) error) error {
		unmounted++
		if u := r.recorded().Undone; u == nil || !strings.Contains(u.Reason, "unmounted by node") {
			t.Errorf("the record says of what is unmounted now: %+v", u)
		}
		return unmount(ctx, m)
	}
	r.open()
	r.mount(v, "a")
	r.unmount(v, "a")
	if unmounted != 1 {
		t.Errorf("the node has unmounted %d times", unmounted)
	}
	r.atRest()
}

// recorded is the only record of a volume on disk.
func (r *rig) recorded() (e entry.Entry) {
	r.t.Helper()
	if err := r.store.View(func(tx *kvTx) error {
		for _, key := range tx.Keys("csi-volumes") {
			if _, err := tx.Get("csi-volumes", key, &e); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		r.t.Error(err)
	}
	return e
}

// TestTheNodeUnmountsNothingUnderAnAllocThatRests: of a publication that is to be made anew under an alloc that goes
// on, the plugin's word is needed; its processes are not gone for good.
func TestTheNodeUnmountsNothingUnderAnAllocThatRests(t *testing.T) {
	p, v := startForgetful(t)
	r := newRig(t, p)
	r.stop()
	var unmounted atomic.Bool
	r.around = func(ctx context.Context, m entry.Mount, unmount func(context.Context, entry.Mount) error) error {
		unmounted.Store(true)
		return unmount(ctx, m)
	}
	r.open()
	r.mount(v, "a")
	r.gate.set(func(g *gate) { g.rests["a"] = true })
	anew := requestOf(p, use(v, "a"))
	anew.Generation++
	end, _ := r.begin(anew)
	eventually(t, "the node unmounts, or says why not", func() bool {
		return unmounted.Load() || r.heard("its processes are not proven gone")
	})
	if unmounted.Load() {
		t.Error("unmounted under an alloc that goes on")
	}
	_ = end()
	r.gate.set(func(g *gate) { delete(g.rests, "a") })
	r.unmount(v, "a")
	r.atRest()
}

func mustTable(t *testing.T) *hostfs.Table {
	t.Helper()
	table, err := hostfs.ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestAPersonsWordReleasesWhatThePluginDoesNotUnstage: not while anything of it is there or wanted; then at once, and
// the report says whose word it was.
func TestAPersonsWordReleasesWhatThePluginDoesNotUnstage(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	key := requestOf(p, use(v, "a")).Key.StagingKey
	refused := func(why string) {
		t.Helper()
		if err := r.keeper.ReleaseVolume(key, "looked", "me"); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("released although %s: %v", why, err)
		}
	}
	refused("this node holds nothing of it")
	r.mount(v, "a")
	refused("an allocation on this node wants it")
	p.Rules("(NodeUnstage * before Internal)")
	done := r.releasing(v, "a")
	r.says("NodeUnstageVolume answered Internal")
	eventually(t, "a call is not under way", func() bool {
		err := r.keeper.ReleaseVolume(key, "looked", "me")
		if err == nil {
			t.Fatal("released although it is mounted")
		}
		return strings.Contains(err.Error(), "is mounted at")
	})
	p.Rules("(NodeUnstage * after-effect Internal)")
	eventually(t, "a person's word is taken", func() bool { return r.keeper.ReleaseVolume(key, "looked", "me") == nil })
	<-done
	p.Rules()
	byHand := p.Dial(csi.Options{})
	if _, err := byHand.Negotiate(t.Context(), csi.RoleNode); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // the oracle judges it as a repetition, which rests
	if err := byHand.Unstage(t.Context(), csi.UnstageRequest{
		VolumeID:    v.ID,
		StagingPath: node.StagingPath(r.base(), v.ID),
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is reported", func() bool { return len(r.servers.Entries()) == 0 })
	if u := r.servers.Undone(key); u == nil || u.Proof != volume.ProofAttested || u.Reason != "looked" || u.By != "me" {
		t.Errorf("reported as undone by %+v", u)
	}
	r.atRest()
}
