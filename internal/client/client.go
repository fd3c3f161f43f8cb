// Package client owns the node half: who this node is, what it has, its session with the servers and the allocs that
// run on it. New builds everything of it; it meets the servers on the wire alone.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"berth/internal/base/bootclock"
	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logfeed"
	"berth/internal/base/logkey"
	"berth/internal/client/allocdir"
	"berth/internal/client/allochooks"
	"berth/internal/client/allocs"
	"berth/internal/client/artifacts"
	"berth/internal/client/checks"
	"berth/internal/client/consultokens"
	"berth/internal/client/devicemanager"
	"berth/internal/client/disks"
	"berth/internal/client/drivermanager"
	"berth/internal/client/fingerprint"
	"berth/internal/client/hook"
	"berth/internal/client/host"
	"berth/internal/client/identities"
	"berth/internal/client/identity"
	"berth/internal/client/localstate"
	"berth/internal/client/networks/keeper"
	"berth/internal/client/nodemeta"
	"berth/internal/client/remote"
	"berth/internal/client/servers"
	"berth/internal/client/servicesync"
	"berth/internal/client/session"
	"berth/internal/client/shim"
	"berth/internal/client/sources"
	"berth/internal/client/suspects"
	"berth/internal/client/taskapi"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/trust"
	"berth/internal/port/bridge"
	"berth/internal/port/cni"
	"berth/internal/port/consul"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/qemu"
	"berth/internal/port/driver/rawexec"
	"berth/internal/port/hostfs"
	"berth/internal/port/pluginhost"
)

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
	HTTPAddr   string            // where this agent's HTTP API is; empty: reach the node through a server
	Attributes map[string]string // that the agent adds to those that are found
	Version    string            // of Berth
	// Machine is what the servers know this machine and its boot by; nil: the running kernel's. InProcess: the servers
	// run in this process.
	Machine   *node.Machine
	InProcess bool

	HostVolumes []fingerprint.HostVolume
	Fingerprint fingerprint.Options // DiskPath and Version are filled in
	// Bridge is that of the node's allocs; without a name it has the defaults.
	Bridge   bridge.Bridge
	CNI      cni.Plugins // which make networks of groups of mode cni/NAME
	Reserved host.Reserved

	// Shims says where processes are held that outlive the agent, and by which program; the drivers exec and raw_exec
	// launch theirs there. nil: the node has neither. The client compares the shims with its records as long as it
	// runs, and ends what is left of an alloc before its storage is released.
	Shims   *shim.Config
	Exec    exec.Config
	RawExec rawexec.Config
	// Clock counts the time of calls to CSI plugins, suspends included: whoever makes it runs it. nil: Go's alone.
	Clock *bootclock.Clock
	// Volumes are the directories in which bundled plugins keep volumes: where there are some, somebody was a node.
	Volumes []string
	// Machines says where on the node machines of the driver qemu may have their images.
	Machines qemu.Config
	// Docker is how containers are run; nil: they are not.
	Docker *docker.Config
	// PluginPrograms are plugins that are programs of their own: of drivers, or of devices, as they say.
	PluginPrograms []pluginhost.Config
	// Drivers are others than these.
	Drivers []driver.Driver
	// DriverPeriod and DriverDeadline: see drivermanager.Config.
	DriverPeriod, DriverDeadline time.Duration

	// Servers dials a server for the node's calls, Reverse for the connection on which servers call the node (nil: none
	// is made).
	Servers servers.Dialer
	Reverse servers.Dialer
	// Learn remembers where the servers are, as they tell, and hears at which index of their state the roots of the
	// cluster last changed; nil: nobody needs to.
	Learn func(servers []trust.ServerAt, rootsAsOf uint64) error

	// ReportDelay is how long what is new on the node, and nobody waits for, is held back to share a report with what
	// follows; 0: a second.
	ReportDelay time.Duration
	// ReportPatience is how long what is under way there and goes well is held back, for the report that it has
	// ended; 0: ten times ReportDelay.
	ReportPatience time.Duration
	// ConfirmRemovals is how long removals of many allocs at once wait until they are confirmed again; 0: 30 s.
	ConfirmRemovals time.Duration
	StorageTimeout  time.Duration // see allocrunner.Config
	// UnlimitedDisks leaves it to the jobs how much of the disk they take.
	UnlimitedDisks bool
	// CrashWindow is how long the agent has to live on after it has begun an alloc; see suspects.Config.
	CrashWindow time.Duration
	// TaskAPI answers what a task asks by the socket in its directory; nil: tasks have none.
	TaskAPI taskapi.Serve
	// Consul is the agent of Consul in which services are registered; nil: the node has none.
	Consul *consul.Config
	// ServiceMethod and TaskMethod are the auth methods of Consul to which identities are shown; empty: there is none.
	ServiceMethod, TaskMethod string
	// Artifacts says how what tasks want fetched is fetched.
	Artifacts artifacts.Settings
	// Runs are those of the agent: this one, and how the one before ended.
	Runs suspects.Runs
	// Disks is how new allocs are held to the disk that their groups ask for.
	Disks allocdir.Held
	// VolumeStatsInterval is how often the volumes in use are measured; 0: meter.DefaultPeriod.
	VolumeStatsInterval time.Duration
	MaxKillTimeout      time.Duration
	Caps                driver.Caps   // of what jobs ask for; the attributes name them
	Feed                *logfeed.Feed // the agent's log, for those who follow it; nil: nobody can
	Log                 *slog.Logger
}

