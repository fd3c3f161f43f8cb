package session

import (
	"slices"

	"berth/internal/model/lineage"
)

// Standing is how a node stands to the state of the servers that registered it.
type Standing uint8

// Standings.
const (
	Follows     Standing = iota // it is the state that the node has seen, or one that a person restored from that
	FollowsAnew                 // it is another, and the node holds nothing: what it has seen before counts no more
	Keeps                       // it is another than the one that placed what the node holds
)

// Stand decides whether a node follows the state of an incarnation, which goes on from its parents. A node that holds
// tasks or volumes of another one does not: it keeps them, reports them, and follows when nothing of them is left.
// There is no way back to an incarnation that was left.
func Stand(seen lineage.Point, holds bool, incarnation string, parents []string) Standing {
	switch {
	case seen.Incarnation == "", seen.Incarnation == incarnation, slices.Contains(parents, seen.Incarnation):
		return Follows
	case holds:
		return Keeps
	}
	return FollowsAnew
}

// Reception is what becomes of a set of allocs.
type Reception uint8

// Receptions.
const (
	Acted     Reception = iota // it is acted on
	ActedWary                  // as well, but it does not continue what the node has seen: by its absences nothing ends
	Elsewhere                  // it is of another incarnation than the registration: the session begins anew
	Foreign                    // the node holds what another incarnation placed
	Late                       // its server lags behind what the node has acted on: another try may find a better one
)

// Set is the head of a set of allocs: whether it is a whole one, where it was read, and how that state stands to what
// the node has seen.
type Set struct {
	Full     bool
	At       lineage.Point
	Relation lineage.Relation
}

// Receive decides what a node that is registered in an incarnation does with a set of allocs.
func Receive(incarnation string, seen lineage.Point, s Set) Reception {
	switch {
	case s.At.Incarnation != incarnation:
		return Elsewhere
	case s.Full && s.Relation == lineage.Foreign:
		return Foreign
	case s.Full && s.Relation == lineage.Behind, !s.Full && s.At.Index < seen.Index:
		return Late
	case s.Full && s.Relation == lineage.Forked:
		return ActedWary
	}
	return Acted
}
