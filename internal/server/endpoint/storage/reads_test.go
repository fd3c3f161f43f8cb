package storage

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/state"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/localstate"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/wire"
)

// listed is a connection to endpoints over volumes of one plugin, each with an alloc, and twenty nodes that run it.
func listed(t testing.TB, c *localstate.Cluster, count int) wire.Conn {
	t.Helper()
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.PutPlugin(&plugin.Record{ID: "p", Negotiated: true, NodeNegotiated: true})
		for i := range 20 {
			id := ids.Node(fmt.Sprintf("node-%02d", i))
			n := &node.Node{ID: id, Name: string(id), Status: node.StatusReady}
			for _, role := range []plugin.Role{plugin.RoleController, plugin.RoleNode} {
				n.CSI = append(n.CSI, &plugin.Instance{
					Plugin: "p",
					Role:   role,
					Node:   id,
					State:  plugin.Ready,
				})
			}
			pluginjobs.Put(tx, n)
		}
		for i := range count {
			v := &volume.Volume{
				ID: volume.ID{Namespace: "default", ID: ids.Volume(fmt.Sprintf("volume-%05d", i))},
				Spec: volume.Spec{
					Plugin:       "p",
					Capabilities: []volume.Capability{{AccessMode: volume.SingleNodeWriter}},
				},
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
	methods, pipe := wire.NewServer(nil), wire.NewPipe()
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

// Given the same volumes, when an agent asks for lines, then they say what the whole views say, and the plugin comes
// once.
func TestLinesSayWhatViewsSay(t *testing.T) {
	c := localstate.New(t)
	conn := listed(t, c, 3)
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		for i, mode := range []volume.AccessMode{volume.MultiNodeReader, volume.SingleNodeWriter} {
			tx.PutClaim(&volume.Claim{
				Volume:     volume.ID{Namespace: "default", ID: "volume-00001"},
				Plugin:     "p",
				ExternalID: "x-00001",
				Alloc:      ids.Alloc(fmt.Sprint("alloc", i)),
				AccessMode: mode,
			})
		}
		stray := volume.UnknownMount{Dir: ids.Segment("p")}
		stray.Path = "/data/csi/" + stray.Dir + "/" + volume.StagingTail("x-00002")
		tx.PutInventoryHead(&state.InventoryHead{Node: "node-01", Unknown: []volume.UnknownMount{stray}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	req := &wire.VolumeListRequest{Query: wire.Query{Namespace: "default"}}
	whole, err := wire.VolumeList.Call(t.Context(), conn, req)
	if err != nil || len(whole.Items) != 3 || len(whole.Lines) != 0 {
		t.Fatalf("%d views, %d lines, %v", len(whole.Items), len(whole.Lines), err)
	}
	req.Lines = true
	got, err := wire.VolumeList.Call(t.Context(), conn, req)
	if err != nil || len(got.Items) != 0 || len(got.Plugins) != 1 {
		t.Fatalf("%d views, %d plugins, %v", len(got.Items), len(got.Plugins), err)
	}
	var want []wire.VolumeLine
	for _, v := range whole.Items {
		want = append(want, v.Line())
	}
	if diff := cmp.Diff(want, got.Lines); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(whole.Items[0].Plugin, got.Plugins["p"]); diff != "" {
		t.Error(diff)
	}
	for i, usable := range []bool{true, true, false} { // the last is mounted under no name
		if l := got.Lines[i]; l.Schedulable != usable || l.Readers+l.Writers != 2*(i%2) || l.Readers != l.Writers {
			t.Errorf("%s: schedulable %t, %d readers, %d writers", l, l.Schedulable, l.Readers, l.Writers)
		}
	}
}

// Given volumes in several namespaces, when they are read page by page, forwards or backwards, whole or by a prefix,
// then the pages together are the list, also when what a page would begin with has been removed.
func TestPagesOfVolumesTogetherAreTheList(t *testing.T) {
	c := localstate.New(t)
	conn := listed(t, c, 0)
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		for _, ns := range []ids.Namespace{"a", "default", "default-2", "z"} {
			for _, id := range []ids.Volume{"a", "b.1", "b.2", "b.2-x", "ba", "bb", "c"} {
				tx.PutVolume(&volume.Volume{ID: volume.ID{Namespace: ns, ID: id}, Spec: volume.Spec{Plugin: "p"}})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(q wire.Query) (keys []string, next string) {
		t.Helper()
		got, err := wire.VolumeList.Call(t.Context(), conn, &wire.VolumeListRequest{Query: q, Lines: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range got.Lines {
			keys = append(keys, wire.KeyOfVolume(v.ID))
		}
		return keys, got.NextToken
	}
	for _, q := range []wire.Query{
		{Namespace: "default"},
		{Namespace: "default", Prefix: "b"},
		{Namespace: "default", Prefix: "b.2"},
		{Namespace: "default", Prefix: "none"},
		{Namespace: wire.AllNamespaces},
		{Namespace: wire.AllNamespaces, Prefix: "b"},
	} {
		for _, reverse := range []bool{false, true} {
			q.Reverse, q.Page = reverse, wire.Page{Reverse: reverse}
			whole, _ := read(q)
			for q.PerPage = 1; q.PerPage < 9; q.PerPage++ {
				var all []string
				q.NextToken = ""
				for begun := false; !begun || q.NextToken != ""; begun = true {
					keys, next := read(q)
					all, q.NextToken = append(all, keys...), next
				}
				if diff := cmp.Diff(whole, all); diff != "" {
					t.Errorf("%+v: %s", q, diff)
				}
			}
		}
	}
	q := wire.Query{Namespace: "default", Page: wire.Page{PerPage: 2, NextToken: "default.b.15"}}
	if keys, next := read(q); !slices.Equal(keys, []string{"default.b.2", "default.b.2-x"}) || next != "default.ba" {
		t.Errorf("after what is gone: %v, then %s", keys, next)
	}
}

func BenchmarkVolumeList(b *testing.B) {
	for _, count := range []int{500, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			conn := listed(b, localstate.New(b), count)
			req := &wire.VolumeListRequest{Query: wire.Query{Namespace: "default"}, Lines: true}
			for b.Loop() {
				got, err := wire.VolumeList.Call(b.Context(), conn, req)
				if err != nil || len(got.Lines) != count {
					b.Fatalf("%d volumes, %v", len(got.Lines), err)
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
