package node

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/reporter"
	"berth/internal/model/lineage"
	"berth/internal/wire"
)

// burst is longer than a burst of steps is gathered into one report.
const burst = 10 * time.Millisecond

// TestWhatNobodyWaitsForIsHeldBack: a want is reported at once. What is said of a volume beside that waits for a report
// of allocs, which takes it along; without one it is reported when its time is over. A report that was handed over and
// did not arrive is made anew.
func TestWhatNobodyWaitsForIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vs := newVolumeState(&entry.Entry{Key: testKey})
		k := keeperOf(t, vs)
		servers := &answers{seen: lineage.Point{Incarnation: "i", Index: 7, Mark: "one"}}
		servers.answer = func(*wire.InventoryReport) (*wire.InventoryReply, error) {
			return &wire.InventoryReply{Head: uint64(len(servers.reports))}, nil
		}
		r := &reporter.Reporter{Keeper: k, Servers: servers, Delay: time.Second}
		if out, _ := r.Board(); out != nil {
			t.Errorf("without a connection %+v was handed over", out)
		}
		go func() { _ = r.Run(t.Context()) }()
		sent := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			if len(servers.reports) != want {
				t.Errorf("%s: %d reports, want %d", when, len(servers.reports), want)
			}
		}
		step := func(fn func()) {
			k.mu.Lock()
			fn()
			k.mu.Unlock()
			k.changed.Notify()
			time.Sleep(burst)
		}
		sent(1, "at the beginning")
		step(func() {
			if err := vs.want(grantOf("a")); err != nil {
				t.Error(err)
			}
		})
		sent(2, "after a want")
		step(func() { vs.status = "staging"; vs.on(entry.Described) })
		sent(2, "after a step")
		out, arrived := r.Board()
		if out == nil || len(out.Entries) != 1 || out.Entries[0].Step != "staging" || out.Prev != 2 {
			t.Fatalf("handed over: %+v", out)
		}
		arrived(&wire.InventoryReply{Head: 3})
		if again, _ := r.Board(); again != nil {
			t.Errorf("handed over twice: %+v", again)
		}
		step(func() { vs.status = "publishing"; vs.on(entry.Described) })
		time.Sleep(r.Delay)
		sent(3, "when its time is over")
		step(func() { vs.status = "published"; vs.on(entry.Described) })
		if out, arrived = r.Board(); out == nil {
			t.Fatal("nothing was handed over")
		}
		k.mu.Lock()
		vs.withdraw("a")
		k.mu.Unlock()
		if second, _ := r.Board(); second != nil {
			t.Errorf("handed over beside one that is under way: %+v", second)
		}
		arrived(nil)
		time.Sleep(burst)
		sent(4, "after one that did not arrive")
		if last := servers.reports[len(servers.reports)-1]; !last.Full {
			t.Errorf("after one that did not arrive it says %+v", last)
		}
	})
}
