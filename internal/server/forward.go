package server

import (
	"context"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/server/endpoint/serving"
	"berth/internal/wire"
)

// register adds the methods that nodes serve: calls go on to the node that they name.
func (n *Nodes) register(s *wire.Server) {
	ref := func(r wire.AgentRef) (ids.Node, error) { return n.of(r) }
	forward(n, s, wire.AllocRestart, func(r *wire.AllocRestartRequest) (ids.Node, error) { return ref(r.AgentRef) })
	forward(n, s, wire.AllocSignal, func(r *wire.AllocSignalRequest) (ids.Node, error) { return ref(r.AgentRef) })
	forward(n, s, wire.AllocStats, func(r *wire.AgentRef) (ids.Node, error) { return ref(*r) })
	forward(n, s, wire.AllocChecks, func(r *wire.AgentRef) (ids.Node, error) { return ref(*r) })
	forward(n, s, wire.AgentHostStats, func(r *wire.AgentRef) (ids.Node, error) { return ref(*r) })
	forward(n, s, wire.AgentMeta, func(r *wire.AgentRef) (ids.Node, error) { return named(r.Node) })
	forward(n, s, wire.AgentSetMeta, func(r *wire.NodeMetaRequest) (ids.Node, error) { return named(r.Node) })
	forward(n, s, wire.AllocFiles, func(r *wire.AllocPath) (ids.Node, error) { return ref(r.AgentRef) })
	forward(n, s, wire.AllocFileStat, func(r *wire.AllocPath) (ids.Node, error) { return ref(r.AgentRef) })
	forward(n, s, wire.AgentGC, func(r *wire.AgentRef) (ids.Node, error) { return ref(*r) })
	forward(n, s, wire.AllocEndOrphan, func(r *wire.AgentRef) (ids.Node, error) { return named(r.Node) })
	forward(n, s, wire.AgentForgetMount, func(r *wire.ForgetMountRequest) (ids.Node, error) { return named(r.Node) })
	forward(n, s, wire.AllocOrphan, func(r *wire.AgentRef) (ids.Node, error) { return named(r.Node) })
	forward(n, s, wire.AgentListVolumes, func(r *wire.PluginReadRequest) (ids.Node, error) { return named(r.Node) })
	forward(n, s, wire.AgentListSnapshots, func(r *wire.PluginReadRequest) (ids.Node, error) { return named(r.Node) })
	forward(n, s, wire.AgentCapacity, func(r *wire.CapacityRequest) (ids.Node, error) { return named(r.Node) })
	forward(n, s, wire.AgentValidateVolume, func(r *wire.ValidateVolumeRequest) (ids.Node, error) {
		return named(r.Node)
	})
	between(n, s, wire.AgentVolumeUsage, func(r *wire.VolumeUsageRequest) ids.Node { return r.Node })
	between(n, s, wire.AgentReleaseVolume, func(r *wire.ReleaseVolumeRequest) ids.Node { return r.Node })
	forwardStream(n, s, wire.AllocFileRead, func(r *wire.FileReadRequest) (ids.Node, error) { return ref(r.AgentRef) })
	forwardStream(n, s, wire.AllocLogs, func(r *wire.AllocLogsRequest) (ids.Node, error) { return ref(r.AgentRef) })
	forwardStream(n, s, wire.AllocExec, func(r *wire.AllocExecRequest) (ids.Node, error) { return ref(r.AgentRef) })
	forwardStream(n, s, wire.AgentMonitor, func(r *wire.AgentMonitorRequest) (ids.Node, error) { return named(r.Node) })
}

// of finds the node of an alloc where the caller did not name it.
func (n *Nodes) of(r wire.AgentRef) (ids.Node, error) {
	if r.Node != "" || r.Alloc == "" {
		return named(r.Node)
	}
	a := n.store.Snapshot().Alloc(nil, r.Alloc)
	if a == nil {
		return "", fault.New(fault.NotFound, "", fmt.Sprintf("alloc %q", r.Alloc), "alloc not found")
	}
	return a.Node, nil
}

func named(id ids.Node) (ids.Node, error) {
	if id == "" {
		return "", fault.New(fault.Invalid, "forward", "call", "it names neither a node nor an alloc")
	}
	return id, nil
}

func forward[Req, Resp any](n *Nodes, s *wire.Server, m wire.Method[Req, Resp], where func(*Req) (ids.Node, error)) {
	m.Serve(s, func(ctx context.Context, req *Req) (*Resp, error) {
		_, conn, err := judged(ctx, n, m.Name(), req, where)
		if err != nil {
			return nil, err
		}
		return m.Call(ctx, conn, req)
	})
}

// judged is the way to the node that a call names, for whom may make it. Before one that the leader passes on, the
// leader judges: its state is newer than this server's. The context knows what was found, where it was found here.
func judged[Req any](
	ctx context.Context, n *Nodes, method string, req *Req, where func(*Req) (ids.Node, error),
) (context.Context, wire.Conn, error) {
	ctx, refused := serving.Judge(ctx, n.store, method, req)
	if refused != nil && (n.cluster.Leading() || len(wire.Relays(ctx)) > 0) {
		return ctx, nil, refused
	}
	id, err := where(req)
	if err == nil {
		conn, leads, lost := n.way(ctx, id)
		if leads || refused == nil {
			return ctx, conn, lost
		}
	}
	if refused != nil {
		return ctx, nil, refused
	}
	return ctx, nil, err
}

// between is forward for what the leader alone asks a node for, after it has looked into its state.
func between[Req, Resp any](n *Nodes, s *wire.Server, m wire.Method[Req, Resp], where func(*Req) ids.Node) {
	m.Serve(s, func(ctx context.Context, req *Req) (*Resp, error) {
		if len(wire.Relays(ctx)) == 0 {
			return nil, fault.New(fault.Denied, "forward", m.Name(), "only servers ask nodes for this")
		}
		conn, err := n.NodeConn(where(req))
		if err != nil {
			return nil, err
		}
		return m.Call(ctx, conn, req)
	})
}

func forwardStream[Req, In, Out any](
	n *Nodes, s *wire.Server, m wire.StreamMethod[Req, In, Out], where func(*Req) (ids.Node, error),
) {
	m.Serve(s, func(req *Req, caller *wire.Stream[Out, In]) error {
		ctx, conn, err := judged(caller.Context(), n, m.Name(), req, where)
		if err != nil {
			return err
		}
		ctx, end := serving.Standing(ctx, n.store)
		defer end()
		err = m.Relay(ctx, conn, req, caller)
		if why := context.Cause(ctx); fault.Has(why, fault.Denied) {
			return why
		}
		return err
	})
}

// way is the connection on which a call reaches a node. Whoever is asked first and does not have the node asks the
// leader (leads), which hears of every node and knows the server that has it. A call goes no further than there, and
// waits there for a node that is about to connect anew: one that is gone from it has moved, and is heard of soon.
func (n *Nodes) way(ctx context.Context, id ids.Node) (c wire.Conn, leads bool, err error) {
	c, err = n.NodeConn(id)
	switch {
	case err == nil:
		return c, false, nil
	case len(wire.Relays(ctx)) > 0:
		c, err = n.Await(ctx, id)
		return c, false, err
	}
	if leader, elsewhere := n.cluster.Route(ctx, false); elsewhere == nil && leader != nil {
		return leader, true, nil
	}
	c, err = n.Await(ctx, id)
	return c, false, err
}
