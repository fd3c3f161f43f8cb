package client

import (
	"context"

	"berth/internal/base/ids"
	"berth/internal/client/shim"
	"berth/internal/model/plugin"
)

// What tests look at beyond what the agent needs of a node.

func (c *Client) AllocDir() string { return c.allocs.Dir() }

func (c *Client) Known(id ids.Alloc) bool { return c.allocs.Known(id) }

func (c *Client) ProcessesGone(id ids.Alloc) (bool, string) { return c.allocs.ProcessesGone(id) }

func (c *Client) EndOrphan(ctx context.Context, id ids.Alloc) error {
	return c.allocs.EndOrphan(ctx, id)
}

func (c *Client) Collect(id ids.Alloc) error { return c.allocs.Collect(id) }

func (c *Client) Holds() bool { return c.allocs.Any() }

func (c *Client) Orphans() []shim.Held { return c.allocs.ShimOrphans() }

func (c *Client) Instances() []*plugin.Instance { return c.storage.plugins.States() }