// beside is what looks after allocs beside their runners.
type beside struct {
	disks   *disks.Sweep
	devices *devicemanager.Manager
	checks  *checks.Keeper
	sources *sources.Keeper

	identities *identities.Keeper
	sockets    *taskapi.Sockets // by which tasks reach the API

	consul *servicesync.Keeper  // nil without Config.Consul
	tokens *consultokens.Keeper // of Consul; nil without Config.Consul
	ways   *ways                // nil without Config.Consul.Mesh
}

// Client is the node half.
type Client struct {
	cfg      Config
	log      *slog.Logger
	store    *localstate.Store
	launcher *shim.Launcher // nil without Config.Shims
	shims    *shim.Keeper   // nil without Config.Shims
	drivers  *drivermanager.Manager
	link     *servers.Link
	armed    *servers.Gate
	dirs     *hostfs.Directories // of all that follow directories
	storage  *storage
	networks *keeper.Keeper
	host     *host.Host
	allocs   *allocs.Allocs
	session  *session.Session
	beside   beside
	remote   *remote.Methods
}

// defaultReportDelay is short enough that people take it for now.
const defaultReportDelay = time.Second

// New opens the node's local store, which is locked to one agent, restores what it remembers, and builds everything of
// the node. It starts nothing. Where nothing says which node it is, the error is an *identity.Lost. ctx bounds only the
// look at what an earlier run of the agent left running.
func New(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.ReportDelay = cmp.Or(cfg.ReportDelay, defaultReportDelay)
	cfg.ReportPatience = cmp.Or(cfg.ReportPatience, 10*cfg.ReportDelay)
	// Tasks of other users pass through; what must not be read has modes of its own.
	if err := durable.MakeDir(cfg.DataDir, 0o711); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make directory", cfg.DataDir)
	}
	store, err := localstate.Open(identity.StoreDir(cfg.DataDir))
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, log: cfg.Log.With(logkey.Component, "client"), store: store, armed: &servers.Gate{}}
	c.dirs = hostfs.NewDirectories(c.log)
	if err := c.build(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// build makes the parts in the order in which they need each other.
func (c *Client) build(ctx context.Context) error {
	id, err := identity.Establish(ctx, c.store, c.cfg.identity())
	if err != nil {
		return err
	}
	if c.cfg.Machine == nil {
		boot, err := hostfs.BootID()
		if err != nil {
			return err
		}
		c.cfg.Machine = &node.Machine{Boot: boot}
		c.cfg.Machine.Product, c.cfg.Machine.ID = hostfs.MachineIDs()
	}
	seen, err := c.store.Seen()
	if err != nil {
		return err
	}
	loaded, err := c.store.Load()
	if err != nil {
		return err
	}
	table := allocs.NewTable(c.cfg.DataDir, loaded, c.log)
	if err := c.buildDrivers(table); err != nil {
		return err
	}
	if c.link, err = servers.Connect(c.cfg.Servers, id, c.cfg.Learn, c.log); err != nil {
		return err
	}
	holdings := allocs.NewHoldings(table, c.shims, c.drivers)
	if c.storage, err = newStorage(c, holdings); err != nil {
		return err
	}
	holdings.Use(c.storage.keeper)
	if c.networks, err = newNetworks(c, holdings); err != nil {
		return err
	}
	meta, err := nodemeta.Open(id.Node, c.cfg.Meta, c.store)
	if err != nil {
		return err
	}
	c.beside.identities = identities.New(identities.Config{Signer: signer{c.link}, Store: c.store.KV, Log: c.log})
	c.beside.sockets = taskapi.New(c.cfg.TaskAPI, c.log)
	if err := c.buildConsul(table); err != nil {
		return err
	}
	c.host = host.New(ctx, c.describe(ctx, holdings, table.Dir(), meta))
	c.beside.sources = sources.New(readSources(c.link), c.cfg.Log)
	c.readConsul()
	c.allocs = allocs.New(allocs.Config{
		Holdings: holdings,
		Store:    c.store,
		Link:     c.link,
		Shims:    c.launcher,
		Host:     c.host,
		Region:   c.cfg.Region,
		Drivers:  c.drivers,
		AllocHooks: append([]hook.Hook{&allochooks.Cores{Pool: c.pool()},
			&allochooks.Network{Networks: c.networks}}, c.storage.allocHooks()...),
		TaskHooks:       append(c.ownHooks(), append(c.storage.taskHooks(c.host), c.lastHooks()...)...),
		Inventory:       c.storage.reporter,
		ReportDelay:     c.cfg.ReportDelay,
		ReportPatience:  c.cfg.ReportPatience,
		ConfirmRemovals: c.cfg.ConfirmRemovals,
		Disks:           c.cfg.Disks,
		Sources:         c.beside.sources,
		StorageTimeout:  c.cfg.StorageTimeout,
		MaxKillTimeout:  c.cfg.MaxKillTimeout,
		Caps:            c.cfg.Caps,
		Contact:         c.contact(time.Now()),
		Log:             c.log,

		Guard: suspects.New(suspects.Config{
			Store:  c.store,
			Left:   loaded.Marks,
			By:     fmt.Sprintf("%s %s %s", c.cfg.Version, c.cfg.Machine.Boot, c.cfg.CrashWindow),
			Window: c.cfg.CrashWindow,
			Runs:   c.cfg.Runs,
			Log:    c.log,
		}),
	})
	c.beside.disks = disks.New(c.allocs, c.launcher, c.cfg.Log)
	c.beside.checks = checks.New(checks.Config{
		Allocs: served{c.allocs, c.log},
		Node:   c.host.Node,
		Consul: c.askedConsul(),
		Log:    c.cfg.Log,
	})
	c.session = session.New(session.Config{
		Link:   c.link,
		Gate:   c.armed,
		Host:   c.host,
		Allocs: c.allocs,
		Seen:   seen,
		Store:  c.store,

		Machine:   *c.cfg.Machine,
		InProcess: c.cfg.InProcess,

		Log: c.log,
	})
	c.storage.reporter.Servers = c.session
	c.remote = remote.New(remote.Config{
		Link:    c.link,
		Reverse: c.cfg.Reverse,
		DataDir: c.cfg.DataDir,
		Allocs:  c.allocs,
		Host:    c.host,
		Meta:    meta,
		Plugins: c.storage.reads(),
		Volumes: c.storage.keeper,
		Usage:   c.storage.meter,
		Disks:   c.beside.disks,
		Devices: c.beside.devices,
		Checks:  c.beside.checks,
		Consul:  c.beside.consul,
		Feed:    c.cfg.Feed,
		Dirs:    c.dirs,
		Log:     c.log,
	})
	return nil
}

// Run runs the node until ctx ends. The tasks go on running: the agent finds them after a restart. Use Shutdown before
// to end them.
func (c *Client) Run(ctx context.Context) error {
	defer c.Close()
	c.allocs.Restore(c.session.Seen())
	runs := map[string]func(context.Context) error{
		"directories":      c.dirs.Run,
		"drivers":          c.drivers.Run,
		"devices":          c.beside.devices.Run,
		"host":             c.host.Run,
		"session":          c.session.Run,
		"allocs":           c.allocs.Run,
		"methods":          c.remote.Run,
		"checks":           c.beside.checks.Run,
		"templates":        c.beside.sources.Run,
		"volumes":          c.storage.keeper.Run,
		"plugins":          c.storage.plugins.Run,
		"inventory":        c.reportInventory,
		"controller calls": c.makeControllerCalls,
		"volume usage":     c.storage.meter.Run,
		"networks":         c.networks.Run,
		"identities":       c.beside.identities.Run,
		"tasks' API":       c.beside.sockets.Run,
		"ways to Consul":   c.beside.ways.run,
	}
	if !c.cfg.UnlimitedDisks {
		runs["disks"] = c.beside.disks.Run
	}
	if c.beside.consul != nil {
		runs["services in Consul"] = c.beside.consul.Run
	}
	if c.shims != nil {
		runs["shims"] = c.shims.Run
	}
	return lifecycle.RunAll(ctx, runs)
}

// Close gives back what New took; Run does it at its end.
func (c *Client) Close() {
	if c.link != nil {
		if err := c.link.Close(); err != nil {
			c.log.Warn("closing the connection to the servers failed", logkey.Error, err)
		}
	}
	if err := c.store.Close(); err != nil {
		c.log.Error("closing the local store failed", logkey.Error, err)
	}
}

// CopyStore returns what the node remembers, at one moment, in a file without a name that the caller closes.
func (c *Client) CopyStore() (copied *os.File, size int64, err error) { return c.store.KV.Copy() }

// ID of the node.
func (c *Client) ID() ids.Node { return c.link.Node() }

// Armed reports whether the node may undo what is not wanted any more.
func (c *Client) Armed() bool { return c.armed.Armed() }

// Seen is the newest state of the servers that the node has acted on.
func (c *Client) Seen() lineage.Point { return c.session.Seen() }

// Heartbeat is the node's time to live, and when the servers last answered it; zero: they have not yet.
func (c *Client) Heartbeat() (ttl time.Duration, last time.Time) { return c.session.Heartbeat() }

// Allocs is how many allocs this node has a record of, ended ones that were not collected yet among them.
func (c *Client) Allocs() int { return c.allocs.Len() }

// Refusal says why the servers do not accept this agent; nil: they do, or were not reached yet.
func (c *Client) Refusal() error { return c.link.Refusal() }

// Leaves has the servers not wait for the node once Run has ended, if it holds nothing then. holds: it does now.
func (c *Client) Leaves() (holds bool) {
	c.session.Leaves()
	return c.allocs.Any()
}

// Registered is closed once the node has been accepted by a server.
func (c *Client) Registered() <-chan struct{} { return c.link.Registered() }

// Shutdown prepares the end of the agent while Run still runs. With stopTasks it ends every alloc within its kill
// timeouts, and orphans at once, and waits until all are released, or ctx ends; without it nothing is stopped.
func (c *Client) Shutdown(ctx context.Context, stopTasks bool) error {
	if !stopTasks {
		return nil
	}
	return c.allocs.StopAll(ctx)
}

// Kill kills at once what Shutdown left, for an agent whose data_dir goes with it. It comes while Run still runs.
func (c *Client) Kill(ctx context.Context) error {
	return errors.Join(c.beside.sockets.End(), c.beside.ways.end(), c.allocs.KillAll(ctx))
}

// Disclose unmounts the file systems of allocs that have ended, for an agent of which nothing is to be left. It comes
// after Run.
func (c *Client) Disclose() error { return c.allocs.Disclose() }
