package storage

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/state"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// listed is a connection to endpoints over volumes of one plugin, each with an alloc, and twenty nodes that run it.
func listed(t testing.TB, c *localstate.Cluster, count int) wire.Conn {
	t.Helper()
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.PutPlugin(&plugin.Record{ID: "p", Negotiated: true, NodeNegotiated: true})
		for i := range 20 {
			id := ids.Node(fmt.Sprintf("node-%02d", i))
			run := &alloc.Alloc{ID: ids.Alloc("plugin-" + string(id)), Namespace: "default", Job: "plugin", Node: id}
			tx.PutAlloc(run)
			n := &node.Node{ID: id, Name: string(id), Status: node.StatusReady}
			for _, role := range []plugin.Role{plugin.RoleController, plugin.RoleNode} {
				n.CSI = append(n.CSI, &plugin.Instance{
					Plugin: "p",
					Role:   role,
					Node:   id,
					State:  plugin.Ready,
					Alloc:  run.ID,
				})
			}
			tx.PutNode(n)
		}
		for i := range count {
			v := &volume.Volume{
				ID:   volume.ID{Namespace: "default", ID: ids.Volume(fmt.Sprintf("volume-%05d", i))},
				Spec: volume.Spec{Plugin: "p"},
				Status: volume.Status{
					Phase:      volume.PhaseReady,
					ExternalID: fmt.Sprintf("x-%05d", i),
					Presence:   volume.Present,
				},
			}
			tx.PutVolume(v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	methods, pipe := wire.NewServer(), wire.NewPipe()
	New(Config{
		Base:     serving.Base{Store: c.Store, Cluster: leader.Alone{}},
		Proposer: c,
		Log:      slog.New(slog.DiscardHandler),
	}).Register(methods)
	conn, err := wire.Connect(pipe.Dial)
	if err != nil {
		t.Fatal(err)
	}
	g, ctx := lifecycle.NewGroup(t.Context())
	g.Go("methods", func() error { return methods.Run(ctx, pipe.Listener()) })
	t.Cleanup(func() {
		g.Stop()
		_ = conn.Close() // in-process
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// TestAListOfVolumesCarriesItsPluginInNumbers: given volumes of a plugin that runs on many nodes, when they are listed,
// then each comes with how many instances there are, and none with the instances themselves.
func TestAListOfVolumesCarriesItsPluginInNumbers(t *testing.T) {
	conn := listed(t, localstate.New(t), 2)
	req := &wire.VolumeListRequest{Query: wire.Query{Namespace: "default"}}
	got, err := wire.VolumeList.Call(t.Context(), conn, req)
	if err != nil || len(got.Items) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, v := range got.Items {
		p := v.Plugin
		if p == nil || p.Record == nil || p.NodesHealthy != 20 || p.ControllersHealthy != 20 || !v.Schedulable {
			t.Fatalf("%s: plugin %+v, schedulable %t", v.Volume.ID, p, v.Schedulable)
		}
		if len(p.Instances) > 0 || len(p.Allocs) > 0 {
			t.Errorf("%s carries %d instances and %d allocs", v.Volume.ID, len(p.Instances), len(p.Allocs))
		}
	}
}

func BenchmarkVolumeList(b *testing.B) {
	for _, count := range []int{500, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			conn := listed(b, localstate.New(b), count)
			req := &wire.VolumeListRequest{Query: wire.Query{Namespace: "default"}}
			for b.Loop() {
				got, err := wire.VolumeList.Call(b.Context(), conn, req)
				if err != nil || len(got.Items) != count {
					b.Fatalf("%d volumes, %v", len(got.Items), err)
				}
			}
		})
	}
}

// Given many blocking reads that began together, when nothing changes, then they end apart.
func TestBlockingReadsDoNotEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		e := New(Config{Base: serving.Base{Store: c.Store, Cluster: leader.Alone{}}})
		q := wire.Query{MinIndex: 1 << 40, Wait: 16 * time.Second}
		leader.EndApart(t, "volumes", q.Wait, func() error {
			_, err := e.volumeList(t.Context(), &wire.VolumeListRequest{Query: q})
			return err
		})
		leader.EndApart(t, "plugins", q.Wait, func() error { _, err := e.pluginList(t.Context(), &q); return err })
	})
}
