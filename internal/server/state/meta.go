package state

// Metas names the table that holds the one record about the cluster itself.
const Metas = "meta"

// Meta identifies the cluster and the incarnation of its state.
type Meta struct {
	ClusterID string // never changes
	// Incarnation is new at bootstrap and at every restore by a person: epochs of another incarnation are void.
	Incarnation string
	// Parents are the incarnations that this one goes on from, the newest first: the one that a restore replaced, and
	// the one that was restored. What was seen in them is judged by the marks.
	Parents []string
	// Schema bounds what may be proposed: the lowest number that every server understands.
	Schema uint64
	// Mark is the id of the newest lineage mark.
	Mark                     string
	CreateIndex, ModifyIndex uint64
}

var metas = &table[Meta]{
	name: Metas,
	key:  func(*Meta) Key { return KeyOf("cluster") },
	stamp: func(now, old *Meta, index uint64) {
		now.CreateIndex, now.ModifyIndex = index, index
		if old != nil {
			now.CreateIndex = old.CreateIndex
		}
	},
	modified: func(m *Meta) uint64 { return m.ModifyIndex },
}

// Meta returns the record about the cluster, or nil before it was bootstrapped.
func (s *Snap) Meta(w *Watch) *Meta { return metas.get(s, w, KeyOf("cluster")) }

// Understands reports whether every server of the cluster understands a schema.
func (s *Snap) Understands(schema uint64) bool {
	m := s.Meta(nil)
	return m != nil && m.Schema >= schema
}

// PutMeta stores the record about the cluster.
func (tx *Tx) PutMeta(m *Meta) { metas.put(tx, m) }
