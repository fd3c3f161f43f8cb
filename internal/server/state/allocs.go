package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/derive/standing"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// Allocs names the table of allocs.
const Allocs = "allocs"

const (
	byJob      = "job"
	byNode     = "node"
	byEval     = "eval"
	byModified = "modified"
)

var allocs = &table[alloc.Alloc]{
	name: Allocs,
	key:  func(a *alloc.Alloc) Key { return KeyOf(a.ID) },
	indexes: []index[alloc.Alloc]{
		one(byJob, func(a *alloc.Alloc) Key { return jobKey(a.Namespace, a.Job) }),
		one(byNode, func(a *alloc.Alloc) Key { return KeyOf(a.Node) }),
		one(byEval, func(a *alloc.Alloc) Key { return KeyOf(a.Eval) }),
		one(byModified, func(a *alloc.Alloc) Key { return KeyOf(number(a.ModifyIndex)) }),
	},
	stamp:    stamping(func(o *alloc.Alloc) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(a *alloc.Alloc) uint64 { return a.ModifyIndex },
}

// standings counts the allocs of each version of a group by how they stand. It follows from the table of allocs, and is
// in no snapshot.
var standings = &table[standing.Counts]{
	name: "standings",
	key:  func(c *standing.Counts) Key { return standingKey(c.Of) },
}

func standingKey(of standing.Of) Key {
	return KeyOf(string(of.Namespace), string(of.Job), of.Group, number(of.Create), number(of.Version),
		string(of.Deployment))
}

// Alloc returns an alloc, or nil.
func (s *Snap) Alloc(w *Watch, id ids.Alloc) *alloc.Alloc { return allocs.get(s, w, KeyOf(id)) }

// Allocs yields the allocs whose id begins with prefix, by id.
func (s *Snap) Allocs(w *Watch, prefix string) iter.Seq[*alloc.Alloc] {
	return allocs.scan(s, w, Key(prefix))
}

// AllocsByJob yields all allocs of a job's id, of purged predecessors too, by id.
func (s *Snap) AllocsByJob(w *Watch, ns ids.Namespace, id ids.Job) iter.Seq[*alloc.Alloc] {
	return allocs.find(s, w, byJob, jobKey(ns, id))
}

// AllocsByNode yields a node's allocs, by id.
func (s *Snap) AllocsByNode(w *Watch, node ids.Node) iter.Seq[*alloc.Alloc] {
	return allocs.find(s, w, byNode, KeyOf(node))
}

// AllocsSince yields the allocs that were changed at index or after it, in the order of their changes.
func (s *Snap) AllocsSince(index uint64) iter.Seq[*alloc.Alloc] {
	return allocs.since(s, byModified, KeyOf(number(index)))
}

// AllocsByEval yields the allocs that an evaluation made, by id.
func (s *Snap) AllocsByEval(w *Watch, eval ids.Eval) iter.Seq[*alloc.Alloc] {
	return allocs.find(s, w, byEval, KeyOf(eval))
}

// JobOf returns the job version that an alloc was made from; nil only when the state is broken.
func (s *Snap) JobOf(w *Watch, a *alloc.Alloc) *job.Job {
	return s.JobVersion(w, a.Namespace, a.Job, a.JobCreateIndex, a.JobVersion)
}

// PutAlloc stores an alloc. The caller decides AllocModifyIndex: it counts changes by the servers alone.
func (tx *Tx) PutAlloc(a *alloc.Alloc) {
	recount(&tx.Snap, allocs.put(tx, a), a)
}

// DeleteAlloc forgets an alloc.
func (tx *Tx) DeleteAlloc(id ids.Alloc) bool {
	recount(&tx.Snap, tx.Alloc(nil, id), nil)
	return allocs.drop(tx, KeyOf(id))
}

// Standings yields how the allocs of a job's id stand, of purged predecessors too.
func (s *Snap) Standings(ns ids.Namespace, id ids.Job) iter.Seq[*standing.Counts] {
	return standings.scan(s, nil, jobKey(ns, id))
}

// recount has what is counted of an alloc follow it: nil is one that was not there, or is not any more.
func recount(s *Snap, old, now *alloc.Alloc) {
	if old != nil && now != nil && standing.One(old) == standing.One(now) {
		return
	}
	if old != nil {
		one := standing.One(old)
		was := standings.get(s, nil, standingKey(one.Of))
		if next := was.Less(one); next.Allocs > 0 {
			standings.insert(s.own, &next)
		} else {
			standings.remove(s.own, was)
		}
	}
	if now != nil {
		next := standing.One(now)
		key := standingKey(next.Of)
		was := standings.get(s, nil, key)
		if was != nil {
			next = was.And(next)
		}
		standings.file(s.own, string(key), was, &next)
	}
}
