// Package client owns the node half: who this node is, what it has, its session with the servers and the allocs that run
// on it. The agent constructs it with the drivers and hooks; it meets the servers on the wire alone.
package client

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/redact"
	"berth/internal/client/csimanager"
	"berth/internal/client/drivermanager"
	"berth/internal/client/fingerprint"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/port/driver"
	"berth/internal/port/kv"
	"berth/internal/wire"
)

// Dialer opens a raw connection to a server.
type Dialer func(context.Context) (net.Conn, error)

// Config says what a node is and how it reaches its servers.
type Config struct {
	// DataDir is the node's own: allocs in <DataDir>/alloc, the local store in <DataDir>/client.
	DataDir    string
	Name       string // empty: the host's name
	Datacenter string
	Region     string
	NodePool   string
	NodeClass  string
	Meta       map[string]string
	HTTPAddr   string // where this agent's HTTP API is; empty: reach the node through a server
	Version    string // of Berth

	HostVolumes []fingerprint.HostVolume
	Fingerprint fingerprint.Options // DiskPath and Version are filled in
	Reserved    Reserved
	Drivers     []driver.Driver
	// EndProcesses ends whatever process of an alloc is left (shim.Launcher.End), before its storage is let go.
	EndProcesses func(context.Context, ids.Alloc) error
	// EndStrangers ends processes that an earlier life of the agent started and that no record knows
	// (shim.Launcher.Prune); keep are the allocs on record. nil: nobody is looked for.
	EndStrangers func(ctx context.Context, keep []ids.Alloc) error
	// DriverPeriod and DriverDeadline: see drivermanager.Config.
	DriverPeriod, DriverDeadline time.Duration

	// Dial reaches a server for the node's calls; DialReverse for the connection on which the server calls the node
	// (nil: none is made).
	Dial        Dialer
	DialReverse Dialer

	StorageTimeout time.Duration // see allocrunner.Config
	MaxKillTimeout time.Duration
	Log            *slog.Logger
}

// Reserved is kept back from allocs.
type Reserved struct {
	CPUMHz, MemoryMB, DiskMB       int64
	MinDynamicPort, MaxDynamicPort int
	Ports                          []int
}

// Defaults of the range that dynamic ports are taken from.
const (
	DefaultMinDynamicPort = 20000
	DefaultMaxDynamicPort = 32000
)

// Parts is what the composition root adds between New and Run.
type Parts struct {
	// AllocHooks and TaskHooks run in order between the client's own: directories first, templates last.
	AllocHooks []hook.Hook
	TaskHooks  []hook.Hook
	// Instances are described in the node's registration; nil: no plugins.
	Instances csimanager.Instances
	// Serve registers further methods that servers call on the node.
	Serve []func(*wire.Server)
	// Monitor serves the agent's log; nil: refused.
	Monitor func(*wire.RunMonitorRequest, *wire.Stream[wire.RunFrame, wire.Empty]) error
}

// Client is the node half.
type Client struct {
	cfg     Config
	log     *slog.Logger
	store   *localstate.Store
	id      localstate.Identity
	conn    *grpc.ClientConn
	drivers *drivermanager.Manager
	host    *host
	session *session
	allocs  *allocs
	push    *pusher
	parts   Parts
	usage   usage
	// streams holds what reads the callers' side of open streams: it ends when its stream does.
	streams *lifecycle.Group
}

// New opens the node's local store, which is locked to one agent, and restores what it remembers. It starts nothing.
func New(cfg Config) (*Client, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	log := cfg.Log.With(logkey.Component, "client")
	drivers, err := drivermanager.New(drivermanager.Config{Drivers: cfg.Drivers, Period: cfg.DriverPeriod, Deadline: cfg.DriverDeadline, Log: log})
	if err != nil {
		return nil, err
	}
	// Tasks of other users pass through; what must not be read has modes of its own.
	if err := os.MkdirAll(cfg.DataDir, 0o711); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make directory", cfg.DataDir)
	}
	store, err := localstate.Open(filepath.Join(cfg.DataDir, "client"))
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, log: log, store: store, drivers: drivers}
	if err := c.restore(); err != nil {
		_ = store.Close() // the first error is the one that matters
		return nil, err
	}
	return c, nil
}

func (c *Client) restore() error {
	var err error
	if c.id, err = c.store.Identity(); err != nil {
		return err
	}
	seen, err := c.store.Seen()
	if err != nil {
		return err
	}
	loaded, err := c.store.Load()
	if err != nil {
		return err
	}
	if c.conn, err = wire.Connect(c.cfg.Dial); err != nil {
		return err
	}
	c.host = newHost(c)
	c.push = newPusher(c)
	c.session = newSession(c, seen)
	c.allocs = newAllocs(c, loaded)
	return nil
}

