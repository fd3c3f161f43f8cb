package node_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/entry"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/testkit/inventory"
	"berth/internal/wire"
)

// nodeCalls are the calls that make or undo something on the node.
func (r *rig) nodeCalls() (out []string) {
	for _, c := range r.p.Calls() {
		for _, prefix := range []string{"NodeStage", "NodePublish", "NodeUn"} {
			if strings.HasPrefix(c, prefix) {
				out = append(out, c)
			}
		}
	}
	return out
}

// begin asks for a mount and does not wait for it; what it waits for is sent to said.
func (r *rig) begin(g csimanager.MountRequest) (end func() error, said <-chan string) {
	ctx, cancel := context.WithCancel(r.t.Context())
	reasons, done := make(chan string, 100), make(chan error, 1)
	keeper := r.keeper
	go func() {
		_, err := keeper.MountVolume(ctx, withProgress(g, func(s string) { reasons <- s }))
		done <- err
	}()
	return func() error { cancel(); return <-done }, reasons
}

// anyEntry tells reports of a volume. The first report of a node has none, and may come late: one that is held would
// keep the next from being sent.
func anyEntry(r *wire.InventoryReport) bool { return len(r.Entries) > 0 }

// awaitWaiting waits until a mount says that it waits for the servers.
func awaitWaiting(t testing.TB, said <-chan string) {
	t.Helper()
	for reason := ""; reason != string(entry.WaitServers); {
		select {
		case reason = <-said:
		case <-time.After(time.Minute):
			t.Fatalf("it does not wait for the servers, the last it said is %q", reason)
		}
	}
}

func (r *rig) awaitReported(v csi.Volume, alloc string) {
	r.t.Helper()
	eventually(r.t, "the servers have heard of the want of "+alloc, func() bool {
		return r.servers.Believe(requestOf(r.p, use(v, alloc)).Key)
	})
}

// TestNothingIsMadeBeforeTheServersAcknowledged: a want is reported, and acted on when the answer is there.
func TestNothingIsMadeBeforeTheServersAcknowledged(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	release := r.servers.Hold(anyEntry)
	end, said := r.begin(requestOf(p, use(v, "a")))
	r.awaitReported(v, "a")
	awaitWaiting(t, said)
	if calls := r.nodeCalls(); len(calls) != 0 {
		t.Errorf("made before the servers acknowledged it: %v", calls)
	}
	release()
	r.mount(v, "a")
	_ = end()
	r.unmount(v, "a")
	r.atRest()
}

// TestAWithdrawnWantThatWasReportedIsTakenBack: an alloc stops before anything was made for it. Whatever became of the
// report of its want, the servers hear that it wants nothing any more.
func TestAWithdrawnWantThatWasReportedIsTakenBack(t *testing.T) {
	for name, fault := range map[string]inventory.Fault{"the answer comes late": inventory.None,
		"the answer is lost": inventory.LostAnswer} {
		t.Run(name, func(t *testing.T) {
			p, v := startPlugin(t)
			r := newRig(t, p)
			r.servers.Faults(once(fault, func() bool { return r.keeper.Entries() > 0 }))
			release := r.servers.Hold(anyEntry)
			end, _ := r.begin(requestOf(p, use(v, "a")))
			r.awaitReported(v, "a")
			_ = end()
			r.unmount(v, "a") // the answer is still out: it does not wait for the servers
			release()
			r.atRest()
			if calls := r.nodeCalls(); len(calls) != 0 {
				t.Errorf("calls: %v", calls)
			}
		})
	}
}

// once is a fault of the first report for which when holds.
func once(f inventory.Fault, when func() bool) func() inventory.Fault {
	done := false
	return func() inventory.Fault {
		if done || !when() {
			return inventory.None
		}
		done = true
		return f
	}
}

// TestAWantThatWasReportedAndLostInACrashIsTakenBack: the next run's first report is whole.
func TestAWantThatWasReportedAndLostInACrashIsTakenBack(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	release := r.servers.Hold(anyEntry)
	defer release()
	end, _ := r.begin(requestOf(p, use(v, "a")))
	r.awaitReported(v, "a")
	p.Mark(proxy.CallerCrashed, proxy.Entry{})
	r.kill()
	_ = end()
	release()
	r.open()
	r.atRest()
}

