package client

import (
	"context"
	"log/slog"
	"maps"
	"os"

	"berth/internal/base/logkey"
	"berth/internal/client/allocs"
	"berth/internal/client/networks/keeper"
	"berth/internal/model/network"
	"berth/internal/port/bridge"
	"berth/internal/port/cni"
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
		Plugins: c.cfg.CNI,
		Owners:  holdings,
		Maker:   c.drivers.NetworkMaker,
		Log:     c.cfg.Log,
	})
}

// withNetworks adds to a node's attributes what networks its allocs can have, or why they can have none of mode bridge.
func withNetworks(
	ctx context.Context, attributes map[string]string, b bridge.Bridge, plugins cni.Plugins, log *slog.Logger,
) map[string]string {
	out := map[string]string{}
	maps.Copy(out, attributes)
	if os.Geteuid() != 0 {
		out[network.AttributeBridgeWhy] = "only root can make networks of allocations"
		return out
	}
	out[network.AttributeNone] = "1"
	all, err := plugins.Networks()
	if err != nil {
		log.Warn("networks of CNI plugins are left out", logkey.Error, err)
	}
	for _, n := range all {
		if why := network.BadMode(network.ModeCNI(n.Name)); why != "" {
			log.Warn("a network of CNI plugins is left out", "network", n.Name, "reason", why)
			continue
		}
		out[network.AttributeCNI+n.Name] = "1"
	}
	for name, version := range plugins.Versions(ctx) {
		out[network.AttributePlugin+name] = version
	}
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
