package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/reporter"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// burst is longer than a burst of steps is gathered into one report.
const burst = 10 * time.Millisecond

// TestWhatNobodyWaitsForIsHeldBack: a want is reported at once. What is said of a volume beside that waits for a report
// of allocs, which takes it along; without one it is reported when its time is over: soon when it stands in the way. A
// report that was handed over and did not arrive is made anew.
func TestWhatNobodyWaitsForIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vs := newVolumeState(&entry.Entry{Key: testKey})
		k := keeperOf(t, vs)
		servers := &answers{seen: lineage.Point{Incarnation: "i", Index: 7, Mark: "one"}}
		servers.answer = func(*wire.InventoryReport) (*wire.InventoryReply, error) {
			return &wire.InventoryReply{Head: uint64(len(servers.reports))}, nil
		}
		r := &reporter.Reporter{Keeper: k, Servers: servers, Delay: time.Second, Patience: 10 * time.Second}
		if out, _ := r.Board(); out != nil {
			t.Errorf("without a connection %+v was handed over", out)
		}
		go func() { _ = r.Run(t.Context()) }()
		sent := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			k.mu.Lock() // as the reporter does before the next one
			got := len(servers.reports)
			k.mu.Unlock()
			if got != want {
				t.Errorf("%s: %d reports, want %d", when, got, want)
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
		step(func() { vs.says("staging", false); vs.on(entry.Described) })
		sent(2, "after a step")
		out, arrived := r.Board()
		if out == nil || len(out.Entries) != 1 || out.Entries[0].Step != "staging" || out.Prev != 2 {
			t.Fatalf("handed over: %+v", out)
		}
		arrived(&wire.InventoryReply{Head: 3})
		if again, _ := r.Board(); again != nil {
			t.Errorf("handed over twice: %+v", again)
		}
		step(func() { vs.says("publishing", false); vs.on(entry.Described) })
		time.Sleep(r.Delay)
		sent(2, "while a step goes well")
		step(func() { vs.says("the plugin is silent", true); vs.on(entry.Described) })
		sent(2, "just when something came in the way")
		time.Sleep(r.Delay)
		sent(3, "when something has stood in the way")
		step(func() { vs.says("publishing", false); vs.on(entry.Described) })
		time.Sleep(r.Patience - 2*burst)
		sent(3, "before its time is over")
		time.Sleep(2 * burst)
		sent(4, "when its time is over")
		step(func() { vs.says("published", false); vs.on(entry.Described) })
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
		sent(5, "after one that did not arrive")
		if last := servers.reports[len(servers.reports)-1]; !last.Full {
			t.Errorf("after one that did not arrive it says %+v", last)
		}
	})
}

