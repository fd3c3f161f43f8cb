package recovery

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	model "berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// status is the command that shows what a recovery waits for.
const status = "berth operator recovery status"

// Finish is a person's word that no node is missing in the list of those that are awaited.
type Finish struct{ Reason, By string }

// Releases lets a recovery come to its end on a full disk: nothing is released before.
func (c *Finish) Releases() bool { return true }

// Releases lets a node be dismissed.
func (c *Dismiss) Releases() bool { return true }

// Releases lets the claims of a dead node end.
func (c *Attest) Releases() bool { return true }

// Apply returns the *model.Record.
func (c *Finish) Apply(tx *state.Tx, st state.Stamp) (any, error) {
	rec := tx.Recovery(nil)
	if rec == nil || !rec.Ended.IsZero() {
		return nil, none("finish")
	}
	done := rec.Finish(model.Word{Reason: c.Reason, By: c.By, Time: st.Time})
	tx.PutRecovery(done)
	fsm.PromoteQueued(tx, st)
	return done, nil
}

func none(op string) error {
	return fault.WithHint(fault.New(fault.NotFound, op, "the recovery", "none is under way"), "see "+status)
}

// Dismiss is a person's word about one node: that it is dead, so that a recovery need not wait for it; or that what it
// has seen is wrong, so that it is no evidence against the state.
type Dismiss struct {
	Node       ids.Node
	Reason, By string
}

// Apply returns nil.
func (c *Dismiss) Apply(tx *state.Tx, st state.Stamp) (any, error) {
	word := model.Word{Reason: c.Reason, By: c.By, Time: st.Time}
	found := false
	if e := tx.Evidence(nil, c.Node); e != nil && e.Counts(tx.Meta(nil).Incarnation) {
		n := *e
		n.Dismissed = &word
		tx.PutEvidence(&n)
		found = true
	}
	rec := tx.Recovery(nil)
	if n := rec.Node(c.Node); n != nil && rec.Ended.IsZero() && n.Reported == 0 && n.Dead == nil {
		if err := gone(tx, "dismiss", c.Node); err != nil {
			return nil, err
		}
		tx.PutRecovery(rec.With(c.Node, "", st.Time, func(n *model.Node) { n.Dead = &word }))
		found = true
	}
	if !found {
		return nil, fault.WithHint(fault.New(fault.NotFound, "dismiss", "node "+ids.Short(c.Node),
			"no recovery waits for it, and it shows nothing against the servers' state"), "see "+status)
	}
	fsm.PromoteQueued(tx, st)
	return nil, nil
}

// gone refuses the word that a node is dead while it answers.
func gone(tx *state.Tx, op string, id ids.Node) error {
	if n := tx.Node(nil, id); n != nil && n.Status != node.StatusDown {
		return fault.WithHint(fault.New(fault.Conflict, op, "node "+ids.Short(id),
			fmt.Sprintf("it is %s, not down", n.Status)),
			"a node that answers reports what it holds by itself; stop its agent, or end what it keeps: "+
				"berth node orphans list "+ids.Short(id))
	}
	return nil
}

// Attest is a person's word that a dead node cannot write to one volume any more.
type Attest struct {
	volume.StagingKey
	Node       ids.Node
	Reason, By string
}

// Apply returns the *model.Record; nil where no recovery waits for the node.
func (c *Attest) Apply(tx *state.Tx, st state.Stamp) (any, error) {
	rec := tx.Recovery(nil)
	n := rec.Node(c.Node)
	if n == nil || !rec.Ended.IsZero() || c.StagingKey == (volume.StagingKey{}) {
		return (*model.Record)(nil), nil
	}
	if err := gone(tx, "attest", c.Node); err != nil {
		return nil, err
	}
	done := rec.With(c.Node, "", st.Time, func(n *model.Node) {
		word := model.Gone{StagingKey: c.StagingKey, Word: model.Word{Reason: c.Reason, By: c.By, Time: st.Time}}
		n.Without = append(append([]model.Gone(nil), n.Without...), word)
	})
	tx.PutRecovery(done)
	fsm.PromoteQueued(tx, st)
	return done, nil
}

// maxEvidence bounds what nodes may show against a state: the first of them stand for all.
const maxEvidence = 256

// Contradicts tells how a state stands to what a node has seen, and whether that is evidence against the state: the
// history is another, or this one without its end. What a recovery has taken over is none.
func Contradicts(s *state.Snap, seen lineage.Point) (lineage.Relation, bool) {
	relation, m := s.Relate(seen), s.Meta(nil)
	forked := relation == lineage.Forked && m != nil && seen.Incarnation == m.Incarnation
	return relation, forked || relation == lineage.Foreign
}

// Evidence notes that a node has seen a history that this state does not contain, or that it has released all that
// it held by such a one.
type Evidence struct {
	Node     ids.Node
	Name     string
	Seen     lineage.Point
	Relation lineage.Relation
	// Withdrawn: the node was of another incarnation and holds nothing of it any more.
	Withdrawn bool
}

// Apply returns whether anything is new about it.
func (c *Evidence) Apply(tx *state.Tx, st state.Stamp) (any, error) {
	at := tx.Point(nil)
	old := tx.Evidence(nil, c.Node)
	known := old != nil && old.At.Incarnation == at.Incarnation
	// A recovery may have begun since the node was read: what it has seen is behind the state by a person's word then.
	if relation, against := Contradicts(&tx.Snap, c.Seen); !c.Withdrawn && (!against || relation != c.Relation) {
		return false, nil
	}
	if c.Withdrawn {
		// Another boot or agent of the node may still hold what this one has released of its own.
		if known && old.Relation == lineage.Foreign && tx.Session(nil, c.Node).Doubted() == "" {
			tx.DeleteEvidence(c.Node)
			fsm.PromoteQueued(tx, st)
			return true, nil
		}
		return false, nil
	}
	if known && (old.Dismissed == nil || old.Seen == c.Seen) {
		return false, nil
	}
	count := 0
	for range tx.AllEvidence(nil) {
		count++
	}
	if old == nil && count >= maxEvidence {
		return false, nil
	}
	tx.PutEvidence(&model.Evidence{
		Node:     c.Node,
		Name:     c.Name,
		Seen:     c.Seen,
		At:       at,
		Relation: c.Relation,
		Time:     st.Time,
	})
	return true, nil
}
