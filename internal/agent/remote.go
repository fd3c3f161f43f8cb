package agent

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"

	"berth/internal/agent/network"
	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/client/identity"
	"berth/internal/model/trust"
	"berth/internal/port/credentials"
)

// checkNetwork refuses what cannot work of the ways between agents.
func (c *Config) checkNetwork() error {
	return network.Ways{
		Dev:       c.dev,
		Server:    c.Server.Enabled,
		Words:     c.API.TokenFile != "" || c.API.unsafeOpen(),
		LocalCSI:  *c.Client.LocalCSI,
		Node:      c.Client.Enabled,
		Address:   c.Addresses.RPC,
		Port:      c.Ports.RPC,
		Servers:   c.Client.Servers,
		TokenFile: c.Client.JoinTokenFile,
		Several: network.Several{
			Name:      c.serverName(),
			Expect:    c.Server.BootstrapExpect,
			Join:      c.Server.ServerJoin.RetryJoin,
			TokenFile: c.Server.JoinTokenFile,
			Advertise: c.Advertise.RPC,
		},
	}.Check()
}

// serverName is that of the agent's server, among all.
func (c *Config) serverName() string { return c.Name + "." + c.Region }

// advertised is where others reach the server's TLS port; empty: it does not say.
func (c *Config) advertised() string {
	return network.Advertised(c.Addresses.RPC, c.Ports.RPC, c.Advertise.RPC)
}

// own is what the server shows on its TLS port; nil: it has none.
func (c *Config) own(log *slog.Logger) *credentials.Config {
	if c.rpc() == "" {
		return nil
	}
	join := c.Server.ServerJoin
	out := &credentials.Config{
		Dir:       filepath.Join(c.DataDir, "server"),
		Role:      trust.Server,
		Servers:   network.Addresses(join.RetryJoin),
		TokenFile: c.Server.JoinTokenFile,
		Tries:     join.RetryMax,
		Log:       log.With(logkey.Component, "server"),
	}
	if join.RetryInterval != nil {
		out.Pause = retry.Backoff{Min: *join.RetryInterval, Max: *join.RetryInterval}
	}
	return out
}

// openOwn reads what the server shows on its TLS port, if it has one.
func (a *Agent) openOwn() error {
	cfg := a.cfg.own(a.log)
	if cfg == nil {
		return nil
	}
	if err := durable.MakeDir(cfg.Dir, 0o700); err != nil {
		return fault.Wrap(err, fault.Internal, "make", cfg.Dir)
	}
	a.own = credentials.New(*cfg)
	return a.own.Open()
}

// openPort opens the port for nodes on other machines, if there is to be one.
func (a *Agent) openPort(ctx context.Context) (*network.Port, error) {
	addr := a.cfg.rpc()
	if addr == "" {
		return nil, nil
	}
	port, err := network.Listen(ctx, addr, a.server, a.log.With(logkey.Component, "port"))
	if err != nil {
		return nil, err
	}
	a.log.Info("nodes and servers on other machines reach this server", "rpc", addr,
		"advertise", a.cfg.advertised())
	return port, nil
}

// rpc is where the server listens for nodes on other machines; empty: nowhere.
func (c *Config) rpc() string {
	if c.Addresses.RPC == "" {
		return ""
	}
	return net.JoinHostPort(c.Addresses.RPC, strconv.Itoa(c.Ports.RPC))
}

// joins is how the node of an agent without a server comes to its servers.
func (a *Agent) joins() credentials.Config {
	return credentials.Config{
		Role:      trust.Node,
		Dir:       identity.StoreDir(a.cfg.DataDir),
		Servers:   a.cfg.Client.Servers,
		TokenFile: a.cfg.Client.JoinTokenFile,
		Log:       a.log.With(logkey.Component, "client"),
	}
}