// Attach adds the parts that need the client to be made. Call it once, before Run.
func (c *Client) Attach(p Parts) { c.parts = p }

// Run runs the node until ctx ends. The tasks go on running: the next life of the agent finds them. Use Shutdown before
// to end them.
func (c *Client) Run(ctx context.Context) error {
	defer c.close()
	c.streams, _ = lifecycle.NewGroup(ctx)
	c.allocs.restore()
	c.endStrangers(ctx)
	err := lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"drivers": c.drivers.Run,
		"host":    c.host.run,
		"session": c.session.run,
		"allocs":  c.allocs.run,
		"push":    c.push.run,
		"reverse": c.serveReverse,
	})
	if serr := c.streams.Wait(); err == nil {
		err = serr
	}
	return err
}

// sweepTimeout bounds the search for processes that nobody knows.
const sweepTimeout = 10 * time.Second

// endStrangers cleans up what a crash left between the start of a process and its record. A failure is said and passed
// over: the next start looks again.
func (c *Client) endStrangers(ctx context.Context) {
	if c.cfg.EndStrangers == nil {
		return
	}
	sctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	if err := c.cfg.EndStrangers(sctx, c.allocs.recorded()); err != nil {
		c.log.Error("processes that nobody knows could not be ended", logkey.Error, err)
	}
}

func (c *Client) close() {
	if err := c.conn.Close(); err != nil {
		c.log.Warn("closing the connection to the servers failed", logkey.Error, err)
	}
	if err := c.store.Close(); err != nil {
		c.log.Error("closing the local store failed", logkey.Error, err)
	}
}

// Close gives back what New took when Run was never called.
func (c *Client) Close() { c.close() }

// ID of the node.
func (c *Client) ID() ids.Node { return c.id.Node }

// Identity authenticates the node on the wire.
func (c *Client) Identity() wire.NodeIdentity {
	return wire.NodeIdentity{Node: c.id.Node, Secret: wire.Seal(redact.Map{"id": c.id.Secret})}
}

// Store is the node's local store, shared with the keepers of the node.
func (c *Client) Store() *kv.Store { return c.store.KV }

// Conn is the connection on which the node calls servers.
func (c *Client) Conn() wire.Conn { return c.conn }

// AllocDir is where the directories of allocs lie.
func (c *Client) AllocDir() string { return filepath.Join(c.cfg.DataDir, "alloc") }

// Armed is the gate that keepers ask before they undo anything.
func (c *Client) Armed() csimanager.ArmedGate { return &c.session.gate }

// Processes is the gate that keepers ask before they unpublish.
func (c *Client) Processes() csimanager.ProcessGate { return c.allocs }

// Known reports whether the client runs, restores or still has to clean up an alloc.
func (c *Client) Known(id ids.Alloc) bool { return c.allocs.known(id) }

// RestartUsers restarts the tasks of an alloc that mount a volume of its group.
func (c *Client) RestartUsers(id ids.Alloc, alias, reason string) error {
	r, err := c.allocs.find(id)
	if err != nil {
		return err
	}
	return r.RestartUsers(alias, reason)
}

// Registered is closed once the node has been accepted by a server.
func (c *Client) Registered() <-chan struct{} { return c.session.registered }

// AllocIndex is the index of the newest set of allocs that the node has acted on.
func (c *Client) AllocIndex() uint64 { return c.session.index() }

// SendInventory implements csimanager.InventorySink: it fills in who reports, and at which index.
func (c *Client) SendInventory(ctx context.Context, r *wire.InventoryReport) (*wire.InventoryReply, error) {
	out := *r
	out.NodeIdentity = c.Identity()
	if out.AllocIndex == 0 {
		out.AllocIndex = c.session.index()
	}
	return wire.NodeInventory.Call(ctx, c.conn, &out)
}

// Grants asks the servers for an alloc's mount permissions.
func (c *Client) Grants(ctx context.Context, id ids.Alloc, wait time.Duration, seen string) (*wire.GrantsReply, error) {
	return wire.NodeGrants.Call(ctx, c.conn, &wire.GrantsRequest{NodeIdentity: c.Identity(), Alloc: id, Wait: wait, Seen: seen})
}

// Shutdown prepares the end of the agent while Run still runs. With stopTasks it ends every alloc within its kill
// timeouts and waits until all have let go, or ctx ends; without it nothing is stopped.
func (c *Client) Shutdown(ctx context.Context, stopTasks bool) error {
	if !stopTasks {
		return nil
	}
	return c.allocs.stopAll(ctx)
}

var _ csimanager.InventorySink = (*Client)(nil)
