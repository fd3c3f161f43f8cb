package nodes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/model/device"
	"berth/internal/model/lineage"
	"berth/internal/model/network"
	"berth/internal/model/node"
	"berth/internal/model/trust"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/driveroptions"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/fsm/reports"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

// HashSecret is the form in which the servers know a node's secret.
func HashSecret(secret string) string { return wire.HashNodeSecret(secret) }

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
	if !id.Proves(n.SecretHash) {
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
	secret := req.Shown()
	if secret == "" {
		return nil, fault.New(fault.Denied, "register", fmt.Sprintf("node %q", req.Node), "it brings no secret")
	}
	snap := e.cfg.Store.Snapshot()
	if err := joining.Denied(snap, nil, req.Node); err != nil {
		return nil, err
	}
	if snap.Node(nil, req.Node) != nil {
		_, err := Authenticate(snap, req.NodeIdentity)
		if err != nil && !snap.Session(nil, req.Node).Readmits(readmission(req), time.Now()) {
			return nil, err
		}
	}
	if err := snap.Member(nil, trust.Node, string(req.Node)).MayBeIn(node.PoolOf(req.Info.NodePool)); err != nil {
		return nil, err
	}
	if err := boundedNode(req.Info); err != nil {
		return nil, err
	}
	if err := e.noteEvidence(ctx, snap, req); err != nil {
		return nil, err
	}
	req.Info.SecretHash = HashSecret(secret)
	req.Info.ReplacedBy = "" // that its machine is dead a person says, and a node that registers is not
	if req.Info.Unfollowed = ""; req.Holds && snap.Relate(req.Seen) == lineage.Foreign {
		req.Info.Unfollowed = node.FollowsOthers
	}
	if !snap.Understands(network.Schema) {
		req.Info.Resources.HostNetworks = nil // servers that are older than these would not understand the record
	}
	if !snap.Understands(device.Schema) {
		req.Info.Resources.Devices = nil // as above
	}
	options := &driveroptions.Put{Node: req.Node, Drivers: driveroptions.Understood(snap, req.Info)}
	req.Info.KeepOptions(nil)
	index, err := e.register(ctx, snap, req)
	if err != nil {
		return nil, err
	}
	e.putOptions(ctx, options)
	snap = e.cfg.Store.Snapshot()
	e.unplaced.say(e.cfg.Log, snap, req.Info)
	m := snap.Meta(nil)
	if m == nil {
		return nil, fault.New(fault.Internal, "register", fmt.Sprintf("node %q", req.Node),
			"the cluster has no identity yet")
	}
	reply := &wire.NodeRegisterReply{
		Index:        index,
		HeartbeatTTL: e.cfg.Heartbeats.Beat(req.Node),
		Incarnation:  m.Incarnation,
		Parents:      m.Parents,
		ClusterID:    m.ClusterID,
		At:           snap.Point(nil),
		Silence:      e.cfg.Heartbeats.Limit(),
		Servers:      trust.Listed(snap.Members(nil, trust.Server)),
	}
	if now := snap.Session(nil, req.Node); now != nil {
		reply.Session = now.Epoch
	}
	return reply, nil
}

// putOptions records what the drivers of a node take, if it is something else than before. The node is registered
// without that too: jobs are then checked by what was recorded before, or by names alone.
func (e *Endpoints) putOptions(ctx context.Context, options *driveroptions.Put) {
	s := e.cfg.Store.Snapshot()
	if !s.Understands(driveroptions.Schema) || !options.Changes(s) {
		return
	}
	if _, _, err := e.cfg.Proposer.Propose(ctx, options); err != nil {
		e.cfg.Log.Warn("what the drivers of a node take cannot be recorded before it registers again", logkey.Node,
			options.Node, logkey.Error, err)
	}
}

func (e *Endpoints) nodeHeartbeat(
	ctx context.Context, req *wire.NodeHeartbeatRequest,
) (*wire.NodeHeartbeatReply, error) {
	snap, n, err := e.obeyed(ctx, req.NodeIdentity)
	switch {
	case fault.Has(err, fault.NotFound), fault.Has(err, fault.NotReady): // neither it nor its session is known
		return &wire.NodeHeartbeatReply{Reregister: true, Index: snap.Index()}, nil
	case err != nil:
		return nil, err
	}
	return &wire.NodeHeartbeatReply{
		TTL:        e.cfg.Heartbeats.Beat(req.Node),
		Reregister: n.Status != node.StatusReady,
		Index:      n.ModifyIndex,

		Incarnation: snap.Point(nil).Incarnation,
		Servers:     trust.Listed(snap.Members(nil, trust.Server)),
		RootsAsOf:   joining.RootsAsOf(snap),
	}, nil
}

