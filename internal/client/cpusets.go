package client

import (
	"berth/internal/client/cpuset"
	"berth/internal/model/cores"
)

// pool makes the book of who has cores of the node for itself.
func (c *Client) pool() *cpuset.Pool {
	cfg := cpuset.Config{
		Cores: func() ([]cores.Core, []uint16) {
			n := c.host.Node()
			return n.Resources.Cores, n.Reserved.Kept
		},
		Log: c.log,
	}
	if c.launcher != nil {
		cfg.Confine = c.launcher.Confine
	}
	p := cpuset.New(cfg)
	p.Begin()
	return p
}