// TestAWantBetweenTheQuietReportAndItsAnswer: an alloc asks again while the servers drop what it wanted before. It is
// mounted only when they know of it again.
func TestAWantBetweenTheQuietReportAndItsAnswer(t *testing.T) {
	for _, second := range []string{"a", "b"} {
		t.Run(second, func(t *testing.T) {
			p, v := startPlugin(t)
			r := newRig(t, p)
			r.mount(v, "a")
			release := r.servers.Hold(func(i *wire.InventoryReport) bool {
				return len(i.Entries) == 1 && i.Entries[0].Quiet()
			})
			r.unmount(v, "a")
			eventually(t, "the servers have dropped it", func() bool { return len(r.servers.Entries()) == 0 })
			before := len(r.nodeCalls())
			end, said := r.begin(requestOf(p, use(v, second)))
			awaitWaiting(t, said)
			if calls := r.nodeCalls()[before:]; len(calls) != 0 {
				t.Errorf("made although the servers have dropped it: %v", calls)
			}
			release()
			r.mount(v, second)
			_ = end()
			if !r.servers.Believe(requestOf(p, use(v, second)).Key) {
				t.Error("it is mounted, and the servers do not know")
			}
			r.unmount(v, second)
			r.atRest()
		})
	}
}

// TestAnAnswerAfterTheWithdrawalAcknowledgesNothing: the servers' answer to a report that names a want says nothing
// about the same want after it was withdrawn and dropped.
func TestAnAnswerAfterTheWithdrawalAcknowledgesNothing(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	published := func(es []volume.InventoryEntry) bool {
		return len(es) == 1 && slices.ContainsFunc(es[0].Publications, func(p volume.InventoryPublication) bool {
			return p.Alloc == "a" && p.Presence == volume.Present
		})
	}
	r.mount(v, "b") // so that the volume stays
	release := r.servers.Hold(func(i *wire.InventoryReport) bool { return published(i.Entries) })
	r.gate.set(func(g *gate) { g.live["a"] = true })
	r.mount(v, "a")
	eventually(t, "the servers have heard of the publication", func() bool { return published(r.servers.Entries()) })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // runs out under the living process
	defer cancel()
	if err := r.Unmount(ctx, use(v, "a")); err == nil {
		t.Error("released under a living process")
	}
	release()
	eventually(t, "the servers know that it is not wanted", func() bool {
		return !slices.ContainsFunc(r.servers.Entries()[0].Publications, func(p volume.InventoryPublication) bool {
			return p.Alloc == "a" && p.Wanted
		})
	})
	r.gate.set(func(g *gate) { delete(g.live, "a") })
	eventually(t, "the servers have dropped it", func() bool {
		return !r.servers.Believe(requestOf(p, use(v, "a")).Key)
	})
	release = r.servers.Hold(anyEntry)
	end, said := r.begin(requestOf(p, use(v, "a")))
	awaitWaiting(t, said)
	release()
	_ = end()
	r.unmount(v, "a")
	r.unmount(v, "b")
	r.atRest()
}

// TestAnOrderlyEndIsReportedAfterTheRestart: the agent ends before the servers acknowledged the release.
func TestAnOrderlyEndIsReportedAfterTheRestart(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	r.servers.Faults(func() inventory.Fault { return inventory.LostReport })
	r.unmount(v, "a")
	if !r.servers.Believe(requestOf(p, use(v, "a")).Key) || r.records() != 1 {
		t.Error("forgotten before it was reported to the servers")
	}
	r.stop()
	r.servers.Faults(func() inventory.Fault { return inventory.None })
	r.open()
	r.atRest()
}

// TestAVoidClaimIsCleanedUp: the servers ended the claim by proof; the node takes everything of it away, and says so.
func TestAVoidClaimIsCleanedUp(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	g := requestOf(p, use(v, "a"))
	r.servers.End(g.Key, g.Epoch)
	r.keeper.Released("another") // any report will do; this one is a delta without the entry
	r.mount(v, "b")              // and this one names it
	eventually(t, "the publication is gone", func() bool {
		return r.keeper.Mounted(r.t.Context(), g.Key, false) != nil && !r.servers.Believe(g.Key)
	})
	r.unmount(v, "b")
	r.atRest()
}

// TestAnotherEpochIsAcknowledgedAnew: a new claim of the same alloc is not covered by what the servers said of the old.
func TestAnotherEpochIsAcknowledgedAnew(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	g := requestOf(p, use(v, "a"))
	g.Epoch.Index++
	named := func(es []volume.InventoryEntry) bool {
		return len(es) == 1 && len(es[0].Publications) == 1 && es[0].Publications[0].Epoch == g.Epoch
	}
	release := r.servers.Hold(func(i *wire.InventoryReport) bool { return named(i.Entries) })
	g.Generation++ // the staging is to be made anew
	end, said := r.begin(g)
	eventually(t, "what was made under the old claim is undone", func() bool {
		return strings.HasSuffix(strings.Join(r.nodeCalls(), " "), "NodeUnstageVolume")
	})
	awaitWaiting(t, said)
	if calls := strings.Join(r.nodeCalls(), " "); !strings.HasSuffix(calls, "NodeUnstageVolume") {
		t.Errorf("calls: %s", calls)
	}
	release()
	if err := r.mountBy(g); err != nil {
		t.Error(err)
	}
	_ = end()
	r.unmount(v, "a")
	r.atRest()
}
