// Package dynamicplugins owns the registry of plugins that run as jobs on this node: who declared which plugin, in
// which role, behind which socket. It is level-triggered (Changed + List) and persisted, so that a restarted agent
// finds the plugins that went on running.
package dynamicplugins

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/plugin"
)

// Info declares one instance: one running alloc of a plugin in one role.
type Info struct {
	Plugin ids.Plugin
	Role   plugin.Role
	Alloc  ids.Alloc
	Task   string
	Scope  plugin.Scope
	// Socket is the plugin's socket as the agent dials it.
	Socket string
	// HostBase is the host directory under which stagings and publications of this plugin lie; TaskBase is the same
	// directory as the plugin sees it (equal for drivers that mount nothing).
	HostBase string
	TaskBase string
	// HealthTimeout bounds how long the plugin may go without a good probe before its task is restarted.
	HealthTimeout time.Duration
	// MaxParallel is how many calls of one kind it is asked for at once; 0: as many as a plugin that does not say it.
	MaxParallel int `cbor:",omitempty"`
	Declared    time.Time
	// Attempt is the start of its task: a later one has a higher number, and finds no process of an earlier one.
	Attempt int
	// Ended is how the last process of its task ended, if it did before it served; empty: it served, or is the first.
	// It has a record of its own.
	Ended string `cbor:"-"`
}

// Key names an instance.
type Key struct {
	Role   plugin.Role
	Plugin ids.Plugin
	Alloc  ids.Alloc
}

// Key of the instance.
func (i Info) Key() Key { return Key{Role: i.Role, Plugin: i.Plugin, Alloc: i.Alloc} }
