package client

import (
	"maps"
	"os"

	"berth/internal/client/allocs"
	"berth/internal/client/networks/keeper"
	"berth/internal/model/network"
	"berth/internal/port/bridge"
)

// newNetworks makes the keeper of the networks of the node's allocs, and completes what is configured of the bridge.
func newNetworks(c *Client, holdings *allocs.Holdings) (*keeper.Keeper, error) {
	if c.cfg.Bridge.Name == "" {
		pool, err := network.ParsePool(network.DefaultSubnet, false)
		if err != nil {
			return nil, err
		}
		c.cfg.Bridge.Name, c.cfg.Bridge.IPv4 = network.DefaultBridge, pool
	}
	return keeper.New(keeper.Config{
		DataDir: c.cfg.DataDir,
		Store:   c.store.KV,
		Boot:    c.cfg.Machine.Boot,
		Bridge:  c.cfg.Bridge,
		Owners:  holdings,
		Log:     c.cfg.Log,
	})
}

// withNetworks adds to a node's attributes what networks its allocs can have, or why they can have none of mode bridge.
func withNetworks(attributes map[string]string, b bridge.Bridge) map[string]string {
	out := map[string]string{}
	maps.Copy(out, attributes)
	if os.Geteuid() != 0 {
		out[network.AttributeBridgeWhy] = "only root can make networks of allocations"
		return out
	}
	out[network.AttributeNone] = "1"
	if err := bridge.Missing(); err != nil {
		out[network.AttributeBridgeWhy] = err.Error()
		return out
	}
	out[network.AttributeBridge] = "1"
	out[network.AttributeSubnet] = b.IPv4.String()
	if b.IPv6.Valid() {
		out[network.AttributeSubnet6] = b.IPv6.String()
	}
	return out
}
