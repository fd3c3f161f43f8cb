package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"berth/internal/agent/network"
	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/privilege"
	"berth/internal/base/retry"
	"berth/internal/client"
	"berth/internal/client/identity"
	"berth/internal/model/trust"
	"berth/internal/port/credentials"
	"berth/internal/port/tlsport"
)

// checkNetwork refuses what cannot work of the ways between agents.
func (c *Config) checkNetwork() error {
	return network.Ways{
		Dev:       c.dev,
		Server:    c.Server.Enabled,
		API:       c.API.Socket != "" || c.API.TokenFile != "" || c.API.unsafeOpen(),
		LocalCSI:  *c.Client.LocalCSI,
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

// runNode runs an agent that has a node and no server.
func (a *Agent) runNode(ctx context.Context, asked Signals) error {
	cfg, err := a.nodeConfig()
	if err != nil {
		return err
	}
	cred := credentials.New(a.joins())
	cfg.Servers, cfg.Reverse = cred.Way(tlsport.Calls), cred.Way(tlsport.Reverse)
	cfg.Learn = func(all []trust.ServerAt) error { return cred.Learn(all, 0) }
	if a.client, err = client.New(ctx, cfg); err != nil {
		return err
	}
	if err := cred.Open(); err != nil {
		a.client.Close()
		return err
	}
	warnOfNode(a.log, os.Geteuid(), privilege.ScopesSockets())
	a.log.Info("berth starts a node; its servers have the API", "version", a.version, "data_dir", a.cfg.DataDir,
		"servers", a.cfg.Client.Servers)
	base := context.WithoutCancel(ctx)
	g, gctx := lifecycle.NewGroup(base)
	g.Go("boot clock", func() error { return a.clock.Run(gctx) })
	g.Go("credentials", func() error { return cred.Run(gctx, credentials.Self{ID: string(a.client.ID())}) })
	g.Go("node", func() error { return a.client.Run(gctx) })
	g.Go("reload", func() error { return a.reloads(gctx, asked.Reload) })
	select {
	case <-ctx.Done():
		a.log.Info("berth stops")
	case <-g.Done():
	}
	g.Stop()
	return errors.Join(g.Wait())
}
