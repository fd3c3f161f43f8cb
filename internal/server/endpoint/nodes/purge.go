package nodes

import (
	"context"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/purge"
	"berth/internal/wire"
)

// nodePurge has a node forgotten that is down and holds no volume.
func (e *Endpoints) nodePurge(ctx context.Context, req *wire.Ref[ids.Node]) (*wire.NodeEligibilityReply, error) {
	done, index, err := fsm.Propose[*fsm.NodeChanged](ctx, e.cfg.Proposer,
		&purge.NodePurge{Node: req.ID, Seed: ids.New()})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Info("a node is purged", logkey.Node, req.ID, "evals", len(done.Evals))
	out := &wire.NodeEligibilityReply{Index: index, NodeModifyIndex: done.ModifyIndex, Evals: done.Evals}
	if len(done.Evals) > 0 {
		out.EvalCreateIndex = index
	}
	return out, nil
}
