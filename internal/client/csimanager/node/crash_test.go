package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/client/csimanager/entry"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// breaker is a codec whose writes of volume records fail from the n-th on: what a crash at that moment leaves on disk.
type breaker struct {
	mu     sync.Mutex
	left   int
	broken context.CancelFunc
}

var errCrash = errors.New("the process is dead")

func (b *breaker) encode(v any) ([]byte, error) {
	if _, ok := v.(*entry.Entry); ok {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.left--; b.left < 0 {
			b.broken()
			return nil, errCrash
		}
	}
	return codec.Encode(v)
}

// TestACrashAtEveryWriteOfTheJournal kills the keeper at each write while two allocs mount and unmount, and lets
// the next run finish. The oracle judges every order of calls that comes of it.
func TestACrashAtEveryWriteOfTheJournal(t *testing.T) { crashAtEveryWrite(t, startPlugin, false) }

// TestACrashAtEveryWriteWhileTheNodeUnmountsItself: of a plugin that forgets each publication and leaves its mount. It
// is started anew with the agent: a call whose answer nobody heard holds up the node's own unmounting until then.
func TestACrashAtEveryWriteWhileTheNodeUnmountsItself(t *testing.T) {
	if testing.Short() {
		t.Skip("each of its runs waits for a plugin to be asked twice: not in a short run")
	}
	crashAtEveryWrite(t, startForgetful, true)
}

// TestACrashAtEveryWriteWhileTheNodeUnmountsAStaging: of a plugin that answers OK to unstagings and does nothing.
func TestACrashAtEveryWriteWhileTheNodeUnmountsAStaging(t *testing.T) {
	if testing.Short() {
		t.Skip("each of its runs waits for a plugin to be asked twice: not in a short run")
	}
	crashAtEveryWrite(t, startIdle, true)
}

func crashAtEveryWrite(
	t *testing.T, start func(testing.TB, ...string) (*csitest.Plugin, csi.Volume), startedAnew bool,
) {
	for n := 0; ; n++ {
		whole := false
		ok := t.Run(fmt.Sprint(n), func(t *testing.T) {
			p, v := start(t)
			r := newRig(t, p)
			r.kill()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b := &breaker{left: n, broken: cancel}
			r.codec.Encode = b.encode
			r.open()
			whole = mountTwice(ctx, r, v)
			p.Mark(proxy.CallerCrashed, proxy.Entry{})
			r.kill()
			r.codec = codec
			r.open()
			if startedAnew {
				r.startAnew()
			}
			if !mountTwice(t.Context(), r, v) {
				t.Error("the second run did not get through")
			}
			r.atRest()
		})
		if !ok || whole {
			if n < 6 {
				t.Errorf("%d writes in a whole run: the journal is not kept", n)
			}
			t.Logf("%d writes in a run with two allocs", n)
			return
		}
	}
}

// TestACrashAroundTheNodesOwnUnmount: the agent dies in front of the helper's unmounting, or when that is done and
// nothing has been written since; of a publication, and of a staging. The next run finishes, and the history says who
// unmounted.
func TestACrashAroundTheNodesOwnUnmount(t *testing.T) {
	for what, start := range map[string]func(testing.TB, ...string) (*csitest.Plugin, csi.Volume){
		"publication": startForgetful, "staging": startIdle} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after it: %v", what, after), func(t *testing.T) {
				crashAroundUnmount(t, start, after)
			})
		}
	}
}

// startIdle starts a plugin that answers OK to the first unstagings and does nothing, as many as it takes until the
// node helps itself, and a crash of the node besides.
func startIdle(t testing.TB, _ ...string) (*csitest.Plugin, csi.Volume) {
	t.Helper()
	return startPlugin(t, "(NodeUnstage * ok-without-effect x4)")
}

func crashAroundUnmount(
	t *testing.T, start func(testing.TB, ...string) (*csitest.Plugin, csi.Volume), after bool,
) {
	p, v := start(t)
	r := newRig(t, p)
	r.kill()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const plenty = 1000
	b := &breaker{left: plenty, broken: cancel}
	r.codec.Encode = b.encode
	var path string
	r.around = func(ctx context.Context, m entry.Mount, unmount func(context.Context, entry.Mount) error) error {
		path = m.Path
		if after {
			if err := unmount(ctx, m); err != nil {
				t.Error(err)
			}
		}
		b.mu.Lock()
		b.left = 0
		b.mu.Unlock()
		cancel()
		return errCrash
	}
	r.open()
	r.mount(v, "a")
	if err := r.Unmount(ctx, use(v, "a")); err == nil {
		t.Fatal("it was released without the node's own unmounting")
	}
	p.Mark(proxy.CallerCrashed, proxy.Entry{})
	r.kill()
	if _, mounted := mustTable(t).At(path); path == "" || mounted == after {
		t.Errorf("%q is mounted: %v", path, mounted)
	}
	r.codec, r.around = codec, nil
	r.open()
	r.unmount(v, "a")
	r.atRest()
	key := requestOf(p, use(v, "a")).Key.StagingKey
	if u := r.servers.Undone(key); u == nil || !strings.Contains(u.Reason, "unmounted by node") {
		t.Errorf("reported as undone by %+v", u)
	}
}

