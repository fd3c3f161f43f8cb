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

// unfiled are the rows of a transaction, by their tables. They are filed when it is committed: each of its commands
// touches the same few.
type unfiled map[string]*row

// row is that of a table, or nil. Whoever reads it within a transaction finds it as if all before had been committed.
func (s *Snap) row(w *Watch, table string) *row {
	if r := s.unfiled[table]; r != nil {
		return r
	}
	return rows.get(s, w, KeyOf(table))
}

// touch notes that a table changed, and whether something left it.
func (tx *Tx) touch(table string, deleted bool) *row {
	r := tx.unfiled[table]
	if r == nil {
		r = &row{Table: table}
		if old := rows.get(&tx.Snap, nil, KeyOf(table)); old != nil {
			r.Deleted = old.Deleted
		}
		tx.unfiled[table] = r
	}
	r.Modify = tx.stamp.Index
	if deleted {
		r.Deleted = tx.stamp.Index
	}
	return r
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
	tx.touch(appliedRow, false).Time = instants.Nanos(tx.stamp.Time)
}

func (s *Snap) applied(w *Watch) Stamp {
	r := s.row(w, appliedRow)
	if r == nil {
		return Stamp{}
	}
	return Stamp{Index: r.Modify, Time: instants.Time(r.Time)}
}

// TableIndex is the index of the last change of a table, at least 1.
func (s *Snap) TableIndex(table string) uint64 {
	return max(1, of(func(r *row) uint64 { return r.Modify }, s.row(nil, table)))
}

// ReadIndex is the index of a read of some objects of a table: the highest of their modify indexes and of the table's
// last removal, at least 1. It grows whenever the answer of the same read changes.
func (s *Snap) ReadIndex(table string, modified ...uint64) uint64 {
	out := uint64(1)
	if r := s.row(nil, table); r != nil {
		out = max(out, r.Deleted)
	}
	for _, m := range modified {
		out = max(out, m)
	}
	return out
}
