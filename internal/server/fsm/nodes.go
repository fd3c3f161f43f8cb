package fsm

import (
	"cmp"
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/recovery"
	"berth/internal/server/allocreport"
	"berth/internal/server/partitions"
	"berth/internal/server/state"
	"berth/internal/wire"
)

func init() {
	Register[NodeRegister]("node-register", 2, "server/endpoint/nodes")
	Register[NodeEligibility]("node-eligibility", 1, "server/endpoint/nodes")
	Register[NodeStatus]("node-status", 1, "server/heartbeat")
}

// keptNodeEvents bounds a node's history.
const keptNodeEvents = 10

// NodeRegister takes over what a node says of itself and makes it ready, and its node pool if it names a new one.
type NodeRegister struct {
	Node *node.Node
	Seed string
}

// NodeChanged is the result of the commands over nodes.
type NodeChanged struct {
	ModifyIndex uint64
	Evals       []ids.Eval
}

// Apply returns a *NodeChanged.
func (c *NodeRegister) Apply(tx *state.Tx, st Stamp) (any, error) {
	n, old := c.Node, tx.Node(nil, c.Node.ID)
	if old != nil && old.SecretHash != n.SecretHash {
		return nil, fault.New(fault.Denied, "register node", string(n.ID),
			"its secret is not the one it registered with first")
	}
	n.Status, n.StatusDescription = node.StatusReady, ""
	n.StatusUpdatedAt = st.Time.Unix()
	n.SchedulingEligibility, n.Events = node.Eligible, nil
	if old == nil {
		addEvent(n, st, "Node registered")
	} else {
		n.SchedulingEligibility, n.Events = old.SchedulingEligibility, old.Events
		if old.Status != node.StatusReady {
			addEvent(n, st, "Node re-registered")
		} else {
			n.StatusUpdatedAt = old.StatusUpdatedAt
		}
	}
	n.KeepOptions(old)
	same, err := sameNode(old, n)
	if err = cmp.Or(err, partitions.Join(tx, n)); err != nil {
		return nil, err
	}
	if same {
		return &NodeChanged{ModifyIndex: old.ModifyIndex}, nil
	}
	tx.PutNode(n)
	if r := tx.Recovery(nil); r != nil && r.Ended.IsZero() && r.Node(n.ID) == nil {
		// It has been away, and may hold anything.
		tx.PutRecovery(r.With(n.ID, n.Name, st.Time, func(*recovery.Node) {}))
	}
	out := &NodeChanged{ModifyIndex: st.Index}
	if n.Ready() {
		out.Evals = systemEvals(tx, c.Seed, n)
	}
	return out, nil
}

// sameNode reports whether storing the node would change nothing.
func sameNode(old, n *node.Node) (bool, error) {
	if old == nil {
		return false, nil
	}
	c := *n
	c.CreateIndex, c.ModifyIndex = old.CreateIndex, old.ModifyIndex
	a, err := wire.Encode(old)
	if err != nil {
		return false, err
	}
	b, err := wire.Encode(&c)
	return slices.Equal(a, b), err
}

func addEvent(n *node.Node, st Stamp, text string) {
	events := append(slices.Clone(n.Events),
		node.Event{Message: text, Subsystem: "Cluster", Timestamp: st.Time, CreateIndex: st.Index})
	n.Events = events[max(0, len(events)-keptNodeEvents):]
}

// systemEvals lets the system jobs look at a node that became ready or changed.
func systemEvals(tx *state.Tx, seed string, n *node.Node) []ids.Eval {
	var out []ids.Eval
	for j := range tx.Jobs(nil, wire.AllNamespaces, "") {
		if job.OnEveryNode(j.Type) && !j.Stop {
			out = append(out, nodeEval(tx, seed, j, n))
		}
	}
	return out
}

