package state

// Metas names the table that holds the one record about the cluster itself.
const Metas = "meta"

var metas = &table[Meta]{
	name:     Metas,
	key:      func(*Meta) Key { return theCluster },
	stamp:    stamping(func(o *Meta) (created, modified *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(m *Meta) uint64 { return m.ModifyIndex },
}

// Meta returns the record about the cluster, or nil before it was bootstrapped.
func (s *Snap) Meta(w *Watch) *Meta { return metas.get(s, w, theCluster) }

// Understands reports whether every server of the cluster understands a schema.
func (s *Snap) Understands(schema uint64) bool {
	m := s.Meta(nil)
	return m != nil && m.Schema >= schema
}

// PutMeta stores the record about the cluster.
func (tx *Tx) PutMeta(m *Meta) { metas.put(tx, m) }
