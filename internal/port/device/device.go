// Package device owns the contract of device plugins: how a node learns which devices it has, and how they are made
// ready for a task. The client's device manager sees only this package; those who speak with plugins lie below it.
package device

import (
	"context"

	"berth/internal/model/device"
	"berth/internal/port/driver"
)

// Plugin offers devices of a node. Implementations are safe for concurrent use and start no goroutine in their
// constructor.
type Plugin interface {
	// Name is what people know it by.
	Name() string
	// Follow says how the plugin is, and which devices there are, at each change, until ctx ends. The manager calls it
	// once.
	Follow(ctx context.Context, say func(State)) error
	// Reserve makes instances ready for a task, and tells what the task needs to use them. It may be repeated.
	Reserve(ctx context.Context, ids []string) (*Provided, error)
	// Stats are the figures that the plugin reported last.
	Stats() []device.Stats
}

// State is how a plugin is.
type State struct {
	// Reason says why the plugin is not there; empty: it is.
	Reason string
	// Groups are all devices that it found last. While it is not there they are what it found before.
	Groups []device.Group
}

// Provided is what a task needs to use devices.
type Provided struct {
	Env     map[string]string
	Mounts  []driver.Mount
	Devices []driver.Device
	// LeftOut is what the device manager took out of Env, since it is Reserved: one for each plugin.
	LeftOut []LeftOut
}