func (e *Endpoints) nodeAllocsKnown(
	ctx context.Context, req *wire.NodeAllocsKnownRequest,
) (*wire.NodeAllocsKnownReply, error) {
	if err := e.cfg.Cluster.Confirm(ctx); err != nil {
		return nil, err
	}
	snap, _, err := e.obeyed(ctx, req.NodeIdentity)
	if err != nil {
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

func (e *Endpoints) nodeUpdate(ctx context.Context, req *wire.NodeUpdateRequest) (*wire.NodeUpdateReply, error) {
	snap, _, err := e.obeyed(ctx, req.NodeIdentity)
	if err != nil {
		return nil, err
	}
	networks := snap.Understands(network.Schema)
	for _, a := range req.Allocs {
		if err := a.CheckReport(); err != nil {
			return nil, err
		}
		a.Node = req.Node
		if !networks {
			a.Network = nil
		}
	}
	own := e.misplaced.leftOut(e.cfg.Log, snap, req.Node, req.Allocs)
	update := &fsm.AllocClientUpdate{Allocs: own, Seed: ids.New()}
	out := &wire.NodeUpdateReply{}
	var inventory *fsm.InventoryApply
	if req.Inventory != nil {
		if err := bounded(req.Inventory); err != nil {
			return nil, err
		}
		inventory, out.Inventory = e.inventoryOf(req.Node, req.Inventory)
	}
	if inventory == nil {
		_, out.Index, err = e.cfg.Proposer.Propose(ctx, update)
		return out, err
	}
	var done *reports.NodeReported
	done, out.Index, err = fsm.Propose[*reports.NodeReported](ctx, e.cfg.Proposer,
		&reports.NodeReport{Allocs: update, Inventory: inventory, Executors: e.executors(inventory)})
	if err != nil {
		return nil, err
	}
	out.Inventory = done.Inventory
	out.Inventory.Index = out.Index
	e.inform(out.Inventory, req.Node, req.Inventory)
	return out, nil
}

func (e *Endpoints) nodeGet(ctx context.Context, req *wire.Ref[ids.Node]) (*wire.NodeGetReply, error) {
	out := &wire.NodeGetReply{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		if out.Item = s.Node(w, req.ID); out.Item == nil {
			return s.TableIndex(state.Nodes), nil
		}
		if h := s.InventoryHead(nil, req.ID); h != nil {
			out.Unknown = h.Unknown
		}
		out.Unclaimed = suspension.Unclaimed(s, nil, req.ID)
		out.Refused = e.refused.of(req.ID)
		index := out.Item.ModifyIndex
		if now := s.Session(w, req.ID); now != nil {
			index = max(index, now.ModifyIndex)
		}
		out.Item = doubted(s, w, out.Item)
		return index, nil
	})
}

func (e *Endpoints) nodeList(ctx context.Context, req *wire.Query) (*wire.List[*node.Node], error) {
	out := &wire.List[*node.Node]{}
	return out, e.cfg.Read(ctx, *req, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		all := slices.Collect(s.Nodes(w, serving.UUIDPrefix(req.Prefix)))
		out.Items, out.NextToken = wire.Cut(req.Page, all, wire.KeyOfNode)
		for i, n := range out.Items {
			out.Items[i] = beside(doubted(s, w, n), len(e.refused.of(n.ID)))
		}
		return max(s.TableIndex(state.Nodes), s.TableIndex(state.Sessions)), nil
	})
}

// doubted tells at a node what is in doubt about who acts as it.
func doubted(s *state.Snap, w *state.Watch, n *node.Node) *node.Node {
	why := s.Session(w, n.ID).Doubted()
	if why == "" {
		return n
	}
	out := *n
	out.StatusDescription = why
	return &out
}

// beside tells at a node in a list that others act as it and are refused, if nothing graver is said of it.
func beside(n *node.Node, others int) *node.Node {
	if others == 0 || n.StatusDescription != "" {
		return n
	}
	out := *n
	out.StatusDescription = fmt.Sprintf("agents that are refused under its identity: %d (see them with: berth node "+
		"status %s)", others, ids.Short(n.ID))
	return &out
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
