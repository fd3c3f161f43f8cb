package radix

import "slices"

// Forest is trees that are committed together.
type Forest []Tree

// NewForest returns so many empty trees.
func NewForest(n int) Forest {
	f := make(Forest, n)
	for i := range f {
		f[i] = New()
	}
	return f
}

// ForestTxn makes another forest of one. Trees that it does not write to stay the same.
type ForestTxn struct {
	// Writes grows with each tree that is asked for to write to it.
	Writes int

	from Forest
	txns []*Txn // nil: nothing was written to that one
}

// Txn begins to make another forest of this one, which stays as it is.
func (f Forest) Txn() *ForestTxn { return &ForestTxn{from: f, txns: make([]*Txn, len(f))} }

// Write returns a tree to write to.
func (x *ForestTxn) Write(at int) *Txn {
	x.Writes++
	if x.txns[at] == nil {
		x.txns[at] = x.from[at].Txn()
	}
	return x.txns[at]
}

// Written returns a tree that was written to; nil: it was not, or there is no transaction.
func (x *ForestTxn) Written(at int) *Txn {
	if x == nil {
		return nil
	}
	return x.txns[at]
}

// Commit shows what was made, and then tells those who watch what is another.
func (x *ForestTxn) Commit(show func(Forest)) {
	now := slices.Clone(x.from)
	for i, t := range x.txns {
		if t != nil {
			now[i] = t.Tree()
		}
	}
	show(now)
	for _, t := range x.txns {
		if t != nil {
			t.Notify()
		}
	}
}
