package server

import (
	"context"
	"errors"
	"fmt"
	"io"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/wire"
)

// register adds the methods that nodes serve: calls go on to the node that they name.
func (n *Nodes) register(s *wire.Server) {
	ref := func(r wire.AgentRef) (ids.Node, error) { return n.of(r) }
	forward(n, s, wire.AllocRestart, func(r *wire.AllocRestartRequest) (ids.Node, error) { return ref(r.AgentRef) })
	forward(n, s, wire.AllocSignal, func(r *wire.AllocSignalRequest) (ids.Node, error) { return ref(r.AgentRef) })
	forward(n, s, wire.AllocStats, func(r *wire.AgentRef) (ids.Node, error) { return ref(*r) })
	forward(n, s, wire.AgentHostStats, func(r *wire.AgentRef) (ids.Node, error) { return ref(*r) })
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
		id, err := where(req)
		if err != nil {
			return nil, err
		}
		conn, err := n.NodeConn(id)
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
		id, err := where(req)
		if err != nil {
			return err
		}
		conn, err := n.NodeConn(id)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(caller.Context())
		defer cancel()
		node, err := m.Open(ctx, conn, req)
		if err != nil {
			return err
		}
		// The pump towards the node ends with the caller's stream, and that ends when this handler returns: it can't be
		// joined here, so it lives in a group that is told to stop and ends at its next receive.
		g, _ := lifecycle.NewGroup(ctx)
		g.Go("towards the node", func() error { return pumpIn(caller, node) })
		return pumpOut(node, caller)
	})
}

// pumpIn carries the caller's messages until the caller has no more.
func pumpIn[In, Out any](caller *wire.Stream[Out, In], node *wire.Stream[In, Out]) error {
	for {
		m, err := caller.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return node.CloseSend()
			}
			return nil // the caller is gone; its context ends the other direction
		}
		if node.Send(m) != nil {
			return nil // the node ended the stream; the other direction tells why
		}
	}
}

// pumpOut carries the node's messages until the node ends the stream, and returns how it ended.
func pumpOut[In, Out any](node *wire.Stream[In, Out], caller *wire.Stream[Out, In]) error {
	for {
		m, err := node.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := caller.Send(m); err != nil {
			return err
		}
	}
}
