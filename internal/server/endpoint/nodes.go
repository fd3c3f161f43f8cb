package endpoint

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// secretValue is the name of the one value in a node's identity.
const secretValue = "id"

// HashSecret is the form in which the servers know a node's secret.
func HashSecret(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// Authenticate makes sure that a call comes from the node that it names.
func Authenticate(s *state.Snap, id wire.NodeIdentity) (*node.Node, error) {
	n := s.Node(nil, id.Node)
	if n == nil {
		return nil, &fault.Error{
			Kind:    fault.NotFound,
			Subject: fmt.Sprintf("node %q", id.Node),
			Err:     errNoNode,
			Hint:    "the node registers first",
		}
	}
	if subtle.ConstantTimeCompare([]byte(HashSecret(id.Secret.Values[secretValue])), []byte(n.SecretHash)) != 1 {
		return nil, fault.New(fault.Denied, "", fmt.Sprintf("node %q", id.Node),
			"its secret is not the one it registered with")
	}
	return n, nil
}

var errNoNode = fmt.Errorf("node not found")

func (e *Endpoints) nodeRegister(ctx context.Context, req *wire.NodeRegisterRequest) (*wire.NodeRegisterReply, error) {
	if req.Info == nil || req.Info.ID != req.Node || !ids.IsUUID(string(req.Node)) {
		return nil, fault.New(fault.Invalid, "register", fmt.Sprintf("node %q", req.Node),
			"its id is not a UUID or differs from the caller's")
	}
	secret := req.Secret.Values[secretValue]
	if secret == "" {
		return nil, fault.New(fault.Denied, "register", fmt.Sprintf("node %q", req.Node), "it brings no secret")
	}
	snap := e.cfg.Store.Snapshot()
	if snap.Node(nil, req.Node) != nil {
		if _, err := Authenticate(snap, req.NodeIdentity); err != nil {
			return nil, err
		}
	}
	req.Info.SecretHash = HashSecret(secret)
	if req.Info.Unfollowed = ""; req.Holds && snap.Relate(req.Seen) == lineage.Foreign {
		req.Info.Unfollowed = node.FollowsOthers
	}
	done, index, err := fsm.Propose[*fsm.NodeChanged](ctx, e.cfg.Proposer,
		&fsm.NodeRegister{Node: req.Info, Seed: ids.New()})
	if err != nil {
		return nil, err
	}
	m := e.cfg.Store.Snapshot().Meta(nil)
	if m == nil {
		return nil, fault.New(fault.Internal, "register", fmt.Sprintf("node %q", req.Node),
			"the cluster has no identity yet")
	}
	if len(done.Evals) > 0 {
		e.cfg.Log.Debug("node changed", "node", req.Node, "evals", len(done.Evals))
	}
	return &wire.NodeRegisterReply{
		Index:        index,
		HeartbeatTTL: e.cfg.Heartbeats.Beat(req.Node),
		Incarnation:  m.Incarnation,
		ClusterID:    m.ClusterID,
	}, nil
}

func (e *Endpoints) nodeHeartbeat(_ context.Context, req *wire.NodeHeartbeatRequest) (*wire.NodeHeartbeatReply, error) {
	snap := e.cfg.Store.Snapshot()
	n, err := Authenticate(snap, req.NodeIdentity)
	switch {
	case fault.Has(err, fault.NotFound):
		return &wire.NodeHeartbeatReply{Reregister: true, Index: snap.Index()}, nil
	case err != nil:
		return nil, err
	}
	return &wire.NodeHeartbeatReply{
		TTL:        e.cfg.Heartbeats.Beat(req.Node),
		Reregister: n.Status != node.StatusReady,
		Index:      n.ModifyIndex,
	}, nil
}

func (e *Endpoints) nodeAllocsKnown(
	ctx context.Context, req *wire.NodeAllocsKnownRequest,
) (*wire.NodeAllocsKnownReply, error) {
	if err := e.cfg.Cluster.Confirm(ctx); err != nil {
		return nil, err
	}
	snap := e.cfg.Store.Snapshot()
	if _, err := Authenticate(snap, req.NodeIdentity); err != nil {
		return nil, err
	}
	out := &wire.NodeAllocsKnownReply{At: snap.Point(nil)}
	for _, r := range req.Allocs {
		switch a := snap.Alloc(nil, r.Alloc); {
		case a != nil && a.Node == req.Node:
		case snap.Relate(r.Received) == lineage.Continues:
			out.Removed = append(out.Removed, r.Alloc)
		default:
			out.Orphans = append(out.Orphans, r.Alloc)
		}
	}
	return out, nil
}

func (e *Endpoints) nodeUpdate(ctx context.Context, req *wire.NodeUpdateRequest) (*wire.Written, error) {
	if _, err := Authenticate(e.cfg.Store.Snapshot(), req.NodeIdentity); err != nil {
		return nil, err
	}
	for _, a := range req.Allocs {
		if a == nil {
			return nil, fault.New(fault.Invalid, "update allocs of", fmt.Sprintf("node %q", req.Node),
				"an alloc is missing")
		}
		a.Node = req.Node
	}
	_, index, err := e.cfg.Proposer.Propose(ctx, &fsm.AllocClientUpdate{Allocs: req.Allocs, Seed: ids.New()})
	if err != nil {
		return nil, err
	}
	return &wire.Written{Index: index}, nil
}

func (e *Endpoints) nodeGet(ctx context.Context, req *wire.Ref[ids.Node]) (*wire.One[node.Node], error) {
	out := &wire.One[node.Node]{}
	return out, e.read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		if out.Item = s.Node(w, req.ID); out.Item == nil {
			return s.TableIndex(state.Nodes), nil
		}
		return out.Item.ModifyIndex, nil
	})
}

func (e *Endpoints) nodeList(ctx context.Context, req *wire.Query) (*wire.List[*node.Node], error) {
	out := &wire.List[*node.Node]{}
	return out, e.read(ctx, *req, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		all := slices.Collect(s.Nodes(w, uuidPrefix(req.Prefix)))
		out.Items, out.NextToken = wire.Cut(req.Page, all, wire.KeyOfNode)
		return s.TableIndex(state.Nodes), nil
	})
}

func (e *Endpoints) nodeEligibility(
	ctx context.Context, req *wire.NodeEligibilityRequest,
) (*wire.NodeEligibilityReply, error) {
	if req.Eligibility != node.Eligible && req.Eligibility != node.Ineligible {
		return nil, fault.New(fault.Invalid, "set eligibility of", fmt.Sprintf("node %q", req.Node),
			fmt.Sprintf("%q is neither %q nor %q", req.Eligibility, node.Eligible, node.Ineligible))
	}
	done, index, err := fsm.Propose[*fsm.NodeChanged](ctx, e.cfg.Proposer,
		&fsm.NodeEligibility{Node: req.Node, Eligibility: req.Eligibility, Seed: ids.New()})
	if err != nil {
		return nil, err
	}
	out := &wire.NodeEligibilityReply{Index: index, NodeModifyIndex: done.ModifyIndex, Evals: done.Evals}
	if len(done.Evals) > 0 {
		out.EvalCreateIndex = index
	}
	return out, nil
}
