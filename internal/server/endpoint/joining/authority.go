package joining

import (
	"context"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/state"
	"berth/internal/wire"
)

func (e *Endpoints) roots(ctx context.Context, q *wire.Query) (*wire.RootsReply, error) {
	out := &wire.RootsReply{}
	err := e.cfg.Read(ctx, *q, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Roots, out.Unaware = nil, nil
		index := max(s.TableIndex(state.Authorities), s.TableIndex(state.Members))
		a := s.Authority(w)
		if a == nil {
			return index, nil
		}
		all, _, err := trust.Trusted(a.Root, a.Former)
		if err != nil {
			return index, err
		}
		for i, root := range all {
			r := wire.Root{Key: trust.KeyOf(root), Created: trust.MadeAt(root)}
			if i == 0 {
				r.Created, r.By = a.Created, a.By
			} else {
				r.Until = a.Former[i-1].Until
			}
			out.Roots = append(out.Roots, r)
		}
		if len(a.Former) == 0 {
			return index, nil
		}
		nodes, err := joining.Unaware(s, w, a)
		for _, n := range nodes {
			out.Unaware = append(out.Unaware, wire.UnawareNode{Node: n.ID, Name: n.Name, Forgotten: n.Forgotten})
		}
		return index, err
	})
	return out, err
}

func (e *Endpoints) rotate(ctx context.Context, req *wire.RotateRootRequest) (*wire.Written, error) {
	index, err := e.cfg.Authority.Rotate(ctx, req.By)
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person had the root of the cluster replaced", "by", req.By, "former_trusted_for", trust.Overlap)
	return &wire.Written{Index: index}, nil
}

// loses refuses to forget former roots by which nodes would be lost, also those that were forgotten and may come back:
// the state that the command finds is not older.
func (e *Endpoints) loses() error {
	s := e.cfg.Store.Snapshot()
	a := s.Authority(nil)
	if a == nil || len(a.Former) == 0 {
		return nil
	}
	nodes, err := joining.Unaware(s, nil, a)
	if err != nil {
		return err
	}
	return joining.Lost(nodes)
}

func (e *Endpoints) finish(ctx context.Context, req *wire.FinishRootRequest) (*wire.Written, error) {
	if req.Force && strings.TrimSpace(req.Reason) == "" {
		return nil, fault.New(fault.Invalid, "forget", "the former root",
			"a reason is missing: nodes may be lost by that")
	}
	if err := e.loses(); err != nil && !req.Force {
		return nil, err
	}
	index, err := e.cfg.Authority.Finish(ctx, req.Force)
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person had the former root of the cluster forgotten", "by", req.By, "force", req.Force,
		"reason", req.Reason)
	return &wire.Written{Index: index}, nil
}
