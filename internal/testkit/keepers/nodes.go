package keepers

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/server/endpoint/nodes"
	"berth/internal/server/fsm"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/wire"
)

// secretOf is what a node shows.
func secretOf(id ids.Node) string { return "secret of " + string(id) }

func (w *world) join(id ids.Node, words []string) error {
	p, now := ids.Plugin(option(words, "plugin", "p")), time.Now()
	lists := option(words, "lists", "yes") == "yes"
	scope := plugin.Scope(option(words, "scope", string(plugin.ScopeCluster)))
	caps := plugin.Capabilities{
		ControllerService:  option(words, "controller", "yes") == "yes",
		CreateDelete:       true,
		GetCapacity:        true,
		Attach:             true,
		AttachReadOnly:     true,
		ListVolumes:        lists,
		ListPublishedNodes: lists,
		CreateSnapshot:     true,
		Clone:              true,
		ListSnapshots:      lists,
		ControllerExpand:   true,
		ExpandOnline:       true,
		NodeExpand:         true,
	}
	instance := func(role plugin.Role) *plugin.Instance {
		return &plugin.Instance{
			Plugin:       p,
			Role:         role,
			Node:         id,
			State:        plugin.State(option(words, "state", string(plugin.Ready))),
			Provider:     option(words, "provider", ""),
			Version:      option(words, "version", "1"),
			Scope:        scope,
			Capabilities: caps,
			Updated:      now,
		}
	}
	byNode := instance(plugin.RoleNode)
	byNode.StorageNode = string(id)
	byNode.Topology = &plugin.Topology{Segments: map[string]string{"node": string(id)}}
	instances := []*plugin.Instance{byNode}
	if caps.ControllerService {
		instances = append(instances, instance(plugin.RoleController))
	}
	n := &node.Node{
		ID:         id,
		Name:       string(id),
		SecretHash: nodes.HashSecret(secretOf(id)),
		CSI:        instances,
	}
	pluginjobs.Name(n)
	w.c.Must(w.t, &fsm.NodeRegister{Node: n})
	pluginjobs.Place(w.t, w.c, w.c.Store.Snapshot, id, instances)
	if err := w.report(id, nil); err != nil {
		return err
	}
	return w.connect(id)
}

// changeInstances has a node report of its plugins what edit makes of them: nil is none any more.
func (w *world) changeInstances(id ids.Node, edit func(plugin.Instance) *plugin.Instance) {
	n := *w.c.Store.Snapshot().Node(nil, id)
	var instances []*plugin.Instance
	for _, i := range n.CSI {
		if now := edit(*i); now != nil {
			instances = append(instances, now)
		}
	}
	n.CSI = instances
	w.c.Must(w.t, &fsm.NodeRegister{Node: &n})
}

// failing is a controller that fails.
func failing(i plugin.Instance) *plugin.Instance {
	if i.Role == plugin.RoleController {
		i.State = plugin.Failing
	}
	return &i
}

func gone(plugin.Instance) *plugin.Instance { return nil }

func (w *world) identity(id ids.Node) wire.NodeIdentity {
	return wire.NodeIdentity{Node: id, Secret: wire.Secrets{Values: map[string]string{"id": secretOf(id)}}}
}

func (w *world) connect(id ids.Node) error {
	g, ctx := lifecycle.NewGroup(w.t.Context())
	req := &wire.ControllerCallsRequest{NodeIdentity: w.identity(id)}
	stream, err := wire.NodeControllerCalls.Open(ctx, w.conn, req)
	if err != nil {
		return err
	}
	g.Go("calls of "+string(id), func() error { return w.provider.serve(ctx, id, stream) })
	w.streams[id] = g.Stop
	return nil
}
