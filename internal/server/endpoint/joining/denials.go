package joining

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// deny lets a node in no more.
func (e *Endpoints) deny(ctx context.Context, req *wire.DenialRequest) (*wire.Written, error) {
	return e.word(ctx, req, "deny", &joining.Deny{Node: req.Node, By: req.By, Reason: req.Reason})
}

// allow lets one in that is denied.
func (e *Endpoints) allow(ctx context.Context, req *wire.DenialRequest) (*wire.Written, error) {
	return e.word(ctx, req, "allow", &joining.Allow{Node: req.Node, By: req.By, Reason: req.Reason})
}

// word proposes what a person says of a node.
func (e *Endpoints) word(
	ctx context.Context, req *wire.DenialRequest, what string, cmd fsm.Command,
) (*wire.Written, error) {
	if strings.TrimSpace(req.Reason) == "" {
		return nil, fault.New(fault.Invalid, what, fmt.Sprintf("node %q", req.Node), "a reason is missing")
	}
	_, index, err := e.cfg.Proposer.Propose(ctx, cmd)
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person said of a node whether it is let in", logkey.Node, req.Node, "word", what, "by", req.By,
		"reason", req.Reason)
	return &wire.Written{Index: index}, nil
}

func (e *Endpoints) denials(ctx context.Context, q *wire.Query) (*wire.DenialsReply, error) {
	out := &wire.DenialsReply{}
	err := e.cfg.Read(ctx, *q, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Members = slices.SortedStableFunc(s.Denied(w, ""), func(a, b *trust.Member) int {
			return a.Denied.Since.Compare(b.Denied.Since)
		})
		return s.TableIndex(state.Members), nil
	})
	return out, err
}
