package state

import (
	"slices"

	"berth/internal/model/lineage"
)

// Marks names the table of lineage marks.
const Marks = "lineage_marks"

const byIndex = "index"

var marks = &table[lineage.Mark]{
	name:     Marks,
	key:      func(m *lineage.Mark) Key { return KeyOf(m.ID) },
	indexes:  []index[lineage.Mark]{one(byIndex, func(m *lineage.Mark) Key { return KeyOf(number(m.Index)) })},
	modified: func(m *lineage.Mark) uint64 { return m.Index },
}

// Point says where this state is in its history, or the zero point before the cluster was bootstrapped.
func (s *Snap) Point(w *Watch) lineage.Point {
	m := s.Meta(w)
	if m == nil {
		return lineage.Point{}
	}
	return lineage.Point{Incarnation: m.Incarnation, Mark: m.Mark, Index: s.Index()}
}

// Relate tells how this state stands to a point that somebody saw. The marks of the incarnations before the present one
// are its own: they tell what of their histories it contains.
func (s *Snap) Relate(seen lineage.Point) lineage.Relation {
	now := s.Point(nil)
	if m := s.Meta(nil); m != nil && slices.Contains(m.Parents, seen.Incarnation) {
		if seen.Mark == "" {
			return lineage.Forked // an index alone says nothing across incarnations
		}
		now.Incarnation = seen.Incarnation
	}
	return lineage.Relate(now, seen, s.LineageMark(seen.Mark))
}

// LineageMark returns the mark of an id, or nil.
func (s *Snap) LineageMark(id string) *lineage.Mark {
	if id == "" {
		return nil
	}
	return marks.get(s, nil, KeyOf(id))
}

// MarkIndex is the index of the newest mark: where the present leadership began. 0: there is none.
func (s *Snap) MarkIndex() uint64 {
	if m := s.Meta(nil); m != nil {
		if mark := s.LineageMark(m.Mark); mark != nil {
			return mark.Index
		}
	}
	return 0
}

// PutLineageMark stores a mark.
func (tx *Tx) PutLineageMark(m *lineage.Mark) { marks.put(tx, m) }

// TrimLineageMarks forgets the oldest marks beyond a number of them.
func (tx *Tx) TrimLineageMarks(keep int) {
	old := slices.Collect(marks.since(&tx.Snap, byIndex, ""))
	for _, m := range old[:max(0, len(old)-keep)] {
		marks.drop(tx, KeyOf(m.ID))
	}
}
