package shim_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/shim"
	"berth/internal/port/driver"
	"berth/internal/shimproto"
)

// records are what a node would know of its allocs.
type records struct {
	lifecycle.Signal
	mu  sync.Mutex
	all map[ids.Alloc]shim.Standing
}

func (r *records) Standing(id ids.Alloc) shim.Standing {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[id]
}

func (r *records) Changed() <-chan struct{} { return r.C() }

func (r *records) set(id string, s shim.Standing) {
	r.mu.Lock()
	if r.all == nil {
		r.all = map[ids.Alloc]shim.Standing{}
	}
	r.all[ids.Alloc(id)] = s
	r.mu.Unlock()
	r.Notify()
}

// keep runs a keeper until the test ends.
func keep(t *testing.T, l *shim.Launcher, r *records) (k *shim.Keeper, log func() string) {
	var mu sync.Mutex
	var text bytes.Buffer
	lines := writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return text.Write(b)
	})
	k = shim.NewKeeper(shim.KeeperConfig{Launcher: l, Records: r, Period: 300 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(lines, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("keeper", func() error { return k.Run(gctx) })
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return k, func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// TestTheKeeperEndsWhatHasEndedAndKeepsWhatNobodyKnows: given shims of allocs that run, that have ended, and that no
// record knows, when the keeper looks, then each gets what it should, and the log says so.
func TestTheKeeperEndsWhatHasEndedAndKeepsWhatNobodyKnows(t *testing.T) {
	l, r := newLauncher(t), &records{}
	run := func() (string, driver.Process) {
		id := ids.New()
		return id, start(t, l, id, "exec sleep 1000", nil)
	}
	mine, running := run()
	over, ended := run()
	lost, orphan := run()
	r.set(mine, shim.Active)
	r.set(over, shim.Ended)
	empty, idle := run()
	one := web(1)
	ask(t, idle.Handle().Socket, shimproto.TypeKill, &shimproto.Kill{Named: one}, &shimproto.Exit{})
	ask(t, idle.Handle().Socket, shimproto.TypeForget, &one, &shimproto.Forgotten{})
	dead, killed := run()
	if err := unix.Kill(killed.Handle().ShimPID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the task has died with its shim", func() bool {
		return zombie(killed.Handle().PID) && zombie(killed.Handle().ShimPID)
	})

	k, log := keep(t, l, r)
	until(t, "the keeper has looked", func() bool { gone, _ := k.Gone(ids.Alloc(ids.New())); return gone })

	for name, p := range map[string]driver.Process{over: ended, empty: idle, dead: killed} {
		if !zombie(p.Handle().ShimPID) {
			t.Errorf("the shim of %s lives; the log:\n%s", name, log())
		}
		if _, err := os.Stat(p.Handle().Socket); !os.IsNotExist(err) {
			t.Errorf("the socket of %s: %v", name, err)
		}
	}
	for name, p := range map[string]driver.Process{mine: running, lost: orphan} {
		if !alive(p.Handle().PID) {
			t.Errorf("the task of %s was ended; the log:\n%s", name, log())
		}
	}
	all := k.Orphans()
	if len(all) != 1 || string(all[0].Alloc) != lost || len(all[0].Tasks) != 1 ||
		all[0].Tasks[0].PID != orphan.Handle().PID {
		t.Errorf("orphans: %+v", all)
	}
	if gone, why := k.Gone(ids.Alloc(lost)); gone || !strings.Contains(why, "orphan") {
		t.Errorf("the orphan's processes are gone: %t, %s", gone, why)
	}
	for _, words := range [][]string{
		{"WARN", over, "has ended"}, {"WARN", lost, "orphan"}, {"INFO", empty, "holds nothing"},
	} {
		if !logged(log(), words...) {
			t.Errorf("the log does not say %v:\n%s", words, log())
		}
	}

	if t.Failed() {
		return
	}
	// What happens later is seen too, and reported once.
	r.set(lost, shim.Ended)
	until(t, "the orphan whose record came back is ended", func() bool { return zombie(orphan.Handle().ShimPID) })
	until(t, "it is no orphan any more", func() bool { return len(k.Orphans()) == 0 })
	if !alive(running.Handle().PID) {
		t.Error("the task that runs was ended")
	}
	if n := strings.Count(log(), "it is an orphan"); n != 1 {
		t.Errorf("the orphan was reported %d times", n)
	}
}

func logged(log string, words ...string) bool {
	for line := range strings.Lines(log) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return true
		}
	}
	return false
}

