package client

import (
	"context"
	"time"

	"berth/internal/base/bootclock"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/client/allochooks"
	"berth/internal/client/allocs"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/alive"
	"berth/internal/client/csimanager/controller"
	"berth/internal/client/csimanager/holding"
	"berth/internal/client/csimanager/instance"
	"berth/internal/client/csimanager/killable"
	"berth/internal/client/csimanager/meter"
	"berth/internal/client/csimanager/node"
	"berth/internal/client/csimanager/reporter"
	"berth/internal/client/csimanager/unmount"
	"berth/internal/client/dynamicplugins"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/client/remote"
	"berth/internal/client/servers"
	"berth/internal/client/taskhooks"
	"berth/internal/helperbin"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// storage is the node's side of CSI: what outlives hooks.
type storage struct {
	registry   *dynamicplugins.Registry
	supervisor *taskhooks.CSIPluginSupervisor
	plugins    *instance.Manager
	keeper     *node.Keeper
	reporter   *reporter.Reporter
	executor   *controller.Executor
	meter      *meter.Meter
	grants     *grants
	processes  csimanager.ProcessGate
}

func newStorage(c *Client, holdings *allocs.Holdings) (*storage, error) {
	log := c.cfg.Log.With(logkey.Component, "csi")
	registry, err := dynamicplugins.Open(c.store.KV, log)
	if err != nil {
		return nil, err
	}
	supervisor := &taskhooks.CSIPluginSupervisor{
		DataDir:  c.cfg.DataDir,
		Registry: registry,
		Own:      func(t *hook.Task) bool { return t.Alloc.Namespace == ids.ReservedNamespace },
	}
	plugins := instance.New(instance.Config{
		Registry: registry,
		Node:     c.link.Node(),
		Tasks:    supervisor,
		Clock:    c.cfg.Clock,
		Dirs:     c.dirs,
		Log:      log,
	})
	helpers := &killable.Helpers{Program: helperbin.Open, Path: helperbin.Path}
	keeper, err := node.New(node.Config{
		DataDir:   c.cfg.DataDir,
		Store:     c.store.KV,
		Codec:     localstate.Codec,
		Boot:      c.cfg.Machine.Boot,
		Plugins:   plugins,
		Processes: holdings,
		Armed:     c.armed,
		Allocs:    holdings,
		Unmount:   (&unmount.Unmounter{Helpers: helpers}).Unmount,
		Dead:      (&alive.Prober{Helpers: helpers}).Dead,
		Holding:   holding.NewSearch(&holding.Finder{Helpers: helpers, Alloc: c.allocOf}, log),
		Log:       log,
	})
	if err != nil {
		return nil, err
	}
	return &storage{
		registry:   registry,
		supervisor: supervisor,
		plugins:    plugins,
		keeper:     keeper,
		reporter: &reporter.Reporter{
			Keeper:   keeper,
			Delay:    c.cfg.ReportDelay,
			Patience: c.cfg.ReportPatience,
		},
		executor: controller.New(controller.Config{Plugins: plugins, Node: keeper, Clock: c.cfg.Clock, Log: log}),
		meter: meter.New(meter.Config{
			Volumes: keeper,
			Dead:    func() (map[volume.StagingKey]string, error) { return alive.Deaths(keeper) },
			Tasks:   holdings,
			AtOnce:  func(id ids.Plugin) int { return plugins.AtOnce(id, plugin.RoleNode) },
			Period:  c.cfg.VolumeStatsInterval,
			Log:     log,
		}),
		grants:    &grants{link: c.link},
		processes: holdings,
	}, nil
}

// allocOf is the alloc that has a control group. What a node does not start it has none of.
func (c *Client) allocOf(cgroup string) ids.Alloc {
	if c.launcher == nil {
		return ""
	}
	return c.launcher.AllocOf(cgroup)
}

func (s *storage) allocHooks() []hook.Hook {
	return []hook.Hook{&allochooks.CSI{
		Grants:    s.grants,
		Mounter:   s.keeper,
		Uses:      s.keeper,
		Processes: s.processes,
	}}
}

func (s *storage) taskHooks(h taskhooks.HostVolumes) []hook.Hook {
	return []hook.Hook{&taskhooks.Volume{Host: h, Mounter: s.keeper}, s.supervisor}
}

func (s *storage) reads() controller.Reads { return controller.Reads{Plugins: s.plugins} }

// grants asks the servers for an alloc's permissions to mount.
type grants struct{ link *servers.Link }

// Grants implements allochooks.Grants.
func (g *grants) Grants(
	ctx context.Context, id ids.Alloc, wait time.Duration, seen string,
) (*csimanager.Grants, error) {
	reply, fresh, err := g.ask(ctx, id, wait, seen)
	if err == nil && !fresh { // it waited long; the answer to another question comes at once
		reply, fresh, err = g.ask(ctx, id, 0, "")
	}
	switch {
	case wire.SessionRefused(err):
		return nil, fault.Wrap(err, fault.NotReady, "", "") // it says nothing about the alloc
	case err != nil:
		return nil, err
	case !fresh:
		return nil, fault.New(fault.NotReady, "claim volumes for", `allocation "`+string(id)+`"`,
			"the servers' permission came so late that they may have given it to another node since")
	}
	out := &csimanager.Grants{Ready: reply.Ready, Token: reply.Token}
	for i := range reply.Grants {
		out.Mounts = append(out.Mounts, mountRequest(&reply.Grants[i]))
	}
	for _, w := range reply.Waiting {
		out.Waiting = append(out.Waiting,
			csimanager.WaitReason{Volume: w.Volume, Reason: w.Reason, UnderWay: w.UnderWay})
	}
	return out, nil
}

// ask asks once. A permission for another agent start, and one that came too late, is not fresh: it must not be used.
func (g *grants) ask(
	ctx context.Context, id ids.Alloc, wait time.Duration, seen string,
) (reply *wire.GrantsReply, fresh bool, err error) {
	begun := bootclock.Now() // it goes on in a suspend
	reply, err = wire.NodeGrants.Call(ctx, g.link.Conn(),
		&wire.GrantsRequest{NodeIdentity: g.link.Identity(), Alloc: id, Wait: wait, Seen: seen})
	if err != nil {
		return nil, false, err
	}
	return reply, !reply.Ready || g.link.Fresh(reply.Session, bootclock.Now()-begun), nil
}

func mountRequest(g *wire.Grant) csimanager.MountRequest {
	return csimanager.MountRequest{
		Alias:          g.Alias,
		Volume:         g.Volume,
		Key:            g.Key,
		Epoch:          g.Epoch,
		Generation:     g.Generation,
		AccessMode:     g.AccessMode,
		AttachmentMode: g.AttachmentMode,
		MountOptions:   g.MountOptions,
		ReadOnly:       g.ReadOnly,
		VolumeContext:  g.VolumeContext,
		PublishContext: g.PublishContext,
		Secrets:        g.Secrets.Open(),
		Capacity:       g.Capacity,
		ExpandNode:     g.ExpandNode,
		Ownership:      g.Ownership,
		Shared:         g.Shared,
		MountGroup:     g.MountGroup,
		Provider:       g.Provider,
		Received:       g.At,
	}
}

// Plugins are the plugins that run as jobs on this node: whoever declares one there has it used.
func (c *Client) Plugins() *dynamicplugins.Registry { return c.storage.registry }

// TasksUse is what the node's running tasks use.
func (c *Client) TasksUse(ctx context.Context) []remote.TaskUse { return c.remote.TasksUse(ctx) }

// VolumeUsage is what the node knows of the volumes that its allocs use.
func (c *Client) VolumeUsage() []meter.Reading { return c.storage.meter.All() }

// reportInventory reports to the servers what the node holds: everything at each connection, then what changed. It
// waits for the first set of allocs: a report from before it would say nothing about them.
func (c *Client) reportInventory(ctx context.Context) error {
	return c.link.Repeat(ctx, "inventory", func(ctx context.Context) error {
		if !c.armed.Await(ctx) {
			return nil
		}
		return c.storage.reporter.Run(ctx)
	})
}

// makeControllerCalls makes the controller calls that the servers ask this node for.
func (c *Client) makeControllerCalls(ctx context.Context) error {
	return c.link.Repeat(ctx, "controller calls", func(ctx context.Context) error {
		stream, err := wire.NodeControllerCalls.Open(ctx, c.link.Conn(),
			&wire.ControllerCallsRequest{
				NodeIdentity: c.link.Identity(),
				Credits:      c.storage.executor.Credits(),
				OwnLimits:    true,
			})
		if err != nil {
			return err
		}
		return c.storage.executor.Serve(ctx, stream)
	})
}
