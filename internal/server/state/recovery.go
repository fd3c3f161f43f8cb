package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/recovery"
)

// Names of the tables of what a restored state has still to hear.
const (
	Recoveries = "recovery"
	Evidences  = "lineage_evidence"
)

var recoveries = &table[recovery.Record]{
	name:     Recoveries,
	key:      func(*recovery.Record) Key { return theCluster },
	stamp:    stamping(func(o *recovery.Record) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(r *recovery.Record) uint64 { return r.ModifyIndex },
}

var evidences = &table[recovery.Evidence]{
	name:     Evidences,
	key:      func(e *recovery.Evidence) Key { return KeyOf(e.Node) },
	stamp:    stamping(func(o *recovery.Evidence) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(e *recovery.Evidence) uint64 { return e.ModifyIndex },
}

// Recovery returns the newest recovery of the state, ended or not; nil: it was never restored.
func (s *Snap) Recovery(w *Watch) *recovery.Record { return recoveries.get(s, w, theCluster) }

// PutRecovery stores the recovery.
func (tx *Tx) PutRecovery(r *recovery.Record) { recoveries.put(tx, r) }

// Evidence returns what a node knows against this state, or nil.
func (s *Snap) Evidence(w *Watch, node ids.Node) *recovery.Evidence {
	return evidences.get(s, w, KeyOf(node))
}

// AllEvidence yields what nodes know against this state and the ones before it, by node.
func (s *Snap) AllEvidence(w *Watch) iter.Seq[*recovery.Evidence] { return evidences.scan(s, w, "") }

// PutEvidence stores what a node knows against this state.
func (tx *Tx) PutEvidence(e *recovery.Evidence) { evidences.put(tx, e) }

// DeleteEvidence forgets it.
func (tx *Tx) DeleteEvidence(node ids.Node) bool { return evidences.drop(tx, KeyOf(node)) }
