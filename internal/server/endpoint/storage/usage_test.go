package storage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/volume"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/state"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// meters are nodes that answer what they have measured; one without an answer cannot be reached.
type meters struct {
	t       *testing.T
	answers map[ids.Node]func(*wire.VolumeUsageRequest) (*wire.VolumeUsage, error)
}

func (m meters) Await(_ context.Context, id ids.Node) (wire.Conn, error) { return m.NodeConn(id) }

func (m meters) NodeConn(id ids.Node) (wire.Conn, error) {
	answer := m.answers[id]
	if answer == nil {
		return nil, fault.New(fault.Unavailable, "call", string(id), "it has no connection")
	}
	methods, pipe := wire.NewServer(nil), wire.NewPipe()
	wire.AgentVolumeUsage.Serve(methods,
		func(_ context.Context, r *wire.VolumeUsageRequest) (*wire.VolumeUsage, error) { return answer(r) })
	conn, err := wire.Connect(pipe.Dial)
	if err != nil {
		return nil, err
	}
	g, ctx := lifecycle.NewGroup(m.t.Context())
	g.Go("node", func() error { return methods.Run(ctx, pipe.Listener()) })
	m.t.Cleanup(func() {
		g.Stop()
		if err := errors.Join(conn.Close(), g.Wait()); err != nil {
			m.t.Error(err)
		}
	})
	return conn, nil
}

// TestEveryNodeThatUsesAVolumeSaysHowFullItIs: given a volume that two nodes use, one that cannot be reached, and one
// that has released it, when somebody asks how full it is, then the users answer, the lost one is named, the last is
// not asked; and of differing conditions the worst counts, that of the provider's list among them.
func TestEveryNodeThatUsesAVolumeSaysHowFullItIs(t *testing.T) {
	c := localstate.New(t)
	v := &volume.Volume{
		ID:     volume.ID{Namespace: "default", ID: "db"},
		Spec:   volume.Spec{Plugin: "p"},
		Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x", Presence: volume.Present},
	}
	put := func(fn func(tx *state.Tx)) {
		t.Helper()
		stamp := c.Store.Snapshot().Stamp()
		if err := c.Store.Write(stamp, func(tx *state.Tx) error { fn(tx); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	put(func(tx *state.Tx) {
		tx.PutVolume(v)
		for id, p := range map[ids.Node]volume.Presence{
			"n-1": volume.Present, "n-2": volume.Present, "n-3": volume.Present, "n-4": volume.Absent,
		} {
			tx.PutInventoryEntry(id, volume.InventoryEntry{
				StagingKey:   v.Staging(),
				Publications: []volume.InventoryPublication{{Alloc: ids.Alloc("a-" + id), Presence: p}},
			})
		}
	})
	abnormal := false
	measured := func(r *wire.VolumeUsageRequest) (*wire.VolumeUsage, error) {
		if r.StagingKey != v.Staging() {
			t.Errorf("asked about %+v", r)
		}
		return &wire.VolumeUsage{Node: r.Node, Allocs: []ids.Alloc{ids.Alloc("a-" + r.Node)}, Measured: volume.Measured{
			Bytes:     &volume.Amount{Total: 8, Used: 5},
			Condition: &volume.Condition{Abnormal: abnormal && r.Node == "n-2"},
		}}, nil
	}
	notYet := func(*wire.VolumeUsageRequest) (*wire.VolumeUsage, error) {
		return nil, fault.New(fault.NotFound, "measure", "it", "not measured yet")
	}
	e := New(Config{
		Base: serving.Base{Store: c.Store, Cluster: leader.Alone{}},
		Nodes: meters{t, map[ids.Node]func(*wire.VolumeUsageRequest) (*wire.VolumeUsage, error){
			"n-1": notYet, "n-2": measured, "n-4": measured,
		}},
	})
	ask := func() *wire.VolumeUsageReply {
		t.Helper()
		out, err := e.volumeUsage(t.Context(),
			&wire.Ref[ids.Volume]{Query: wire.Query{Namespace: "default"}, ID: "db"})
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(out.Nodes,
			func(a, b wire.VolumeUsage) int { return strings.Compare(string(a.Node), string(b.Node)) })
		return out
	}
	out := ask()
	if len(out.Nodes) != 3 || out.Abnormal {
		t.Fatalf("%+v", out)
	}
	if got := out.Nodes[0]; got.Node != "n-1" || !strings.Contains(got.Error, "not measured yet") || got.Bytes != nil {
		t.Errorf("a node that has measured nothing yet says %+v", got)
	}
	if got := out.Nodes[1]; got.Bytes == nil || got.Bytes.Used != 5 || len(got.Allocs) != 1 || got.Error != "" {
		t.Errorf("a node that has measured it says %+v", got)
	}
	if got := out.Nodes[2]; got.Node != "n-3" || !strings.Contains(got.Error, "it has no connection") {
		t.Errorf("a node without a connection says %+v", got)
	}
	abnormal = true
	if !ask().Abnormal {
		t.Error("a condition that is abnormal on one node is shown as normal")
	}
	abnormal = false
	n := *v
	n.Status.Observed = &volume.Observed{Abnormal: true}
	put(func(tx *state.Tx) { tx.PutVolume(&n) })
	if !ask().Abnormal {
		t.Error("a condition that is abnormal in the provider's list is shown as normal")
	}
	_, err := e.volumeUsage(t.Context(), &wire.Ref[ids.Volume]{Query: wire.Query{Namespace: "default"}, ID: "none"})
	if !fault.Has(err, fault.NotFound) {
		t.Errorf("of a volume that does not exist: %v", err)
	}
}
