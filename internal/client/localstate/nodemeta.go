package localstate

import (
	"berth/internal/model/node"
	"berth/internal/port/kv"
)

const keyNodeMeta = "node-meta"

// NodeMeta is what was said of the node's metadata at run time: values by keys; nil: the key is none of the node's,
// though its configuration names it.
func (s *Store) NodeMeta() (map[string]*string, error) {
	var w node.MetaWords
	_, err := s.own(keyNodeMeta, &w)
	return w.Map(), err
}

// PutNodeMeta remembers what was said of the node's metadata, in place of what was said before.
func (s *Store) PutNodeMeta(all map[string]*string) error {
	return s.KV.Update(func(tx *kv.Tx) error { return tx.Put(bucketMeta, keyNodeMeta, node.MetaWordsOf(all)) })
}
