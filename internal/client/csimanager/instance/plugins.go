package instance

import (
	"berth/internal/base/ids"
	"berth/internal/client/dynamicplugins"
	"berth/internal/model/plugin"
	"berth/internal/port/csi"
)

// Connection is a lease on one ready plugin instance. Release it when the call has ended; a draining instance closes
// when its last lease is released.
type Connection struct {
	Client  *csi.Client
	Facts   csi.Instance
	Info    dynamicplugins.Info
	Release func()
}

// Plugins gives connections to ready instances: a Manager does, and what a test puts in front of one.
type Plugins interface {
	// Use returns a connection to the current instance of a plugin in a role, or fault.NotReady saying what it does.
	Use(id ids.Plugin, role plugin.Role) (*Connection, error)
	// Changed is closed at the next change of any instance. Take it before Use.
	Changed() <-chan struct{}
	// AtOnce is how many calls of one kind the plugin takes at once in a role, as its job says; 0: that says nothing.
	AtOnce(id ids.Plugin, role plugin.Role) int
}
