// Package operator owns the answers to what people do with the servers' state as a whole: saving and restoring it, and
// what a state that is older than the world waits for. Only package endpoint constructs it.
package operator

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	model "berth/internal/model/recovery"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/recovery"
	"berth/internal/server/saved"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/server/views"
	"berth/internal/wire"
)

// Config names what the endpoints stand on.
type Config struct {
	serving.Base
	Proposer fsm.Proposer
	Servers  Restorer
	Secrets  saved.Secrets
	Keys     Keys
	Log      *slog.Logger
}

// Endpoints answer methods.
type Endpoints struct{ cfg Config }

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg: cfg} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Unary(e.cfg.Base, s, wire.RecoveryStatus, e.status)
	serving.Unary(e.cfg.Base, s, wire.RecoveryBegin, e.begin)
	serving.Unary(e.cfg.Base, s, wire.RecoveryFinish, e.finish)
	serving.Unary(e.cfg.Base, s, wire.RecoveryDismiss, e.dismiss)
	serving.Unary(e.cfg.Base, s, wire.DataKeys, e.dataKeys)
	serving.Unary(e.cfg.Base, s, wire.DataKeyRotate, e.rotate)
	serving.Unary(e.cfg.Base, s, wire.DataKeyRemove, e.removeKey)
	serving.Unary(e.cfg.Base, s, wire.AutopilotGet, e.autopilot)
	serving.Unary(e.cfg.Base, s, wire.AutopilotPut, e.setAutopilot)
	serving.Stream(e.cfg.Base, s, wire.StateSave, e.save)
	serving.Stream(e.cfg.Base, s, wire.StateRestore, e.restore)
}

func (e *Endpoints) status(ctx context.Context, req *wire.Query) (*wire.RecoveryView, error) {
	var out *wire.RecoveryView
	var meta wire.Meta
	err := e.cfg.Read(ctx, *req, &meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out = views.Recovery(s, w)
		return max(s.TableIndex(state.Recoveries), s.TableIndex(state.Evidences), s.TableIndex(state.Volumes)), nil
	})
	if err != nil {
		return nil, err
	}
	out.Meta = meta
	return out, nil
}

// begin leaves the present incarnation because a person says that the state is older than the world. Without evidence
// it is refused unless there is a reason. What nodes have seen and nobody dismissed is believed by that word: they go
// on with this state, also where it was put back over one that a restore had begun.
func (e *Endpoints) begin(ctx context.Context, req *wire.RecoveryWord) (*wire.Written, error) {
	s := e.cfg.Store.Snapshot()
	cause := req.Reason
	var seen []string
	for _, ev := range suspension.Against(s, nil) {
		cause = cmp.Or(cause, suspension.Shows(ev))
		if ev.Relation == lineage.Foreign && !slices.Contains(seen, ev.Seen.Incarnation) {
			seen = append(seen, ev.Seen.Incarnation)
		}
	}
	if cause == "" {
		return nil, fault.WithHint(fault.New(fault.Invalid, "begin", "a recovery",
			"no node shows that the servers' state is older than the world"),
			`if you know that it is, say why: berth operator recovery begin -reason "..."`)
	}
	rec, index, err := fsm.Propose[*model.Record](ctx, e.cfg.Proposer, &recovery.Begin{
		Incarnation: ids.New(),
		Mark:        rand.Text(),
		Cause:       cause,
		By:          req.By,
		Seen:        seen,
		Schema:      fsm.Schema(),
	})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a recovery of the servers' state began: nothing is done with a volume before every node that may "+
		"hold it has reported", "cause", cause, "by", req.By, "incarnation", rec.Incarnation, "parent", rec.Parent,
		"nodes", len(rec.Nodes))
	return &wire.Written{Index: index}, nil
}

func (e *Endpoints) finish(ctx context.Context, req *wire.RecoveryWord) (*wire.Written, error) {
	rec, index, err := fsm.Propose[*model.Record](ctx, e.cfg.Proposer,
		&recovery.Finish{Reason: req.Reason, By: req.By})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person said that no node is missing in the recovery", "reason", req.Reason, "by", req.By,
		"ended", !rec.Ended.IsZero())
	return &wire.Written{Index: index}, nil
}

func (e *Endpoints) dismiss(ctx context.Context, req *wire.RecoveryWord) (*wire.Written, error) {
	if req.Reason == "" {
		return nil, fault.WithHint(
			fault.New(fault.Invalid, "dismiss", "node "+ids.Short(req.Node), "no reason is given"),
			`say why: -reason "..."`)
	}
	_, index, err := e.cfg.Proposer.Propose(ctx,
		&recovery.Dismiss{Node: req.Node, Reason: req.Reason, By: req.By})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person dismissed a node: no recovery waits for it, and it is no evidence against the servers' "+
		"state", "node", req.Node, "reason", req.Reason, "by", req.By)
	return &wire.Written{Index: index}, nil
}
