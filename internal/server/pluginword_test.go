package server_test

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// TestANodeIsNoControllerByItsWord: given a node that says to run the controller of a plugin, when a volume is made,
// then it is not asked, before the servers have placed the plugin there: it would be handed the volume's secrets.
func TestANodeIsNoControllerByItsWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 1)
		lead := c.Leader()
		a := newAgent(t, c, lead)
		said := &plugin.Instance{
			Plugin:       "p",
			Role:         plugin.RoleController,
			Alloc:        ids.Alloc(ids.New()),
			Node:         a.Node,
			State:        plugin.Ready,
			Provider:     "evil.provider",
			Scope:        plugin.ScopeCluster,
			Capabilities: plugin.Capabilities{ControllerService: true, CreateDelete: true},
			Updated:      time.Now().AddDate(100, 0, 0),
		}
		register := func() {
			if _, err := wire.NodeRegister.Call(t.Context(), a.conn, &wire.NodeRegisterRequest{
				NodeIdentity: a.NodeIdentity,
				Info:         &node.Node{ID: a.Node, Name: "n", Datacenter: "dc1", CSI: []*plugin.Instance{said}},
			}); err != nil {
				t.Fatal(err)
			}
		}
		register()
		if _, err := wire.NodeInventory.Call(t.Context(), a.conn,
			&wire.InventoryReport{NodeIdentity: a.NodeIdentity, Full: true}); err != nil {
			t.Fatal(err)
		}
		calls, err := wire.NodeControllerCalls.Open(t.Context(), a.conn,
			&wire.ControllerCallsRequest{NodeIdentity: a.NodeIdentity})
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan *wire.ControllerCall, 8)
		g, _ := lifecycle.NewGroup(t.Context())
		g.Go("calls", func() error {
			for {
				call, err := calls.Recv()
				if err != nil {
					return nil // the connection ended with the test
				}
				asked <- call
			}
		})
		defer func() {
			_ = a.conn.Close() // ends the stream
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
		}()
		create := &wire.VolumeWriteRequest{
			Volume: volume.ID{Namespace: ids.DefaultNamespace, ID: "v"},
			Spec: volume.Spec{Plugin: "p", Name: "v", Capabilities: []volume.Capability{
				{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem},
			}},
			Secrets: wire.Secrets{Values: map[string]string{"password": "canary"}},
			Wait:    10 * time.Second,
		}
		_, err = wire.VolumeCreate.Call(t.Context(), lead.Conn, create)
		time.Sleep(5 * time.Second)
		if len(asked) > 0 || lead.Store().Snapshot().Plugin(nil, "p") != nil {
			t.Errorf("%d calls came to the node, and the record is %+v: %v", len(asked),
				lead.Store().Snapshot().Plugin(nil, "p"), err)
		}
		register() // it was silent meanwhile
		pluginjobs.Place(t, lead, lead.Store().Snapshot, a.Node, []*plugin.Instance{said})
		_, err = wire.VolumeCreate.Call(t.Context(), lead.Conn, create)
		time.Sleep(5 * time.Second)
		if len(asked) == 0 {
			t.Errorf("the servers have placed the plugin there, and the node is not asked: %v", err)
		}
	})
}
