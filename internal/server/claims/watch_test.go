package claims

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/reconcile"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// attached is a state with n volumes, each claimed and attached on node n, about which nothing is to be done.
func attached(t testing.TB, n int) *localstate.Cluster {
	t.Helper()
	c := localstate.New(t)
	if err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.PutNode(&node.Node{ID: "n", Status: node.StatusReady})
		tx.PutPlugin(&plugin.Record{ID: "p", Negotiated: true, NeedsAttach: true})
		for i := range n {
			id := volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(fmt.Sprint("v", i))}
			external := fmt.Sprint("x", i)
			tx.PutVolume(&volume.Volume{ID: id, UID: external, Spec: volume.Spec{Plugin: "p"},
				Status: volume.Status{Phase: volume.PhaseReady, ExternalID: external}})
			tx.PutClaim(claimOf(i))
			tx.PutAttachment(&volume.Attachment{
				Volume:     id,
				UID:        external,
				Node:       "n",
				Plugin:     "p",
				ExternalID: external,
				Presence:   volume.Present,
			})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

func claimOf(i int) *volume.Claim {
	return &volume.Claim{
		Volume:     volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(fmt.Sprint("v", i))},
		UID:        fmt.Sprint("x", i),
		Plugin:     "p",
		ExternalID: fmt.Sprint("x", i),
		Alloc:      ids.Alloc(fmt.Sprint("a", i)),
		Node:       "n",
		State:      volume.Held,
	}
}

// counted runs a keeper whose passes are counted.
func counted(t testing.TB, c *localstate.Cluster) (passes *atomic.Int64, end func()) {
	t.Helper()
	passes = &atomic.Int64{}
	k := New(Config{
		Store:    c.Store,
		Proposer: c,
		Dispatch: controllers.New(),
		Log:      slog.New(slog.DiscardHandler),
	})
	k.loop = reconcile.New(reconcile.Config{Name: "attachments", Parallel: parallel},
		func(ctx context.Context, id volume.StagingKey) (reconcile.Result, error) {
			defer passes.Add(1)
			return k.work(ctx, id)
		})
	g, ctx := lifecycle.NewGroup(t.Context())
	g.Go("keeper", func() error {
		return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
			"loop":  k.loop.Run,
			"watch": k.watch,
			"nodes": k.watchNodes,
		})
	})
	return passes, func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestAWriteIsLookedAtAlone: of many volumes, the one about which something was written is looked at, and none of those
// that wait for nothing when a node changes.
func TestAWriteIsLookedAtAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 300
		c := attached(t, many)
		passes, end := counted(t, c)
		defer end()
		synctest.Wait()
		before := passes.Load() // each, and once more the ones that the first look at the nodes met
		made := func(want int64, when string) {
			t.Helper()
			synctest.Wait()
			if got := passes.Load() - before; got != want {
				t.Errorf("%s: %d passes, want %d", when, got, want)
			}
		}
		c.Must(t, &fsm.NodeEligibility{Node: "n", Eligibility: node.Ineligible})
		made(0, "when a node changed")
		a := *c.Store.Snapshot().Attachment(nil,
			volume.AttachmentKey{StagingKey: volume.StagingKey{Plugin: "p", ExternalID: "x7"}, Node: "n"})
		seen := a.ModifyIndex
		c.Must(t, &fsm.AttachmentPut{Attachment: &a, Seen: seen})
		made(1, "when something was written about one")
	})
}

// BenchmarkAWriteAmongMany is one write about one of many volumes, until the keeper has looked at it.
func BenchmarkAWriteAmongMany(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := attached(b, n)
			passes, end := counted(b, c)
			defer end()
			for passes.Load() < int64(n) {
			}
			key := volume.AttachmentKey{StagingKey: volume.StagingKey{Plugin: "p", ExternalID: "x7"}, Node: "n"}
			for b.Loop() {
				before := passes.Load()
				a := *c.Store.Snapshot().Attachment(nil, key)
				seen := a.ModifyIndex
				c.Must(b, &fsm.AttachmentPut{Attachment: &a, Seen: seen})
				for passes.Load() == before {
				}
			}
		})
	}
}
