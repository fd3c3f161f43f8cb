package nodes

import (
	"context"

	"berth/internal/model/lineage"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/recovery"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// noteEvidence notes that a node has seen a history that this state does not contain, before the node is answered: from
// then on nothing is destroyed until a person has decided. What a restore by command left behind is none: its record
// names it.
func (e *Endpoints) noteEvidence(ctx context.Context, s *state.Snap, req *wire.NodeRegisterRequest) error {
	relation, against := recovery.Contradicts(s, req.Seen)
	cmd := &recovery.Evidence{Node: req.Node, Name: req.Info.Name, Seen: req.Seen, Relation: relation}
	switch {
	case s.Meta(nil) == nil:
		return nil
	case against && (relation != lineage.Foreign || req.Holds):
	case s.Evidence(nil, req.Node) != nil && !req.Holds:
		cmd.Withdrawn = true
	default:
		return nil
	}
	news, _, err := fsm.Propose[bool](ctx, e.cfg.Proposer, cmd)
	if err == nil && news && !cmd.Withdrawn {
		e.cfg.Log.Error("a node has seen a history of the servers that their state does not contain: it was put back "+
			"to an older one, or the node is wrong. Nothing is deleted, detached or forgotten until a person has "+
			"decided: berth operator recovery status",
			"node", req.Node, "name", req.Info.Name, "relation", relation.String(),
			"seen_mark", req.Seen.Mark, "seen_index", req.Seen.Index)
	}
	return err
}
