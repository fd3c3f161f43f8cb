package state

import "berth/internal/base/instants"

// row tells of one table when it changed last. It is itself a table, so that a snapshot of the state knows it.
type row struct {
	Table   string
	Modify  uint64 // index of the last change
	Deleted uint64 // index of the last removal
	Time    int64  // of the applied row: nanoseconds since the epoch
}

// appliedRow is the row of the state as a whole: the last command's stamp.
const appliedRow = "applied"

var rows = &table[row]{name: "index", key: func(r *row) Key { return KeyOf(r.Table) }}

func (tx *Tx) bump(t touch) {
	next := &row{Table: t.table, Modify: tx.stamp.Index}
	if old := rows.get(&tx.Snap, nil, KeyOf(t.table)); old != nil {
		next.Deleted = old.Deleted
	}
	if t.deleted {
		next.Deleted = tx.stamp.Index
	}
	rows.insert(tx.own, next)
}

// TouchAll makes every table count as changed: whoever waits for news of an object hears that the state is another.
func (tx *Tx) TouchAll() {
	for _, t := range tables {
		if t.title() != rows.name {
			tx.touch(t.title(), true)
		}
	}
	tx.own.Writes++
}

func (tx *Tx) setApplied() {
	rows.insert(tx.own, &row{Table: appliedRow, Modify: tx.stamp.Index, Time: instants.Nanos(tx.stamp.Time)})
}

func (s *Snap) applied(w *Watch) Stamp {
	r := rows.get(s, w, KeyOf(appliedRow))
	if r == nil {
		return Stamp{}
	}
	return Stamp{Index: r.Modify, Time: instants.Time(r.Time)}
}

// TableIndex is the index of the last change of a table, at least 1.
func (s *Snap) TableIndex(table string) uint64 {
	if r := rows.get(s, nil, KeyOf(table)); r != nil {
		return max(1, r.Modify)
	}
	return 1
}

// ReadIndex is the index of a read of some objects of a table: the highest of their modify indexes and of the table's
// last removal, at least 1. It grows whenever the answer of the same read changes.
func (s *Snap) ReadIndex(table string, modified ...uint64) uint64 {
	out := uint64(1)
	if r := rows.get(s, nil, KeyOf(table)); r != nil {
		out = max(out, r.Deleted)
	}
	for _, m := range modified {
		out = max(out, m)
	}
	return out
}
