package agent

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"berth/api"
	"berth/internal/agent/runinfo"
	"berth/internal/base/logkey"
	"berth/internal/base/privilege"
	"berth/internal/client"
	"berth/internal/client/allocdir"
	"berth/internal/client/fingerprint"
	"berth/internal/client/host"
	"berth/internal/client/identity"
	"berth/internal/client/shim"
	"berth/internal/client/suspects"
	"berth/internal/helperbin"
	"berth/internal/httpapi"
	"berth/internal/httpapi/audit"
	"berth/internal/httpapi/nodestore"
	"berth/internal/httpapi/sandbox"
	"berth/internal/model/cores"
	"berth/internal/model/node"
	"berth/internal/model/workload"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/qemu"
	"berth/internal/port/driver/rawexec"
	"berth/internal/port/pluginhost"
	"berth/internal/server"
	"berth/internal/server/endpoint/serving"
)

// build makes the halves and the surface, and starts none.
func (a *Agent) build(ctx context.Context) (err error) {
	if err := a.openOwn(); err != nil {
		return err
	}
	a.server = server.New(a.serverConfig())
	if a.conn, err = a.server.Connect(); err != nil {
		return err
	}
	if err := a.buildOwnNode(ctx); err != nil {
		return err
	}
	surface, err := a.surfaceConfig()
	if err != nil {
		return err
	}
	a.http = httpapi.New(surface)
	return nil
}

// buildOwnNode makes the node beside the server, if there is to be one.
func (a *Agent) buildOwnNode(ctx context.Context) error {
	if !a.cfg.Client.Enabled {
		a.log.Info("this agent has a server and no node")
		if _, err := os.Stat(a.dir("client", "client.db")); err == nil {
			a.log.Warn("this machine was a node: what runs here is watched by nobody, and its volumes stay claimed",
				"hint", "write client { enabled = true }, stop its jobs, and take it out again")
		}
		return nil
	}
	warnOfNode(a.log, os.Geteuid(), privilege.ScopesSockets())
	cfg, err := a.nodeConfig()
	if err != nil {
		return err
	}
	cfg.Servers, cfg.Reverse = a.server.Calls(), a.server.Reversed()
	cfg.InProcess = true
	a.client, err = client.New(ctx, cfg)
	var lost *identity.Lost
	if errors.As(err, &lost) {
		// The servers do without it: they are asked for the token by which the node comes back.
		a.client, a.refused = nil, err
		a.log.Error("the node does not start; this agent runs its servers alone", logkey.Error, err)
		return nil
	}
	return err
}

func (a *Agent) surfaceConfig() (httpapi.Config, error) {
	bounds, err := a.cfg.bounds()
	return httpapi.Config{
		Servers: a.conn,
		Region:  a.cfg.Region,
		Self:    a,
		Logs:    a.feed,
		Parser:  sandbox.New(),
		Bounds:  bounds,
		Log:     a.log.With(logkey.Component, "http"),

		NodeStore: a.node(),
		Audit:     a.audit,
		ListsOff:  !a.cfg.lists(),
		Issuer:    a.cfg.Server.OIDCIssuer,
	}, err
}

// serveTask serves the API on the socket of one task. It is called while the agent runs, when there is a surface.
func (a *Agent) serveTask(ctx context.Context, l net.Listener) error { return a.http.ServeTask(ctx, l) }

// node is the agent's, if one runs.
func (a *Agent) node() nodestore.Source {
	if a.client == nil {
		return nil
	}
	return a.client
}

