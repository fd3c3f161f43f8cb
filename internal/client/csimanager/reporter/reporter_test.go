package reporter_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/reporter"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// inventory is one entry of a node, of which the servers have not heard until they answer.
type inventory struct{ acknowledged []uint64 }

var mounted = []volume.InventoryEntry{
	{StagingKey: volume.StagingKey{Plugin: "p", ExternalID: "x"}, Staging: volume.Present},
}

// Changed implements reporter.Inventory.
func (*inventory) Changed() <-chan struct{} { return nil }

// Repeat implements reporter.Inventory.
func (*inventory) Repeat() ([]volume.InventoryEntry, []volume.UnknownMount, bool) {
	return mounted, nil, false
}

// News implements reporter.Inventory.
func (*inventory) News() csimanager.News { return csimanager.NoNews }

// Report implements reporter.Inventory.
func (i *inventory) Report(full bool) ([]volume.InventoryEntry, []volume.UnknownMount, bool) {
	if full || len(i.acknowledged) == 0 {
		return mounted, nil, true
	}
	return nil, nil, false
}

// Answered implements reporter.Inventory.
func (i *inventory) Answered(entries []volume.InventoryEntry, reply *wire.InventoryReply) {
	if len(entries) == len(mounted) {
		i.acknowledged = append(i.acknowledged, reply.Index)
	}
}

// behind are servers that have taken over a report of this agent run whose answer was lost.
type behind struct {
	head uint64
	sent []wire.InventoryReport
}

// SendInventory implements reporter.Servers.
func (b *behind) SendInventory(_ context.Context, r *wire.InventoryReport) (*wire.InventoryReply, error) {
	b.sent = append(b.sent, *r)
	if r.Prev != b.head {
		return &wire.InventoryReply{Index: b.head, Head: b.head, Stale: true}, nil
	}
	b.head++
	return &wire.InventoryReply{Index: b.head, Head: b.head}, nil
}

// InventoryKnown implements reporter.Servers.
func (*behind) InventoryKnown(context.Context, *wire.InventoryDigest) (bool, error) {
	return false, nil
}

// Seen implements reporter.Servers.
func (*behind) Seen() lineage.Point { return lineage.Point{Incarnation: "i", Mark: "m", Index: 1} }

// Marked implements reporter.Servers.
func (*behind) Marked() <-chan struct{} { return nil }

// Given a report that does not follow the newest one that the servers have, when they say so, then nothing of it
// counts as heard, and everything is reported once more, after the one that they named.
func TestAReportThatWasNotTakenOverIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper, servers := &inventory{}, &behind{head: 7}
		r := &reporter.Reporter{Keeper: keeper, Servers: servers}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(keeper.acknowledged, []uint64{8}) {
			t.Errorf("taken for an acknowledgement: %v, they have taken over the 8th report", keeper.acknowledged)
		}
		if n := len(servers.sent); n != 2 || !servers.sent[1].Full || servers.sent[1].Prev != 7 {
			t.Errorf("sent: %+v", servers.sent)
		}
	})
}

// eager is an inventory that always has something new.
type eager struct{ inventory }

// Report implements reporter.Inventory.
func (*eager) Report(bool) ([]volume.InventoryEntry, []volume.UnknownMount, bool) {
	return mounted, nil, false
}

// slow are servers that take their time.
type slow struct{ behind }

// SendInventory implements reporter.Servers.
func (s *slow) SendInventory(ctx context.Context, r *wire.InventoryReport) (*wire.InventoryReply, error) {
	time.Sleep(100 * time.Millisecond)
	return s.behind.SendInventory(ctx, r)
}

// Given a report of volumes that is under way, and takes longer than news are held back, when allocs are reported, then
// what is new rides with them after it, and is not sent a second time alone.
func TestAReportOfAllocsWaitsForTheOneThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := &slow{}
		r := &reporter.Reporter{Keeper: &eager{}, Servers: servers, Delay: time.Millisecond, Patience: time.Hour}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait() // the first report is under way
		out, arrived := r.Board()
		if out == nil {
			t.Error("what is new is left behind by the report of allocs")
		} else {
			arrived(&wire.InventoryReply{Index: 2, Head: 2})
		}
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if n := len(servers.sent); n != 1 {
			t.Errorf("%d reports went alone, want the first one", n)
		}
	})
}