func nodeEval(tx *state.Tx, seed string, j *job.Job, n *node.Node) ids.Eval {
	e := NewEval(seed, eval.TriggerNodeUpdate, j)
	e.ID = ids.Eval(ids.Derived(seed, string(j.Namespace), string(j.ID), string(n.ID)))
	e.Node, e.NodeModifyIndex = n.ID, tx.Stamp().Index
	tx.PutEval(e)
	return e.ID
}

// NodeEligibility lets a node take new allocs or not.
type NodeEligibility struct {
	Node        ids.Node
	Eligibility string
	Seed        string
}

// Apply returns a *NodeChanged.
func (c *NodeEligibility) Apply(tx *state.Tx, st Stamp) (any, error) {
	old := tx.Node(nil, c.Node)
	if old == nil {
		return nil, nodeNotFound(c.Node)
	}
	if old.SchedulingEligibility == c.Eligibility {
		return &NodeChanged{ModifyIndex: old.ModifyIndex}, nil
	}
	n := *old
	n.SchedulingEligibility = c.Eligibility
	addEvent(&n, st, "Node marked as "+c.Eligibility+" for scheduling")
	tx.PutNode(&n)
	out := &NodeChanged{ModifyIndex: st.Index}
	if n.Ready() {
		out.Evals = systemEvals(tx, c.Seed, &n)
	}
	return out, nil
}

func nodeNotFound(id ids.Node) error {
	return fault.New(fault.NotFound, "", fmt.Sprintf("node %q", id), "node not found")
}

// NodeStatus moves nodes between ready and down. The allocs of a node that went down become lost in the same step.
type NodeStatus struct {
	Nodes       []ids.Node
	Status      string
	Description string
	Seed        string
}

// Apply returns a *NodeChanged; its ModifyIndex is the command's.
func (c *NodeStatus) Apply(tx *state.Tx, st Stamp) (any, error) {
	out := &NodeChanged{ModifyIndex: st.Index}
	for _, id := range c.Nodes {
		old := tx.Node(nil, id)
		if old == nil || old.Status == c.Status {
			continue
		}
		n := *old
		n.Status = c.Status
		n.StatusDescription = c.Description
		n.StatusUpdatedAt = st.Time.Unix()
		switch c.Status {
		case node.StatusDown:
			addEvent(&n, st, "Node heartbeat missed")
		case node.StatusReady:
			addEvent(&n, st, "Node reconnected")
		}
		tx.PutNode(&n)
		if c.Status == node.StatusDown {
			out.Evals = append(out.Evals, loseAllocs(tx, st, c.Seed, &n)...)
			PromoteQueued(tx, st) // what is mounted there without a record is judged by the claims from now on
		} else if n.Ready() {
			out.Evals = append(out.Evals, systemEvals(tx, c.Seed, &n)...)
		}
	}
	return out, nil
}

// lostText is what people read at an alloc whose node went down.
const lostText = "the node did not send heartbeats in time and counts as down"

// loseAllocs gives up a node's allocs and asks for a look at each of their jobs.
func loseAllocs(tx *state.Tx, st Stamp, seed string, n *node.Node) []ids.Eval {
	var evals []ids.Eval
	for _, a := range collect(tx.AllocsByNode(nil, n.ID)) {
		if a.ClientTerminal() {
			continue
		}
		j, text := tx.Job(nil, a.Namespace, a.Job), lostText
		if tx.Recovery(nil).Restored(n.ID, a.CreateIndex) {
			text = alloc.LostInRestore
		}
		if within, waits := allocreport.WaitsForNode(j, a); waits && text == lostText {
			tx.PutAlloc(a.FallSilent(st.Time, within))
			evals = append(evals, endOfSilence(tx, st, seed, j, within)...)
		} else {
			stopAlloc(tx, st, a, AllocStop{Alloc: a.ID, Description: text, ClientStatus: alloc.ClientLost})
		}
		if j.Stopped() {
			continue
		}
		if e := nodeEval(tx, seed, j, n); !slices.Contains(evals, e) {
			evals = append(evals, e)
		}
	}
	return evals
}
