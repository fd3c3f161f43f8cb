// Package sessions owns the commands over the chain of a node's agent starts: one begins and supersedes the one before,
// leaves, is seen though it was superseded, or is confirmed by a person. Only packages of the server import it.
package sessions

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/recovery"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Schema is the number of the cluster from which on sessions are stored.
const Schema = 5

func init() {
	fsm.Register[Register]("session-register", Schema, "server/endpoint/nodes")
	fsm.Register[Leave]("session-leave", Schema, "server/endpoint/nodes")
	fsm.Register[Seen]("session-seen", Schema, "server/endpoint/nodes")
	fsm.Register[Confirm]("session-confirm", Schema, "server/endpoint/nodes")
	fsm.Register[Readmit]("session-readmit", Schema, "server/endpoint/nodes")
}

// Register takes over what a node says of itself in a session, and begins that session if it is another than the stored
// one. Whether it may is asked here once more, so that two agents of one identity cannot both begin one.
type Register struct {
	Node  fsm.NodeRegister
	Start wire.AgentStart
	// Silent: the leader heard nothing of the stored session for a full time.
	Silent bool
	// Readmit is the hash of the token of a readmission that the agent shows; empty: it shows none.
	Readmit string
}

// Releases lets nodes register when the disk is nearly full: what they hold is released by them.
func (c *Register) Releases() bool { return true }

// Apply returns a *fsm.NodeChanged.
func (c *Register) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	id := c.Node.Node.ID
	admission, err := Admit(&tx.Snap, id, c.Start, c.Silent, c.Readmit, st.Time)
	if err != nil {
		return nil, err
	}
	if tx.Session(nil, id).Readmits(c.Readmit, st.Time) {
		c.readmitted(tx, st)
	} else if d := tx.Departure(id); d != nil && d.SecretHash != c.Node.Node.SecretHash {
		return nil, fault.WithHint(
			fault.New(fault.Denied, "register", fmt.Sprintf("node %q", id),
				"the servers have forgotten it on "+d.Time.UTC().Format(time.RFC3339)+
					", and its secret is not the one that it had"),
			"put its store back from a copy, or give this agent an empty data_dir: it is another node then")
	}
	if admission == node.AdmitRepeats {
		back := *tx.Session(nil, id)
		if back.Departed != nil {
			back.Departed = nil
			tx.PutSession(&back)
		}
	} else {
		next := tx.Session(nil, id).Follow(c.Start.Registration, st.Index, st.Time)
		next.Node = id
		tx.PutSession(next)
		silence(tx, id)
	}
	return c.Node.Apply(tx, st)
}

// silence lets nothing follow from what a node did not report. What it did is what is known; and no report of a session
// that is over follows this head.
func silence(tx *state.Tx, id ids.Node) {
	if head := tx.InventoryHead(nil, id); head != nil {
		h := *head
		h.FullIndex = 0
		tx.PutInventoryHead(&h)
	}
}

// readmitted lets the agent that shows the token be the node, whose secret may have been lost with the store.
func (c *Register) readmitted(tx *state.Tx, st fsm.Stamp) {
	id := c.Node.Node.ID
	r := tx.Session(nil, id).Readmission
	if old := tx.Node(nil, id); old != nil && old.SecretHash != c.Node.Node.SecretHash {
		n := *old
		n.SecretHash = c.Node.Node.SecretHash
		tx.PutNode(&n)
	}
	Tell(tx, st, id, "An agent without its store takes the node up, as "+cmp.Or(r.By, "a person")+" allowed: "+r.Reason)
}

// Admit judges an agent start by the state at a time. readmit is the hash of the token that it shows; empty: none. An
// error says why it is not accepted; NotReady: not yet.
func Admit(
	s *state.Snap, id ids.Node, start wire.AgentStart, silent bool, readmit string, at time.Time,
) (node.Admission, error) {
	now := s.Session(nil, id)
	relation := s.Relate(start.At)
	facts := node.SessionFacts{
		Lost:       relation == lineage.Forked || relation == lineage.Foreign,
		Readmitted: now.Readmits(readmit, at),
		Silent:     silent,
	}
	admission := node.Admit(now, start.Registration, facts)
	if now != nil && readmit != "" && !facts.Readmitted && admission != node.AdmitRepeats {
		return node.AdmitCopy, wire.RefuseSession(id, "its token is unknown, was used, or has expired",
			"stop this agent, ask for another token with \"berth node readmit\", and give it to \"berth node identity "+
				"keep\"")
	}
	switch admission {
	case node.AdmitWaits:
		return admission, fault.WithHint(
			fault.New(fault.NotReady, "register", fmt.Sprintf("node %q", id),
				fmt.Sprintf("it comes from another boot than %s, which was accepted under its identity at %s and may "+
					"still run", now.Address, now.Since.UTC().Format(time.RFC3339))),
			"it is accepted when nothing of that was heard for a while; if one of the two is a copy, stop the agent that "+
				"is the copy")
	case node.AdmitCopy:
		return admission, refuse(id, now, fmt.Sprintf(
			"this agent at %s does not follow the one at %s, which was accepted under its identity at %s",
			start.Address, now.Address, now.Since.UTC().Format(time.RFC3339)))
	case node.AdmitSuperseded:
		return admission, refuse(id, now, superseded(now, start.Address))
	}
	return admission, nil
}

// Check makes sure that a call comes from the agent start of a node that the servers obey.
func Check(s *state.Snap, w *state.Watch, id wire.NodeIdentity) error {
	now := s.Session(w, id.Node)
	switch {
	case now == nil && id.Session == "", now != nil && now.Epoch == id.Session:
		return nil
	case now == nil:
		return wire.UnknownSession(id.Node)
	}
	if !slices.Contains(now.Superseded, id.Session) { // an agent that was started again, and was not accepted yet
		return wire.RefuseSession(id.Node, "its agent has started and is not accepted yet", "it registers by itself; "+
			"what comes of that is shown by: berth node status "+ids.Short(id.Node))
	}
	return refuse(id.Node, now, superseded(now, "the caller"))
}

