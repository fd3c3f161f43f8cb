package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/plugin"
)

// Plugins names the table of plugin records.
const Plugins = "plugins"

var plugins = &table[plugin.Record]{
	name:     Plugins,
	key:      func(p *plugin.Record) Key { return KeyOf(p.ID) },
	stamp:    stamping(func(o *plugin.Record) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(p *plugin.Record) uint64 { return p.ModifyIndex },
}

// Plugin returns a plugin's record, or nil.
func (s *Snap) Plugin(w *Watch, id ids.Plugin) *plugin.Record { return plugins.get(s, w, KeyOf(id)) }

// Plugins yields the records whose id begins with prefix, by id.
func (s *Snap) Plugins(w *Watch, prefix string) iter.Seq[*plugin.Record] {
	return plugins.scan(s, w, Key(prefix))
}

// PutPlugin stores a plugin's record.
func (tx *Tx) PutPlugin(p *plugin.Record) { plugins.put(tx, p) }

// DeletePlugin forgets a plugin's record.
func (tx *Tx) DeletePlugin(id ids.Plugin) bool { return plugins.drop(tx, KeyOf(id)) }
