package departure

import (
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Purge forgets a node that is down and holds nothing, because a person asks for it.
type Purge struct {
	Node ids.Node
	Seed string
}

// Releases lets it through when the disk is nearly full, because it frees space.
func (c *Purge) Releases() bool { return true }

// Apply returns a *fsm.NodeChanged: the evaluations are those of the system jobs, which had work for the node.
func (c *Purge) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	n := tx.Node(nil, c.Node)
	if n == nil {
		return nil, fault.New(fault.NotFound, "", fmt.Sprintf("node %q", c.Node), "node not found")
	}
	if err := refused(&tx.Snap, n); err != nil {
		return nil, err
	}
	Forget(tx, st, c.Node)
	out := &fsm.NodeChanged{ModifyIndex: st.Index}
	for j := range tx.Jobs(nil, wire.AllNamespaces, "") {
		if !job.OnEveryNode(j.Type) || j.Stop {
			continue
		}
		e := fsm.NewEval(c.Seed, eval.TriggerNodeUpdate, j)
		e.Node, e.NodeModifyIndex = c.Node, st.Index
		tx.PutEval(e)
		out.Evals = append(out.Evals, e.ID)
	}
	return out, nil
}

// refused says why a node is not forgotten: all that is in the way, and each way out once.
func refused(s *state.Snap, n *node.Node) error {
	subject := fmt.Sprintf("node %q", n.ID)
	if n.Status != node.StatusDown {
		return fault.WithHint(
			fault.New(fault.Conflict, "purge", subject, fmt.Sprintf("it is %s, not down", n.Status)),
			"stop its agent first, and wait until it counts as down; its tasks run on if they were not stopped")
	}
	all := Obstacles(s, n)
	if len(all) == 0 {
		return nil
	}
	var what, ways []string
	for _, o := range all {
		what = append(what, o.What)
		if !slices.Contains(ways, o.Way) {
			ways = append(ways, o.Way)
		}
	}
	return fault.WithHint(fault.New(fault.Busy, "purge", subject, "in the way: "+strings.Join(what, "; ")),
		strings.Join(ways, "; "))
}
