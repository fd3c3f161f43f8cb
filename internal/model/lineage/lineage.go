// Package lineage owns the question whether a state of the servers continues the history that somebody saw. Only in a
// state that does, absence proves removal: a state that was emptied, cut or restored from an older copy simply does not
// know what it lacks.
package lineage

// Point is a place in a history of the servers' state: the incarnation, the newest mark at the index, and the index.
// The zero value is that of somebody who has seen nothing.
type Point struct {
	Incarnation string
	// Mark is the id of the newest mark; empty in what was recorded before there were marks.
	Mark  string
	Index uint64
}

// IsZero reports that nothing was seen.
func (p Point) IsZero() bool { return p == Point{} }

// Mark is what the first command of each leadership leaves in the state: a random id that no other history has.
type Mark struct {
	ID    string // 128 random bits, hexadecimal
	Index uint64 // of the command
	Next  uint64 // index of the mark after it; 0: it is the newest
}

// Relation says how a state stands to a point that somebody saw.
type Relation uint8

// Relations. They are part of the wire format: append only.
const (
	// Forked: same incarnation, but the state does not contain the point; it was restored or shortened.
	Forked Relation = iota
	// Foreign: the state is of another incarnation.
	Foreign
	// Behind: the state is of the same leadership and not there yet; another server is, or this one will be.
	Behind
	// Continues: what was seen there is part of the state's own history.
	Continues
)

var relationNames = [...]string{"forked", "foreign", "behind", "continues"}

func (r Relation) String() string {
	if int(r) < len(relationNames) {
		return relationNames[r]
	}
	return "unknown"
}

// Relate tells how a state that is at now stands to a point. m is the state's own record of the point's mark, nil when
// it has none. Terms and hashes of a log play no part: a lone voter that was restored reaches the same term and index
// again.
func Relate(now, seen Point, m *Mark) Relation {
	switch {
	case seen.IsZero():
		return Continues // nothing was seen that it could contradict
	case seen.Incarnation != now.Incarnation:
		return Foreign
	case seen.Mark == "":
		// From before there were marks: accepted by its index alone, and stamped with the next set.
		if seen.Index <= now.Index {
			return Continues
		}
		return Forked
	case m == nil || seen.Index < m.Index || m.Next != 0 && seen.Index >= m.Next:
		return Forked
	case m.Next == 0 && seen.Index > now.Index:
		return Behind
	}
	return Continues
}