// TestWhatWouldBeRepeatedIsAskedByItsDigest: given a node whose inventory the servers have, when it reaches them again,
// or catches up with a set of allocs, then it asks by a digest of everything, and reports only what they need: whole
// where it was cut off, the change when it has news, and whole under another leadership without asking.
func TestWhatWouldBeRepeatedIsAskedByItsDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vs := madeState(t, "a")
		k := keeperOf(t, vs)
		s := &answers{seen: lineage.Point{Incarnation: "i", Index: 7, Mark: "one"}, marked: make(chan struct{})}
		s.answer = func(*wire.InventoryReport) (*wire.InventoryReply, error) {
			return &wire.InventoryReply{Head: uint64(10 + len(s.reports))}, nil
		}
		answer, refusal := true, error(nil)
		s.known = func(*wire.InventoryDigest) (bool, error) { return answer, refusal }
		r := &reporter.Reporter{Keeper: k, Servers: s, Delay: time.Second}
		var end func()
		begin := func() {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			end = func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		sent := func(when string, digests, reports int) {
			t.Helper()
			synctest.Wait()
			if len(s.digests) != digests || len(s.reports) != reports {
				t.Fatalf("%s: %d digests and %d reports, want %d and %d", when, len(s.digests), len(s.reports),
					digests, reports)
			}
		}
		again := func() { end(); begin() }
		catchUp := func(at lineage.Point) {
			old := s.marked
			s.seen, s.marked = at, make(chan struct{})
			close(old)
		}

		begin()
		sent("at the first connection", 0, 1)
		again()
		sent("at the second", 1, 1)
		whole := s.reports[0]
		digest, err := wire.InventoryDigestOf(whole.Entries, whole.Unknown)
		if err != nil {
			t.Fatal(err)
		}
		if d := s.digests[0]; d.Digest != digest || d.Prev != 11 || d.At != s.seen || !whole.Full {
			t.Errorf("it asks %+v, the report was %+v with the digest %s", d, whole, digest)
		}
		catchUp(lineage.Point{Incarnation: "i", Index: 9, Mark: "one"})
		sent("after another set of allocs", 2, 1)
		catchUp(lineage.Point{Incarnation: "i", Index: 9, Mark: "one"})
		sent("after the same set", 2, 1)

		answer = false
		again()
		sent("when they need it", 3, 2)
		if last := s.reports[1]; !last.Full || len(last.Entries) != 1 || last.Prev != 11 {
			t.Errorf("it reports %+v", last)
		}
		catchUp(lineage.Point{Incarnation: "i", Index: 12, Mark: "one"})
		sent("when they need its silence", 4, 3)
		if last := s.reports[2]; last.Full || len(last.Entries) != 0 || last.At.Index != 12 || last.Prev != 12 {
			t.Errorf("it reports %+v", last)
		}
		answer, refusal = true, fault.New(fault.Unsupported, "call", "method", "not known")
		again()
		sent("when the servers are older", 5, 4)

		refusal = nil
		k.mu.Lock()
		vs.withdraw("a")
		k.mu.Unlock()
		again()
		sent("with news", 5, 5)
		if last := s.reports[4]; !last.Full || last.Entries[0].Publications[0].Wanted {
			t.Errorf("it reports %+v", last)
		}
		catchUp(lineage.Point{Incarnation: "i", Index: 20, Mark: "two"})
		sent("under another leadership", 5, 6)
		if last := s.reports[5]; !last.Full || last.At.Mark != "two" {
			t.Errorf("it reports %+v", last)
		}
		again()
		sent("under the same", 6, 6)
		end()
	})
}

// TestWhatIsNewOfAVolumeIsUrgentByWhoWaits: the last report of an orderly use is its alloc's.
func TestWhatIsNewOfAVolumeIsUrgentByWhoWaits(t *testing.T) {
	acknowledged := func(vs *volumeState) {
		vs.acknowledged["a"] = vs.entry.Pubs["a"].Epoch
		vs.on(entry.Described)
	}
	for name, test := range map[string]struct {
		is   func(k *Keeper, vs *volumeState)
		want csimanager.News
	}{
		"nothing is new": {func(_ *Keeper, vs *volumeState) { vs.on(entry.Reporting); vs.on(entry.Answered) },
			csimanager.NoNews},
		"a want": {func(*Keeper, *volumeState) {}, csimanager.Pressing},
		"a call is under way": {func(_ *Keeper, vs *volumeState) { acknowledged(vs); vs.says("staging", false) },
			csimanager.UnderWay},
		"the plugin is silent": {func(_ *Keeper, vs *volumeState) { acknowledged(vs); vs.says("it is silent", true) },
			csimanager.Standing},
		"a call failed": {func(_ *Keeper, vs *volumeState) { acknowledged(vs); vs.lastErr = context.Canceled },
			csimanager.Standing},
		"its alloc ends the use": {func(k *Keeper, vs *volumeState) {
			acknowledged(vs)
			ended, end := context.WithCancel(t.Context())
			end()
			if err := k.UnmountVolume(ended, volume.PublicationKey{StagingKey: testKey, Alloc: "a"}); err == nil {
				t.Error("unmounted by nobody")
			}
		}, csimanager.UnderWay},
		"another ends the use": {func(_ *Keeper, vs *volumeState) { vs.withdraw("a") }, csimanager.Standing},
		"an alloc that held nothing ends": {func(k *Keeper, vs *volumeState) {
			vs.on(entry.Reporting)
			vs.on(entry.Answered)
			k.Released("b")
		}, csimanager.UnderWay},
	} {
		t.Run(name, func(t *testing.T) {
			vs := madeState(t, "a")
			vs.record.Servers = entry.Outdated
			vs.acknowledged = map[ids.Alloc]volume.Epoch{}
			k := keeperOf(t, vs)
			test.is(k, vs)
			if got := k.News(); got != test.want {
				t.Errorf("it is news of kind %d, want %d", got, test.want)
			}
		})
	}
}
