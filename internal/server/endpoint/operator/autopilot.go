package operator

import (
	"context"

	model "berth/internal/model/autopilot"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/autopilot"
	"berth/internal/server/state"
	"berth/internal/wire"
)

func (e *Endpoints) autopilot(ctx context.Context, q *wire.Query) (*wire.One[model.Config], error) {
	out := &wire.One[model.Config]{}
	err := e.cfg.Read(ctx, *q, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Item = s.Autopilot(w)
		return s.TableIndex(state.Autopilots), nil
	})
	return out, err
}

func (e *Endpoints) setAutopilot(ctx context.Context, req *wire.AutopilotPutRequest) (*wire.AutopilotPutReply, error) {
	if err := req.Config.Validate(); err != nil {
		return nil, err // nothing is written of it
	}
	holds, index, err := fsm.Propose[bool](ctx, e.cfg.Proposer, &autopilot.Put{
		Config:  req.Config,
		Checked: req.Checked,
		Last:    req.Last,
	})
	if err != nil {
		return nil, err
	}
	if holds {
		e.cfg.Log.Warn("a person said how the servers keep themselves", "cleanup_dead_servers", req.Config.CleanupDead,
			"last_contact_threshold", req.Config.LastContact, "max_trailing_logs", req.Config.MaxTrailing,
			"min_quorum", req.Config.MinQuorum, "server_stabilization_time", req.Config.Stabilization, "by", req.By)
	}
	return &wire.AutopilotPutReply{Holds: holds, Index: index}, nil
}
