package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/consul"
)

// ConsulTokens names the table of tokens that tasks have of Consul.
const ConsulTokens = "consul-tokens"

var consulTokens = &table[consul.ServiceToken]{
	name:     ConsulTokens,
	key:      func(t *consul.ServiceToken) Key { return KeyOf(string(t.Alloc), t.Task) },
	stamp:    stamping(func(t *consul.ServiceToken) (_, _ *uint64) { return &t.CreateIndex, &t.ModifyIndex }),
	modified: func(t *consul.ServiceToken) uint64 { return t.ModifyIndex },
}

// ConsulToken returns what is known of the token of a task, or nil.
func (s *Snap) ConsulToken(w *Watch, id ids.Alloc, task string) *consul.ServiceToken {
	return consulTokens.get(s, w, KeyOf(string(id), task))
}

// ConsulTokens yields all of them, by alloc and task.
func (s *Snap) ConsulTokens(w *Watch) iter.Seq[*consul.ServiceToken] {
	return consulTokens.scan(s, w, "")
}

// PutConsulToken stores one.
func (tx *Tx) PutConsulToken(t *consul.ServiceToken) { consulTokens.put(tx, t) }

// DeleteConsulToken forgets one.
func (tx *Tx) DeleteConsulToken(id ids.Alloc, task string) bool {
	return consulTokens.drop(tx, KeyOf(string(id), task))
}