// TestTheKeeperSeesWhatAppearsLater: given a keeper that has looked, when a shim appears that no record knows, then
// it is found without waiting for the period; when its tasks end by themselves, nothing of it is reported to run.
func TestTheKeeperSeesWhatAppearsLater(t *testing.T) {
	l, r := newLauncher(t), &records{}
	k, log := keep(t, l, r)
	until(t, "the keeper has looked", func() bool { gone, _ := k.Gone("x"); return gone })
	id, flag := ids.New(), tempDir(t)
	p := start(t, l, id, "while test -e "+flag+"; do sleep 0.02; done", nil)
	until(t, "the orphan is found", func() bool { return len(k.Orphans()) == 1 })
	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(short(t)); err != nil || !exit.Successful() {
		t.Fatalf("exit %+v, %v", exit, err)
	}
	r.Notify()
	until(t, "its processes are gone", func() bool { gone, _ := k.Gone(ids.Alloc(id)); return gone })
	if all := k.Orphans(); len(all) != 1 || !all[0].Tasks[0].Ended {
		t.Errorf("its shim, which alone knows how it ended, is gone: %+v\n%s", all, log())
	}
	if err := os.Mkdir(flag, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestTheKeeperLeavesCgroupsOfOthersAlone: given cgroups of allocs without a socket, then only those go whose alloc
// is on record as ended: the slice is shared with other agents. What runs in the others is not gone, though no shim of
// this agent holds it: their volumes stay mounted until it is.
func TestTheKeeperLeavesCgroupsOfOthersAlone(t *testing.T) {
	ours, theirs := newLauncher(t), newLauncher(t)
	r := &records{}
	foreign, old := ids.New(), ids.New()
	p := start(t, theirs, foreign, "exec sleep 1000", nil)
	q := start(t, theirs, old, "exec sleep 1000", nil) // its socket is not where ours are
	r.set(old, shim.Ended)
	k, log := keep(t, ours, r)
	until(t, "the keeper has looked", func() bool { gone, _ := k.Gone("x"); return gone })
	if !alive(p.Handle().PID) {
		t.Errorf("another agent's task was ended:\n%s", log())
	}
	until(t, "what is left of the alloc that has ended is killed", func() bool { return zombie(q.Handle().PID) })
	if _, err := p.Stats(short(t)); err != nil {
		t.Error(err)
	}
	if gone, why := k.Gone(ids.Alloc(foreign)); gone || !strings.Contains(why, "cgroup") {
		t.Errorf("what another agent runs of the alloc is gone: %t, %q", gone, why)
	}
	if err := theirs.End(short(t), ids.Alloc(foreign)); err != nil {
		t.Fatal(err)
	}
	if gone, why := k.Gone(ids.Alloc(foreign)); !gone {
		t.Errorf("after the end of its processes: %s", why)
	}
}

// TestAnUnreachableShimHoldsUpNobody: given a frozen shim that no record knows, then it counts as an orphan whose
// processes live, and the others are looked at.
func TestAnUnreachableShimHoldsUpNobody(t *testing.T) {
	l, r := newLauncher(t), &records{}
	frozen := ids.New()
	p := start(t, l, frozen, "exec sleep 1000", nil)
	if err := unix.Kill(p.Handle().ShimPID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Kill(p.Handle().ShimPID, unix.SIGCONT); err != nil {
			t.Error(err)
		}
	})
	until(t, "it is frozen", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Handle().ShimPID))
		return err == nil && strings.Contains(string(stat), "T (stopped)")
	})
	k, _ := keep(t, l, r)
	until(t, "it is found", func() bool { return len(k.Orphans()) == 1 })
	if h := k.Orphans()[0]; !fault.Has(h.Err, fault.Timeout) {
		t.Errorf("held: %+v", h)
	}
	if gone, why := k.Gone(ids.Alloc(frozen)); gone {
		t.Errorf("a shim that does not answer has no processes: %s", why)
	}
}

// TestEndAllLeavesNothing: given shims of every kind, then EndAll ends them all.
func TestEndAllLeavesNothing(t *testing.T) {
	dir := tempDir(t)
	l := launcherAt(t, dir)
	var pids []int
	for range 12 {
		pids = append(pids, start(t, l, ids.New(), "trap '' TERM INT; while :; do sleep 0.1; done", nil).Handle().PID)
	}
	begun := time.Now()
	if err := launcherAt(t, dir).EndAll(short(t)); err != nil {
		t.Fatal(err)
	}
	t.Log("took", time.Since(begun))
	for _, pid := range pids {
		if !zombie(pid) {
			t.Errorf("process %d lives", pid)
		}
	}
	if left := sockets(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestNothingIsGoneBeforeTheFirstLook: storage must not be undone on the answer of a keeper that has not looked.
func TestNothingIsGoneBeforeTheFirstLook(t *testing.T) {
	k := shim.NewKeeper(shim.KeeperConfig{Launcher: newLauncher(t), Records: &records{}})
	if gone, why := k.Gone("x"); gone || why == "" {
		t.Errorf("gone: %t, %q", gone, why)
	}
}
