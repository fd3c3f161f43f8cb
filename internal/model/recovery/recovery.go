// Package recovery owns what a restored state still has to hear before it may act: which nodes may hold something that
// the state does not know, which of them have said what they hold, and who vouched for the others. A state that was
// restored is older than the world around it.
package recovery

import (
	"slices"
	"strings"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
)

// Word is what a person said, with the reason.
type Word struct {
	Reason string
	By     string
	Time   time.Time
}

// Record is a recovery of the cluster's state: from a restore until every node that may hold something has been heard.
// Records are frozen once they are stored; what changes one returns another.
type Record struct {
	Cause string // why, for people
	By    string // who began it
	// Parent is the incarnation that was left, Incarnation the one that began.
	Parent, Incarnation string
	Begun               time.Time
	// Index is that of the beginning: what is older was restored.
	Index uint64
	// Whole: the nodes of the state that was replaced are among Nodes. Otherwise nobody but a person knows whether some
	// are missing, and Finished is needed as well.
	Whole    bool
	Finished *Word
	Nodes    []Node    // by id
	Ended    time.Time // zero: under way
	// CreateIndex and ModifyIndex are the store's.
	CreateIndex, ModifyIndex uint64
}

// Node is one of the nodes that may hold something.
type Node struct {
	ID   ids.Node
	Name string
	// Reported is the index of its first whole inventory in this incarnation; 0: none yet.
	Reported uint64
	Dead     *Word  // a person vouches that it is dead
	Without  []Gone // volumes of which a person vouches that it holds them no longer
}

// Gone is a person's word that a node cannot write to one volume any more.
type Gone struct {
	volume.StagingKey
	Word
}

// heard reports whether nothing is to be expected of the node for a volume; the zero key is that of no volume.
func (n *Node) heard(k volume.StagingKey) bool {
	return n.Reported > 0 || n.Dead != nil ||
		k != volume.StagingKey{} && slices.ContainsFunc(n.Without, func(g Gone) bool { return g.StagingKey == k })
}

// Awaited lists the nodes that have yet to say whether they hold a volume; with the zero key those that have said
// nothing at all.
func (r *Record) Awaited(k volume.StagingKey) []Node {
	var out []Node
	if r == nil || !r.Ended.IsZero() {
		return nil
	}
	for i := range r.Nodes {
		if !r.Nodes[i].heard(k) {
			out = append(out, r.Nodes[i])
		}
	}
	return out
}

// Over reports whether the recovery has ended for a volume; nil is a state that was never restored.
func (r *Record) Over(k volume.StagingKey) bool {
	return r == nil || !r.Ended.IsZero() || r.Listed() && len(r.Awaited(k)) == 0
}

// Listed reports whether it is certain that no node is missing in the list; nil is a state that was never restored.
func (r *Record) Listed() bool { return r == nil || r.Whole || r.Finished != nil }

// Node returns what is known of one node, or nil.
func (r *Record) Node(id ids.Node) *Node {
	if r == nil {
		return nil
	}
	if i, ok := r.find(id); ok {
		return &r.Nodes[i]
	}
	return nil
}

// Expects reports whether a node has yet to say what it holds, whoever vouched for it; one that joined after the end of
// the recovery has nothing to say.
func (r *Record) Expects(id ids.Node) bool {
	if n := r.Node(id); n != nil {
		return n.Reported == 0
	}
	return r != nil && r.Ended.IsZero()
}

func (r *Record) find(id ids.Node) (int, bool) {
	return slices.BinarySearchFunc(r.Nodes, id, func(n Node, id ids.Node) int {
		return strings.Compare(string(n.ID), string(id))
	})
}

// Restored reports whether something that was made at an index was brought back by the restore that a node has not
// answered yet: what it has no record of, it must not begin.
func (r *Record) Restored(node ids.Node, index uint64) bool {
	if r == nil || index >= r.Index {
		return false
	}
	n := r.Node(node)
	return n == nil || n.Reported == 0
}

// With returns the record with a change of one node, which is added if it is not in the list; nil where nothing
// changes. A recovery that has heard everybody ends with it.
func (r *Record) With(id ids.Node, name string, now time.Time, change func(*Node)) *Record {
	out := *r
	out.Nodes = slices.Clone(r.Nodes)
	i, ok := out.find(id)
	if !ok {
		out.Nodes = slices.Insert(out.Nodes, i, Node{ID: id})
	}
	n := &out.Nodes[i]
	if name != "" {
		n.Name = name
	}
	change(n)
	out.settle(now)
	return &out
}

// Finish returns the record with a person's word that no node is missing in the list.
func (r *Record) Finish(w Word) *Record {
	out := *r
	out.Finished = &w
	out.settle(w.Time)
	return &out
}

func (r *Record) settle(now time.Time) {
	if r.Ended.IsZero() && r.Listed() && len(r.Awaited(volume.StagingKey{})) == 0 {
		r.Ended = now
	}
}

// Evidence is that a node has seen a history of the servers that this state does not contain: the state was put back to
// an older one, cut, or replaced, and nobody said so.
type Evidence struct {
	Node ids.Node
	Name string
	// Seen is what the node has seen, At where this state was when it said so.
	Seen, At    lineage.Point
	Relation    lineage.Relation
	Time        time.Time
	Dismissed   *Word
	CreateIndex uint64
	ModifyIndex uint64
}

// Counts reports whether the evidence is against a state of this incarnation, and stands.
func (e *Evidence) Counts(incarnation string) bool {
	return e.Dismissed == nil && e.At.Incarnation == incarnation
}