func (a *Agent) serverConfig() server.Config {
	c := a.cfg
	addr, port := c.BindAddr, strconv.Itoa(c.Ports.HTTP)
	if host, rpc, err := net.SplitHostPort(c.advertised()); err == nil {
		addr, port = host, rpc
	}
	return server.Config{
		DataDir: a.dir("server"),
		Name:    c.serverName(),
		Own:     a.own,
		Address: c.advertised(),
		Expect:  c.Server.BootstrapExpect,
		Addr:    c.BindAddr,
		Port:    uint16(c.Ports.HTTP),
		Tags: map[string]string{
			"region":   c.Region,
			"dc":       c.Datacenter,
			"build":    a.version,
			"port":     port,
			"raft_vsn": "3",
			"role":     "nomad", // by which clients of this API know a server
			"vsn":      "1",
			"rpc_addr": addr,
			"expect":   strconv.Itoa(max(1, c.Server.BootstrapExpect)),
			"revision": runinfo.Revision(),
		},
		Region: c.Region,
		Issuer: c.Server.OIDCIssuer,

		CertificateLifetime: orZero(c.Server.CertificateLifetime),

		VolumeListInterval: orZero(c.Server.VolumeListInterval),
		AlphaGetVolume:     c.Server.AlphaGetVolume,
		Recovery:           c.recovery,
		TokenLifetime:      c.ACL.Lifetime(),
		GC:                 c.Server.Ages(),
		KeyAges:            c.Server.KeyAges(),
		Variables:          c.Server.Variables(),

		Record:    recorder(a.audit),
		Consul:    c.Consul.Reached(),
		ForConsul: workload.Meant{Services: c.Consul.ServiceIdentity(), Tasks: c.Consul.TaskIdentity()},

		Log: a.log.With(logkey.Component, "server"),
		Dev: c.dev,
	}
}

// recorder writes into the audit log what comes by the connections of other agents; nil: there is none.
func recorder(log *audit.Log) serving.Recorder {
	if log == nil {
		return nil
	}
	return func(d serving.Deed) (func(error) error, error) {
		return log.Deed(audit.Deed{
			Who:       d.Who,
			Known:     d.Known,
			From:      d.From,
			What:      d.Method,
			Namespace: d.Namespace,
			Object:    d.Object,
		})
	}
}

func (a *Agent) nodeConfig() (client.Config, error) {
	c := a.cfg
	reserved, err := c.reserved()
	raw, isolated := c.plugin(rawexec.Name).Options(), c.plugin(exec.Name).Options()
	rawUsers, rawErr := c.plugin(rawexec.Name).Users()
	execUsers, execErr := c.plugin(exec.Name).Users()
	ids, idsErr := c.plugin(exec.Name).IDs()
	addresses, addressErr := c.Client.networks().Addresses(reservedPorts)
	bridge, bridgeErr := c.Client.networks().Of()
	containers, containersErr := c.plugin(docker.Name).DockerConfig()
	machines, machinesErr := c.plugin(qemu.Name).Machines()
	fetched, fetchErr := c.Client.Artifact.Settings(c.Ports.HTTP, c.Ports.RPC)
	return client.Config{
		DataDir:       c.DataDir,
		Name:          c.Name,
		Datacenter:    c.Datacenter,
		Region:        c.Region,
		NodePool:      c.Client.NodePool,
		NodeClass:     c.Client.NodeClass,
		Meta:          c.Client.Meta,
		Attributes:    c.attributes(),
		Consul:        c.Consul.Agent(),
		ServiceMethod: c.Consul.ServiceMethod(),
		TaskMethod:    c.Consul.TaskMethod(),
		Version:       a.version,
		HostVolumes:   c.hostVolumes(),
		Reserved:      reserved,
		Bridge:        bridge,
		CNI:           c.Client.networks().Plugins(),
		Fingerprint: fingerprint.Options{
			CPUMHz:       int64(c.Client.CPUTotal),
			MemoryMB:     int64(c.Client.MemoryTotal),
			Interface:    c.Client.NetworkInterface,
			HostNetworks: addresses,
		},
		Volumes: []string{a.volumes()},
		Clock:   a.clock,
		Shims:   &shim.Config{Dir: c.shimDir(), Program: helperbin.Open},
		RawExec: rawexec.Config{Enabled: orDev(raw.Enabled, c.dev), DataDir: c.DataDir, Users: rawUsers},
		Exec: exec.Config{
			AllowCSINode:  orDev(isolated.AllowCSINode, c.dev),
			AllowCaps:     isolated.AllowCaps,
			AllowSyscalls: isolated.AllowSyscalls,
			KeepProjects:  c.enforced() == enforceQuota,
			ShowEtc:       isolated.ShowEtc,
			IOMax:         isolated.IOMax,
			// Never by -dev alone: with the API open to tasks it would be a way from any task to the node.
			AllowHostPID: orDev(isolated.AllowHostPID, false),
			AllowHostIPC: orDev(isolated.AllowHostIPC, false),
			Users:        execUsers,
			IDs:          ids,
		},
		Machines:            machines,
		Docker:              &containers,
		PluginPrograms:      c.programs(),
		UnlimitedDisks:      c.enforced() == enforceNone,
		Disks:               held[c.enforced()],
		VolumeStatsInterval: orZero(c.Client.VolumeStatsInterval),
		MaxKillTimeout:      orZero(c.Client.MaxKillTimeout),
		Caps: driver.Caps{
			MemoryMaxMB: int64(orZero(c.Client.MaxMemoryMax)),
			PIDs:        int64(orZero(c.Client.MaxPIDs)),
		},
		Artifacts:   fetched,
		TaskAPI:     a.serveTask,
		CrashWindow: c.crashWindow(),
		Runs:        a.runs,

		Feed: a.feed,
		Log:  a.log, // it adds its own component
	}, errors.Join(err, rawErr, execErr, idsErr, addressErr, bridgeErr, fetchErr, containersErr, machinesErr)
}

