package state

import "berth/internal/model/autopilot"

// Autopilots names the table of the one configuration of how the servers keep themselves.
const Autopilots = "autopilot"

var autopilots = &table[autopilot.Config]{
	name:     Autopilots,
	key:      func(*autopilot.Config) Key { return KeyOf(present) },
	stamp:    stamping(func(o *autopilot.Config) (created, modified *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(c *autopilot.Config) uint64 { return c.ModifyIndex },
}

// Autopilot returns how the servers keep themselves: what somebody said, or what holds until then. It is not to be
// changed.
func (s *Snap) Autopilot(w *Watch) *autopilot.Config {
	if c := autopilots.get(s, w, KeyOf(present)); c != nil {
		return c
	}
	return autopilot.Default()
}

// PutAutopilot stores how the servers keep themselves.
func (tx *Tx) PutAutopilot(c *autopilot.Config) { autopilots.put(tx, c) }
