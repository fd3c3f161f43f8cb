package agent

import (
	"context"
	"errors"
	"os"

	"berth/internal/base/lifecycle"
	"berth/internal/base/privilege"
	"berth/internal/client"
	"berth/internal/httpapi"
	"berth/internal/port/credentials"
	"berth/internal/port/tlsport"
	"berth/internal/wire"
)

// runNode runs an agent that has a node and no server. Its API passes calls on to the servers.
func (a *Agent) runNode(ctx context.Context, asked Signals) error {
	entries, err := a.listen(ctx)
	if err != nil {
		return err
	}
	cred, err := a.buildNode(ctx)
	if err != nil {
		return errors.Join(err, shut(entries))
	}
	defer func() { _ = a.conn.Close() }() // nothing is asked on it any more
	warnOfNode(a.log, os.Geteuid(), privilege.ScopesSockets())
	a.log.Info("this agent has a node and no server", "servers", a.cfg.Client.Servers)
	a.started = true
	base := context.WithoutCancel(ctx)
	nodes, nodeCtx := lifecycle.NewGroup(base)
	surface, surfaceCtx := lifecycle.NewGroup(base)
	nodes.Go("boot clock", func() error { return a.clock.Run(nodeCtx) })
	nodes.Go("credentials", func() error { return cred.Run(nodeCtx, credentials.Self{ID: string(a.client.ID())}) })
	nodes.Go("node", func() error { return a.client.Run(nodeCtx) })
	surface.Go("http", func() error { return a.http.Run(surfaceCtx, entries...) })
	surface.Go("reload", func() error { return a.rereads(surfaceCtx, asked.Reload) })
	select {
	case <-ctx.Done():
	case <-nodes.Done():
	case <-surface.Done():
	}
	a.leaves(ctx, asked)(base)
	surface.Stop()
	err = surface.Wait()
	nodes.Stop()
	return errors.Join(err, nodes.Wait())
}

// buildNode makes the node and the surface of an agent without a server, and starts neither.
func (a *Agent) buildNode(ctx context.Context) (*credentials.Credentials, error) {
	cfg, err := a.nodeConfig()
	if err != nil {
		return nil, err
	}
	cred := credentials.New(a.joins())
	cfg.Servers, cfg.Reverse = cred.Way(tlsport.Calls), cred.Way(tlsport.Reverse)
	cfg.Learn = cred.Heard
	// People have a connection of their own: what they ask for does not hold up what the node has to say.
	if a.conn, err = wire.Connect(cred.Way(tlsport.Calls).Dial); err != nil {
		return nil, err
	}
	if a.client, err = client.New(ctx, cfg); err != nil {
		return nil, errors.Join(err, a.conn.Close())
	}
	surface, err := a.surfaceConfig()
	if err = errors.Join(err, cred.Open()); err != nil {
		a.client.Close()
		return nil, errors.Join(err, a.conn.Close())
	}
	surface.NodeServers = cred
	a.http = httpapi.New(surface)
	return cred, nil
}