// mountTwice lets two allocs mount and unmount one volume, and reports whether all of it went through.
func mountTwice(ctx context.Context, r *rig, v csi.Volume) bool {
	for _, step := range []func() error{
		func() error { _, err := r.Mount(ctx, use(v, "a")); return err },
		func() error { _, err := r.Mount(ctx, use(v, "b")); return err },
		func() error { return r.Unmount(ctx, use(v, "a")) },
		func() error { return r.Unmount(ctx, use(v, "b")) },
	} {
		if step() != nil {
			return false
		}
	}
	return true
}

// TestTheNumberOfWrites counts what one start and one release cost on disk.
func TestTheNumberOfWrites(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.kill()
	const plenty = 1000
	b := &breaker{left: plenty, broken: func() {}}
	r.codec.Encode = b.encode
	r.open()
	count := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		n := plenty - b.left
		b.left = plenty
		return n
	}
	r.mount(v, "a")
	eventually(t, "the start is written", func() bool { return !r.keeper.Dirty() })
	if n := count(); n > 3 {
		t.Errorf("%d writes for a start, at most 3 are needed", n)
	}
	r.unmount(v, "a")
	if n := count(); n > 2 {
		t.Errorf("%d writes for a release, at most 2 are needed", n)
	}
	r.atRest()
}

// TestAQuietRestartCallsNothing is invariant I20: with verified mounts a restart makes no mutating call.
func TestAQuietRestartCallsNothing(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	path := r.mount(v, "a")
	eventually(t, "the start is written", func() bool { return !r.keeper.Dirty() })
	from := time.Now()
	r.stop()
	r.open()
	if got := r.mount(v, "a"); got != path {
		t.Errorf("after the restart it is at %s, before at %s", got, path)
	}
	time.Sleep(300 * time.Millisecond)
	quiet := oracle.Quiet{From: from, To: time.Now()}
	p.Tell(func(f *oracle.Facts) { f.Quiet.Add(quiet) })
	if calls := strings.Join(p.Calls(), " "); strings.Count(calls, "NodeStage") != 1 ||
		strings.Count(calls, "NodePublish") != 1 {
		t.Errorf("calls: %s", calls)
	}
	r.unmount(v, "a")
	r.atRest()
}

