package convert

import (
	"time"

	"berth/api"
	"berth/internal/wire"
)

// Recovery shows what the servers wait for before they trust their state.
func Recovery(v *wire.RecoveryView) *api.RecoveryStatus {
	out := &api.RecoveryStatus{
		State:     "none",
		Nodes:     []*api.RecoveryNode{},
		Evidence:  []*api.RecoveryEvidence{},
		Suspended: []*api.RecoverySuspended{},
		Held:      []*api.RecoveryHeld{},
		Exits:     append([]string{}, v.Exits...),
	}
	if r := v.Record; r != nil {
		out.State = "recovering"
		if !r.Ended.IsZero() {
			out.State = "ended"
		}
		out.Cause = r.Cause
		out.By = r.By
		out.Parent = r.Parent
		out.Incarnation = r.Incarnation
		out.Begun, out.Ended = moment(r.Begun), moment(r.Ended)
		out.ListComplete = r.Whole || r.Finished != nil
	}
	if len(v.Evidence) > 0 && out.State != "recovering" {
		out.State = "evidence"
	}
	for _, n := range v.Nodes {
		out.Nodes = append(out.Nodes, &api.RecoveryNode{
			ID:     string(n.ID),
			Name:   n.Name,
			State:  n.State,
			Detail: n.Detail,
			Exit:   n.Exit,
		})
	}
	for _, e := range v.Evidence {
		out.Evidence = append(out.Evidence, &api.RecoveryEvidence{
			NodeID:    string(e.Node),
			Name:      e.Name,
			Relation:  e.Relation.String(),
			SeenMark:  e.Seen.Mark,
			SeenIndex: e.Seen.Index,
			Time:      e.Time,
		})
	}
	for _, i := range v.Suspended {
		out.Suspended = append(out.Suspended,
			&api.RecoverySuspended{Kind: i.Kind, ID: i.ID, Phase: i.Phase, Resume: i.Resume})
	}
	for _, h := range v.Held {
		out.Held = append(out.Held, &api.RecoveryHeld{
			AllocID:   string(h.Alloc),
			Namespace: string(h.Namespace),
			JobID:     string(h.Job),
			Resume:    h.Resume,
		})
	}
	return out
}

// moment is a time that may not have come.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
