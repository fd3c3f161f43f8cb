// Package partitions owns the answers about what divides a cluster: namespaces and node pools. Who may ask is judged
// before; which of them somebody may see, here. Only package endpoint constructs it.
package partitions

import (
	"context"
	"fmt"
	"log/slog"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/model/partition"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/partitioning"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Config names what the endpoints stand on.
type Config struct {
	serving.Base
	Proposer fsm.Proposer
	Log      *slog.Logger
}

// Endpoints answer methods.
type Endpoints struct{ cfg Config }

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Unary(e.cfg.Base, s, wire.NamespaceList, e.namespaceList)
	serving.Unary(e.cfg.Base, s, wire.NamespaceGet, e.namespaceGet)
	serving.Unary(e.cfg.Base, s, wire.NamespacePut, e.namespacePut)
	serving.Unary(e.cfg.Base, s, wire.NamespaceDelete, e.namespaceDelete)
	serving.Unary(e.cfg.Base, s, wire.NodePoolList, e.nodePoolList)
	serving.Unary(e.cfg.Base, s, wire.NodePoolGet, e.nodePoolGet)
	serving.Unary(e.cfg.Base, s, wire.NodePoolPut, e.nodePoolPut)
	serving.Unary(e.cfg.Base, s, wire.NodePoolDelete, e.nodePoolDelete)
}

// namespaceList shows the namespaces in which the caller may do anything at all.
func (e *Endpoints) namespaceList(
	ctx context.Context, req *wire.Query,
) (*wire.List[*partition.Namespace], error) {
	out := &wire.List[*partition.Namespace]{}
	return out, e.cfg.Read(ctx, *req, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		var list []*partition.Namespace
		for n := range s.Namespaces(w, req.Prefix) {
			if serving.SeesNamespace(ctx, n.Name) {
				list = append(list, n)
			}
		}
		out.Items, out.NextToken = wire.Cut(req.Page, list, (*partition.Namespace).Key)
		return s.TableIndex(state.Namespaces), nil
	})
}

// namespaceGet shows a namespace to whoever may do anything in it. Whoever may not does not hear whether it is there.
func (e *Endpoints) namespaceGet(
	ctx context.Context, req *wire.Ref[ids.Namespace],
) (*wire.One[partition.Namespace], error) {
	out := &wire.One[partition.Namespace]{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		if !serving.SeesNamespace(ctx, req.ID) {
			return 0, fault.WithHint(fault.New(fault.Denied, "", "Permission denied",
				fmt.Sprintf("the token gives nothing in namespace %q", req.ID)),
				fmt.Sprintf("a policy gives it with: namespace %q { policy = \"read\" }", req.ID))
		}
		out.Item = s.Namespace(w, req.ID)
		if out.Item == nil {
			return s.ReadIndex(state.Namespaces), nil
		}
		return s.ReadIndex(state.Namespaces, out.Item.ModifyIndex), nil
	})
}

func (e *Endpoints) namespacePut(ctx context.Context, req *wire.NamespacePutRequest) (*wire.Written, error) {
	n, index, err := fsm.Propose[*partition.Namespace](ctx, e.cfg.Proposer,
		&partitioning.NamespacePut{Namespace: &req.Namespace})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Info("a namespace was written", "namespace", n.Name, "by", req.By)
	return &wire.Written{Index: index}, nil
}

func (e *Endpoints) namespaceDelete(ctx context.Context, req *wire.PartitionDeleteRequest) (*wire.Written, error) {
	_, index, err := e.cfg.Proposer.Propose(ctx, &partitioning.NamespaceDelete{Name: ids.Namespace(req.Name)})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a namespace was deleted", "namespace", req.Name, "by", req.By)
	return &wire.Written{Index: index}, nil
}

// nodePoolList shows the node pools that the caller may read.
func (e *Endpoints) nodePoolList(ctx context.Context, req *wire.Query) (*wire.List[*partition.NodePool], error) {
	out := &wire.List[*partition.NodePool]{}
	return out, e.cfg.Read(ctx, *req, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		var list []*partition.NodePool
		for p := range s.NodePools(w, req.Prefix) {
			if serving.SeesOn(ctx, acl.NodePool, p.Name, acl.Read) {
				list = append(list, p)
			}
		}
		out.Items, out.NextToken = wire.Cut(req.Page, list, (*partition.NodePool).Key)
		return s.TableIndex(state.NodePools), nil
	})
}

func (e *Endpoints) nodePoolGet(ctx context.Context, req *wire.Ref[string]) (*wire.One[partition.NodePool], error) {
	out := &wire.One[partition.NodePool]{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Item = s.NodePool(w, req.ID)
		if out.Item == nil {
			return s.ReadIndex(state.NodePools), nil
		}
		return s.ReadIndex(state.NodePools, out.Item.ModifyIndex), nil
	})
}

func (e *Endpoints) nodePoolPut(ctx context.Context, req *wire.NodePoolPutRequest) (*wire.Written, error) {
	p, index, err := fsm.Propose[*partition.NodePool](ctx, e.cfg.Proposer, &partitioning.NodePoolPut{Pool: &req.Pool})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Info("a node pool was written", "node_pool", p.Name, "by", req.By)
	return &wire.Written{Index: index}, nil
}

func (e *Endpoints) nodePoolDelete(ctx context.Context, req *wire.PartitionDeleteRequest) (*wire.Written, error) {
	_, index, err := e.cfg.Proposer.Propose(ctx, &partitioning.NodePoolDelete{Name: req.Name})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a node pool was deleted", "node_pool", req.Name, "by", req.By)
	return &wire.Written{Index: index}, nil
}
