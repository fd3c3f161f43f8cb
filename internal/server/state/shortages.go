package state

import (
	"iter"

	"berth/internal/model/plugin"
)

// Shortages names the table of nodes that have no room for another volume of a plugin.
const Shortages = "shortages"

var shortages = &table[plugin.Shortage]{
	name:     Shortages,
	key:      func(s *plugin.Shortage) Key { return shortageKey(s.ShortageKey) },
	stamp:    stamping(func(o *plugin.Shortage) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(s *plugin.Shortage) uint64 { return s.ModifyIndex },
}

func shortageKey(k plugin.ShortageKey) Key {
	if k.ExternalID == "" {
		return KeyOf(string(k.Node), string(k.Plugin))
	}
	return KeyOf(string(k.Node), string(k.Plugin), k.ExternalID)
}

// Shortage returns what is known of a plugin's lack of room on a node, or nil.
func (s *Snap) Shortage(w *Watch, k plugin.ShortageKey) *plugin.Shortage {
	return shortages.get(s, w, shortageKey(k))
}

// Shortages yields all shortages, by node and plugin.
func (s *Snap) Shortages(w *Watch) iter.Seq[*plugin.Shortage] { return shortages.scan(s, w, "") }

// PutShortage stores a shortage.
func (tx *Tx) PutShortage(s *plugin.Shortage) { shortages.put(tx, s) }

// DeleteShortage forgets a shortage.
func (tx *Tx) DeleteShortage(k plugin.ShortageKey) bool { return shortages.drop(tx, shortageKey(k)) }
