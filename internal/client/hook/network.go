package hook

import (
	"sync"

	"berth/internal/model/alloc"
	"berth/internal/port/driver"
)

// Network is the network of one alloc: the alloc's hook sets it, the starts of its tasks and its reports read it. The
// zero value, and nil, are the node's own.
type Network struct {
	mu     sync.Mutex
	made   *driver.Network
	status *alloc.NetworkStatus
}

// Set keeps what was made. Nobody changes it afterwards.
func (n *Network) Set(made *driver.Network, status *alloc.NetworkStatus) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.made, n.status = made, status
}

// Get returns what was made; nil: the node's own network.
func (n *Network) Get() *driver.Network {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.made
}

// Status is what the servers hear of it; nil: nothing.
func (n *Network) Status() *alloc.NetworkStatus {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.status
}