// programs are the plugins that are programs of their own.
func (c *Config) programs() []pluginhost.Config {
	var out []pluginhost.Config
	for _, p := range c.Plugins {
		if e, ok := p.External(c.PluginDir, filepath.Join(c.DataDir, "drivers")); ok {
			e.EndWithAgent = c.dev
			e.Ports = [2]int{c.Client.MinPort, c.Client.MaxPort}
			out = append(out, e)
		}
	}
	return out
}

// held are the ways to hold disks that do more than measure.
var held = map[string]allocdir.Held{enforceImage: allocdir.Image, enforceQuota: allocdir.Quota}

// enforced is how tasks are held to their disks.
func (c *Config) enforced() string {
	if c.Client.EphemeralDisk == nil || c.Client.EphemeralDisk.Enforce == "" {
		return enforceSweep
	}
	return c.Client.EphemeralDisk.Enforce
}

// attributes are those of the node that only its agent's configuration knows.
func (c *Config) attributes() map[string]string {
	out := map[string]string{}
	for name, value := range map[string]string{
		api.NodeAttributeLocalCSI:  map[bool]string{true: "true"}[*c.Client.LocalCSI],
		"unique.advertise.address": map[bool]string{true: c.port()}[c.servesPort()],
		"nomad.revision":           runinfo.Revision(),
	} {
		if value != "" {
			out[name] = value
		}
	}
	for name, most := range map[string]*int{
		node.AttributeMaxMemoryMax: c.Client.MaxMemoryMax,
		node.AttributeMaxPIDs:      c.Client.MaxPIDs,
	} {
		if most != nil {
			out[name] = strconv.Itoa(*most)
		}
	}
	return out
}

// crashWindow is negative, which is none, where it is 0.
func (c *Config) crashWindow() time.Duration {
	if c.Client.CrashWindow == nil {
		return suspects.DefaultWindow
	}
	return cmp.Or(*c.Client.CrashWindow, -1)
}

// orZero is what is set, or nothing, which stands for a default, or for no bound.
func orZero[T any](set *T) (out T) {
	if set != nil {
		out = *set
	}
	return out
}

func orDev(set *bool, dev bool) bool {
	if set != nil {
		return *set
	}
	return dev
}

func (c *Config) reserved() (host.Reserved, error) {
	out := host.Reserved{MinDynamicPort: c.Client.MinPort, MaxDynamicPort: c.Client.MaxPort}
	r := c.Client.Reserved
	if r == nil {
		return out, nil
	}
	out.CPUMHz, out.MemoryMB = int64(r.CPU), int64(r.MemoryMB)
	out.DiskMB = int64(r.DiskMB)
	var err error
	if out.Cores, err = cores.Parse(r.Cores); err == nil { // check says more of both
		out.Ports, err = reservedPorts(r.Ports)
	}
	return out, err
}

func (c *Config) hostVolumes() []fingerprint.HostVolume {
	var out []fingerprint.HostVolume
	for _, v := range c.Client.HostVolumes {
		out = append(out, fingerprint.HostVolume{Name: v.Name, Path: v.Path, ReadOnly: v.ReadOnly})
	}
	return out
}