// TestTwoAllocsSurviveAKillAndOneStop demands that nothing is unstaged under the other.
func TestTwoAllocsSurviveAKillAndOneStop(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	a, b := r.mount(v, "a"), r.mount(v, "b")
	if err := os.WriteFile(filepath.Join(b, "counter"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Mark(proxy.CallerCrashed, proxy.Entry{})
	r.kill()
	r.open()
	r.unmount(v, "a")
	if calls := strings.Join(p.Calls(), " "); strings.Contains(calls, "NodeUnstage") {
		t.Errorf("unstaged under the other alloc: %s", calls)
	}
	if got, err := os.ReadFile(filepath.Join(b, "counter")); err != nil || string(got) != "1" {
		t.Errorf("the other alloc reads %q, %v", got, err)
	}
	if _, err := os.Lstat(a); !os.IsNotExist(err) {
		t.Errorf("the target of a is left: %v", err)
	}
	r.unmount(v, "b")
	r.atRest()
}

// TestALostJournalIsRebuiltFromIDFiles loses the journal, or damages it: what is mounted is adopted, never forgotten.
func TestALostJournalIsRebuiltFromIDFiles(t *testing.T) {
	for _, c := range []string{"gone", "damaged"} {
		t.Run(c, func(t *testing.T) {
			p, v := startPlugin(t)
			r := newRig(t, p)
			r.mount(v, "a")
			r.mount(v, "b")
			p.Mark(proxy.CallerCrashed, proxy.Entry{})
			eventually(t, "the start is written", func() bool { return !r.keeper.Dirty() })
			if c == "damaged" {
				damage(t, r)
			}
			r.kill()
			r.gate.set(func(g *gate) { g.unknown["b"] = true })
			if c == "gone" {
				if err := os.Remove(filepath.Join(r.dir, "kv")); err != nil {
					t.Fatal(err)
				}
			}
			r.open()
			if c == "gone" {
				r.declare(0)
			}
			eventually(t, "what nobody wants any more is released", func() bool {
				return len(r.keeper.Publications("b")) == 0
			})
			path := r.mount(v, "a")
			if err := os.WriteFile(filepath.Join(path, "x"), nil, 0o600); err != nil {
				t.Error(err)
			}
			r.unmount(v, "a")
			r.atRest()
		})
	}
}

// damage cuts the volume's record in half.
func damage(t *testing.T, r *rig) {
	t.Helper()
	if err := r.store.Update(func(tx *kvTx) error {
		for _, key := range tx.Keys("csi-volumes") {
			if err := tx.Put("csi-volumes", key, "no record"); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestAnotherBootStagesAnew: what another boot mounted is gone and is made again.
func TestAnotherBootStagesAnew(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	eventually(t, "the start is written", func() bool { return !r.keeper.Dirty() })
	p.Mark(proxy.CallerCrashed, proxy.Entry{})
	r.kill()
	p.LoseMounts()
	p.Crash()
	r.boot = "boot-2"
	r.open()
	key := requestOf(p, use(v, "a")).Key
	if err := r.keeper.Mounted(r.t.Context(), key, false); err == nil {
		t.Error("a task would start on a target that is not mounted")
	}
	r.mount(v, "a")
	r.unmount(v, "a")
	r.atRest()
}

// TestTheStagingRootDeletedByHandIsMadeAnew: staging directories are made at each staging, not once.
func TestTheStagingRootDeletedByHandIsMadeAnew(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	r.unmount(v, "a")
	if err := os.RemoveAll(r.base()); err != nil {
		t.Fatal(err)
	}
	r.mount(v, "b")
	st, err := os.Stat(filepath.Join(r.base(), "s"))
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st, err)
	}
	r.unmount(v, "b")
	r.atRest()
}

// TestASlowStageSurvivesAShutdown: the call is abandoned, known to be uncertain, and repeated with equal arguments.
func TestASlowStageSurvivesAShutdown(t *testing.T) {
	p, v := startPlugin(t, "(NodeStage * delay 3s once)")
	r := newRig(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // runs out while the plugin stages
	defer cancel()
	if _, err := r.Mount(ctx, use(v, "a")); err == nil {
		t.Fatal("mounted while the plugin was still staging")
	}
	p.Mark(proxy.CallerCrashed, proxy.Entry{})
	r.stop()
	r.open()
	r.mount(v, "a")
	r.unmount(v, "a")
	r.atRest()
}

// TestBusyUnpublishHoldsEverythingBehindIt: a failure moves nothing, so no unstage and no detach follow it.
func TestBusyUnpublishHoldsEverythingBehindIt(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for real pauses between tries: not in a short run")
	}
	p, v := startPlugin(t, "(NodeUnpublish * before Internal)")
	r := newRig(t, p)
	r.mount(v, "a")
	r.refusedWith(v, "a", "NodeUnpublish")
	if calls := strings.Join(p.Calls(), " "); strings.Contains(calls, "NodeUnstage") {
		t.Errorf("unstaged under a publication: %s", calls)
	}
	p.Rules()
	r.unmount(v, "a")
	r.atRest()
}

// TestNothingIsUndoneBeforeItIsSafe: neither before the node is armed nor under a living process.
func TestNothingIsUndoneBeforeItIsSafe(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	r.gate.set(func(g *gate) { g.armed, g.live["a"] = false, true })
	r.refusedWith(v, "a", string(entry.WaitArmed))
	r.gate.set(func(g *gate) { g.armed = true })
	r.refusedWith(v, "a", "a process lives")
	if calls := strings.Join(p.Calls(), " "); strings.Contains(calls, "Un") {
		t.Errorf("calls: %s", calls)
	}
	r.gate.set(func(g *gate) { delete(g.live, "a") })
	r.unmount(v, "a")
	r.atRest()
}

// TestTheWantIsWithdrawnWhenTheAllocIsUnknown: the journal drives the clean-up of an alloc that nobody knows any more.
func TestTheWantIsWithdrawnWhenTheAllocIsUnknown(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	r.gate.set(func(g *gate) { g.unknown["a"] = true })
	eventually(t, "everything of the alloc is released", func() bool {
		return strings.Contains(strings.Join(p.Calls(), " "), "NodeUnstageVolume")
	})
	eventually(t, "and forgotten", func() bool { return len(r.keeper.Publications("a")) == 0 })
	r.atRest()
}
