package nodes

import (
	"context"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/departure"
	"berth/internal/wire"
)

// purge forgets a node at the word of a person. What is in the way is judged where it is applied.
func (e *Endpoints) purge(ctx context.Context, req *wire.NodePurgeRequest) (*wire.NodePurgeReply, error) {
	done, index, err := fsm.Propose[*fsm.NodeChanged](ctx, e.cfg.Proposer,
		&departure.Purge{Node: req.Node, Seed: ids.New()})
	if err != nil {
		return nil, err
	}
	e.refused.forget(req.Node)
	e.cfg.Log.Info("a person had a node forgotten; its agent can come back as the same node for 90 days", logkey.Node,
		req.Node)
	return &wire.NodePurgeReply{Index: index, Evals: done.Evals}, nil
}
