package client

import (
	"context"

	"berth/internal/base/logkey"
	"berth/internal/client/allocs"
	"berth/internal/client/host"
	"berth/internal/client/identity"
	"berth/internal/client/nodemeta"
)

// identity is where the node's things lie that tell who it is.
func (c Config) identity() identity.Config {
	out := identity.Config{DataDir: c.DataDir, Volumes: c.Volumes, Log: c.Log.With(logkey.Component, "client")}
	if c.Shims != nil {
		out.Shims, out.Slice = c.Shims.Dir, c.Shims.Slice
	}
	return out
}

func (c *Client) describe(
	ctx context.Context, holdings *allocs.Holdings, dirs string, meta *nodemeta.Meta,
) host.Config {
	look := c.cfg.Fingerprint
	look.DiskPath, look.Version = c.cfg.DataDir, c.cfg.Version
	look.Allocs = dirs
	return host.Config{
		ID:          c.link.Node(),
		Secret:      c.link.Secret(),
		Name:        c.cfg.Name,
		Datacenter:  c.cfg.Datacenter,
		NodePool:    c.cfg.NodePool,
		NodeClass:   c.cfg.NodeClass,
		Meta:        meta,
		HTTPAddr:    c.cfg.HTTPAddr,
		Attributes:  withNetworks(ctx, c.cfg.Attributes, c.cfg.Bridge, c.cfg.CNI, c.log),
		HostVolumes: c.cfg.HostVolumes,
		Fingerprint: look,
		Reserved:    c.cfg.Reserved,
		Drivers:     c.drivers,
		Devices:     c.beside.devices,
		Plugins:     c.storage.plugins,
		Holdings:    holdings,
		Consul:      c.describedByConsul(),
		Log:         c.log,
	}
}
