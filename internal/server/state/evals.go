package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/base/instants"
	"berth/internal/model/eval"
)

// Evals names the table of evaluations.
const Evals = "evals"

var evals = &table[eval.Eval]{
	name: Evals,
	key:  func(e *eval.Eval) Key { return KeyOf(e.ID) },
	indexes: []index[eval.Eval]{
		one(byJob, func(e *eval.Eval) Key { return jobKey(e.Namespace, e.Job) }),
		those(open, func(e *eval.Eval) bool { return !e.Terminal() }),
	},
	stamp:    stamping(func(o *eval.Eval) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(e *eval.Eval) uint64 { return e.ModifyIndex },
}

// Eval returns an evaluation, or nil.
func (s *Snap) Eval(w *Watch, id ids.Eval) *eval.Eval { return evals.get(s, w, KeyOf(id)) }

// Evals yields the evaluations whose id begins with prefix, by id.
func (s *Snap) Evals(w *Watch, prefix string) iter.Seq[*eval.Eval] {
	return evals.scan(s, w, Key(prefix))
}

// EvalsByJob yields a job's evaluations, by id.
func (s *Snap) EvalsByJob(w *Watch, ns ids.Namespace, id ids.Job) iter.Seq[*eval.Eval] {
	return evals.find(s, w, byJob, jobKey(ns, id))
}

// open files the evaluations that are not over.
const open = "open"

var openKey = KeyOf(open)

// OpenEvals yields the evaluations that are pending or blocked, by id.
func (s *Snap) OpenEvals(w *Watch) iter.Seq[*eval.Eval] { return evals.find(s, w, open, openKey) }

// PutEval stores an evaluation; times that are zero become the command's.
func (tx *Tx) PutEval(e *eval.Eval) {
	if e.CreateTime == 0 {
		e.CreateTime = instants.Nanos(tx.stamp.Time)
	}
	e.ModifyTime = instants.Nanos(tx.stamp.Time)
	evals.put(tx, e)
	tx.evals.Add(tx.stamp.Index, e.ID)
}

// DeleteEval forgets an evaluation.
func (tx *Tx) DeleteEval(id ids.Eval) bool {
	gone := evals.drop(tx, KeyOf(id))
	if gone {
		tx.evals.Add(tx.stamp.Index, id)
	}
	return gone
}