func superseded(now *node.Session, address string) string {
	return fmt.Sprintf("another agent start of it than %s is obeyed since %s: the one at %s", address,
		now.Since.UTC().Format(time.RFC3339), now.Address)
}

func refuse(id ids.Node, now *node.Session, why string) error {
	return wire.RefuseSession(id, why,
		"stop the agent that is the copy and give it an empty data_dir; when "+now.Address+
			" runs no more: berth node reboot-confirm -reason … "+ids.Short(id))
}

// Leave notes that the agent of a session ends while its node holds nothing: no process, no mount, no volume.
type Leave struct {
	Node    ids.Node
	Session string
}

// Releases lets it through when the disk is nearly full.
func (c *Leave) Releases() bool { return true }

// Apply returns whether it was noted.
func (c *Leave) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	now := tx.Session(nil, c.Node)
	if now == nil || now.Epoch != c.Session {
		return false, nil
	}
	for i := range tx.InventoryOf(nil, c.Node) {
		if !i.Entry.Quiet() {
			return false, nil
		}
	}
	n := *now
	n.Left = true
	tx.PutSession(&n)
	return true, nil
}

// Seen notes that an agent of a superseded session acts as a node.
type Seen struct {
	Node    ids.Node
	Session string
	Address string
}

// Releases lets it through when the disk is nearly full.
func (c *Seen) Releases() bool { return true }

// Apply returns whether the node was not known to be duplicated before.
func (c *Seen) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	now := tx.Session(nil, c.Node)
	if now == nil || now.Duplicated != nil || !slices.Contains(now.Superseded, c.Session) {
		return false, nil
	}
	n := *now
	n.Duplicated = &node.Duplicate{Epoch: c.Session, Address: c.Address, Since: st.Time}
	tx.PutSession(&n)
	Tell(tx, st, c.Node, "Another agent acts as this node")
	return true, nil
}

// Confirm is a person's word that nothing else runs under a node's identity than its accepted session; with Open also
// that one is over, and the next registration begins another.
type Confirm struct {
	Node   ids.Node
	By     string
	Reason string
	Open   bool
}

// Releases lets claims end when the disk is nearly full.
func (c *Confirm) Releases() bool { return true }

// Apply returns nil.
func (c *Confirm) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	now := tx.Session(nil, c.Node)
	if now == nil {
		return nil, fault.New(fault.NotFound, "confirm the reboot of", fmt.Sprintf("node %q", c.Node),
			"no session of it is known")
	}
	tx.PutSession(now.Confirm(node.Confirmation{Time: st.Time, By: c.By, Reason: c.Reason}, c.Open))
	if c.Open {
		// Whoever begins the next session says what the node holds. It may be the one that was refused: what the
		// session that is over has said, by its silence above all, is no word about that one's volumes.
		silence(tx, c.Node)
	} else {
		vouched(tx, st, c.Node)
	}
	fsm.PromoteQueued(tx, st) // a node in doubt may hold up volumes that it never had
	Tell(tx, st, c.Node, "Nothing else runs as this node, said "+cmp.Or(c.By, "a person")+": "+c.Reason)
	for _, cl := range slices.Collect(tx.ClaimsByNode(nil, c.Node)) { // what the node has released, it may end now
		fsm.Settle(tx, st, cl.Staging())
	}
	return nil, nil
}

// vouched notes that a person vouches for who reports for a node: what it has said since a recovery began counts, and
// so does that nothing is left of what another cluster state gave to it.
func vouched(tx *state.Tx, st fsm.Stamp, id ids.Node) {
	e, n := tx.Evidence(nil, id), tx.Node(nil, id)
	if e != nil && e.Relation == lineage.Foreign && n != nil && n.Unfollowed == "" {
		tx.DeleteEvidence(id)
	}
	r, h := tx.Recovery(nil), tx.InventoryHead(nil, id)
	if r.Expects(id) && h != nil && h.FullIndex > r.Index && h.AllocIndex >= r.Index {
		tx.PutRecovery(r.With(id, "", st.Time, func(n *recovery.Node) { n.Reported = st.Index }))
	}
}

// Readmit is a person's permission that an agent start which follows nothing takes up the identity of a node, by the
// token of a hash. A later one replaces it.
type Readmit struct {
	Node ids.Node
	node.Readmission
}

// Apply returns nil.
func (c *Readmit) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	now := tx.Session(nil, c.Node)
	if now == nil {
		return nil, fault.New(fault.NotFound, "readmit", fmt.Sprintf("node %q", c.Node), "no session of it is known")
	}
	n := *now
	n.Readmission = &c.Readmission
	tx.PutSession(&n)
	Tell(tx, st, c.Node, "An agent without its store may take the node up until "+
		c.Expires.UTC().Format(time.RFC3339)+", said "+cmp.Or(c.By, "a person")+": "+c.Reason)
	return nil, nil
}

// keptEvents bounds a node's history.
const keptEvents = 10

// Tell adds to the history of a node.
func Tell(tx *state.Tx, st fsm.Stamp, id ids.Node, text string) {
	old := tx.Node(nil, id)
	if old == nil {
		return
	}
	n := *old
	n.Events = append(slices.Clone(n.Events),
		node.Event{Message: text, Subsystem: "Cluster", Timestamp: st.Time, CreateIndex: st.Index})
	n.Events = n.Events[max(0, len(n.Events)-keptEvents):]
	tx.PutNode(&n)
}
