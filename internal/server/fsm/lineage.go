package fsm

import (
	"berth/internal/base/fault"
	"berth/internal/model/lineage"
	"berth/internal/server/state"
)

func init() { Register[LineageMark]("lineage-mark", 2, "server") }

// keptMarks bounds the chain of marks: 65,536 leaderships, about 4 MB. What was seen only under older ones is no longer
// known to be of this history.
const keptMarks = 1 << 16

// recoveries is the schema from which on a state can be restored.
const recoveries = 5

// LineageMark begins a leadership: from here on this history is distinct from every other that shares its past. It is
// the first command of each leadership that changes anything else.
type LineageMark struct {
	Mark string // 128 random bits, hexadecimal
}

// Apply returns nil.
func (c *LineageMark) Apply(tx *state.Tx, st Stamp) (any, error) {
	m := tx.Meta(nil)
	if m == nil {
		return nil, fault.New(fault.Internal, "mark", "the state's lineage", "the cluster has no identity yet")
	}
	if c.Mark == "" || tx.LineageMark(c.Mark) != nil {
		return nil, fault.New(fault.Invalid, "mark", "the state's lineage", "its mark is empty or was used before")
	}
	if old := tx.LineageMark(m.Mark); old != nil {
		before := *old
		before.Next = st.Index
		if reached(tx, recoveries) {
			// The last command that this history has: what the log held after it in another one is not part of it,
			// though it may have the indexes that lie between.
			before.Next = tx.Index() + 1
		}
		tx.PutLineageMark(&before)
	}
	tx.PutLineageMark(&lineage.Mark{ID: c.Mark, Index: st.Index})
	now := *m
	now.Mark = c.Mark
	tx.PutMeta(&now)
	tx.TrimLineageMarks(keptMarks)
	return nil, nil
}
