package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/variable"
)

// Variables names the table of what is kept at paths. Their items lie sealed among the secrets.
const Variables = "variables"

// locked files variables that somebody holds the lock of.
const locked = "locked"

var variables = &table[variable.Variable]{
	name: Variables,
	key:  func(v *variable.Variable) Key { return KeyOf(string(v.Namespace), v.Path) },
	indexes: []index[variable.Variable]{one(locked, func(v *variable.Variable) Key {
		if v.Lock == nil {
			return ""
		}
		return KeyOf(string(v.Namespace), v.Path)
	})},
	stamp:    stamping(func(v *variable.Variable) (_, _ *uint64) { return &v.CreateIndex, &v.ModifyIndex }),
	modified: func(v *variable.Variable) uint64 { return v.ModifyIndex },
}

// Variable returns what is at a path, or nil.
func (s *Snap) Variable(w *Watch, ns ids.Namespace, path string) *variable.Variable {
	return variables.get(s, w, KeyOf(string(ns), path))
}

// Variables yields those of a namespace whose paths begin with prefix, by path.
func (s *Snap) Variables(w *Watch, ns ids.Namespace, prefix string) iter.Seq[*variable.Variable] {
	return variables.scan(s, w, KeyOf(string(ns))+Key(prefix))
}

// AllVariables yields those of every namespace.
func (s *Snap) AllVariables(w *Watch) iter.Seq[*variable.Variable] { return variables.scan(s, w, "") }

// Locked yields the variables that somebody holds the lock of.
func (s *Snap) Locked(w *Watch) iter.Seq[*variable.Variable] { return variables.find(s, w, locked, "") }

// PutVariable stores a variable.
func (tx *Tx) PutVariable(v *variable.Variable) { variables.put(tx, v) }

// DeleteVariable removes a variable and tells whether it was there.
func (tx *Tx) DeleteVariable(ns ids.Namespace, path string) bool {
	return variables.drop(tx, KeyOf(string(ns), path))
}
