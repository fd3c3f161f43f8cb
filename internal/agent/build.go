package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/client"
	"berth/internal/client/allochooks"
	"berth/internal/client/csimanager/controller"
	"berth/internal/client/csimanager/instance"
	"berth/internal/client/csimanager/node"
	"berth/internal/client/dynamicplugins"
	"berth/internal/client/fingerprint"
	"berth/internal/client/hook"
	"berth/internal/client/shim"
	"berth/internal/client/taskhooks"
	"berth/internal/helperbin"
	"berth/internal/httpapi"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/rawexec"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
	"berth/internal/server"
	"berth/internal/wire"
)

// storagePart is the node's side of CSI: what outlives hooks.
type storagePart struct {
	keeper    *node.Keeper
	instances *instance.Manager
	executor  *controller.Executor
}

// build makes every part and starts none.
func (a *Agent) build() error {
	c := a.cfg
	a.server = server.New(server.Config{DataDir: a.dir("server"), Name: c.Name + "." + c.Region, Addr: c.BindAddr, Port: uint16(c.Ports.HTTP),
		Tags: map[string]string{"region": c.Region, "dc": c.Datacenter, "build": a.version, "port": fmt.Sprint(c.Ports.HTTP), "raft_vsn": "3", "role": "berth"},
		Log:  a.log.With(logkey.Component, "server"), Dev: c.dev})
	conn, err := a.server.Connect()
	if err != nil {
		return err
	}
	a.conn = conn
	if err := a.buildClient(); err != nil {
		return err
	}
	a.http = httpapi.New(httpapi.Config{Servers: conn, Region: c.Region, Self: a, Logs: a.hub, Log: a.log.With(logkey.Component, "http")})
	return nil
}

func (a *Agent) buildClient() error {
	c := a.cfg
	launcher, err := shim.New(shim.Config{Dir: c.shimDir(), Program: helperbin.Open, Log: a.log.With(logkey.Component, "shim")})
	if err != nil {
		return err
	}
	reserved := client.Reserved{MinDynamicPort: c.Client.MinPort, MaxDynamicPort: c.Client.MaxPort}
	if r := c.Client.Reserved; r != nil {
		reserved.CPUMHz, reserved.MemoryMB, reserved.DiskMB = int64(r.CPU), int64(r.MemoryMB), int64(r.DiskMB)
		if reserved.Ports, err = reservedPorts(r.Ports); err != nil {
			return err
		}
	}
	a.client, err = client.New(client.Config{
		DataDir: c.DataDir, Name: c.Name, Datacenter: c.Datacenter, Region: c.Region, NodePool: c.Client.NodePool, NodeClass: c.Client.NodeClass,
		Meta: c.Client.Meta, Version: a.version, HostVolumes: a.hostVolumes(), Reserved: reserved,
		Fingerprint:  fingerprint.Options{CPUMHz: int64(c.Client.CPUTotal), MemoryMB: int64(c.Client.MemoryTotal)},
		Drivers:      a.drivers(launcher),
		EndProcesses: launcher.End,
		EndStrangers: launcher.Prune,
		Dial:         func(ctx context.Context) (net.Conn, error) { return a.server.Calls().Dial(ctx) },
		DialReverse:  func(ctx context.Context) (net.Conn, error) { return a.server.Reversed().Dial(ctx) },
		Log:          a.log, // it adds its own component
	})
	if err != nil {
		return err
	}
	st, parts, err := a.buildStorage()
	if err != nil {
		a.client.Close()
		return err
	}
	a.storage = st
	a.client.Attach(parts)
	return nil
}

func (a *Agent) drivers(l driver.Launcher) []driver.Driver {
	raw, isolated := a.cfg.plugin("raw_exec"), a.cfg.plugin("exec")
	return []driver.Driver{
		rawexec.New(rawexec.Config{Enabled: orDev(raw.Enabled, a.cfg.dev)}, l),
		exec.New(exec.Config{AllowCSINode: orDev(isolated.AllowCSINode, a.cfg.dev), AllowCaps: isolated.AllowCaps}, l),
	}
}

func orDev(set *bool, dev bool) bool {
	if set != nil {
		return *set
	}
	return dev
}

func (a *Agent) hostVolumes() []fingerprint.HostVolume {
	var out []fingerprint.HostVolume
	for _, v := range a.cfg.Client.HostVolumes {
		out = append(out, fingerprint.HostVolume{Name: v.Name, Path: v.Path, ReadOnly: v.ReadOnly})
	}
	return out
}

// HostVolume implements taskhooks.HostVolumes.
func (a *Agent) HostVolume(name string) (string, bool, error) {
	for _, v := range a.cfg.Client.HostVolumes {
		if v.Name != name {
			continue
		}
		if _, err := os.Lstat(v.Path); err != nil {
			return "", false, fault.Wrap(err, fault.NotReady, "use", `host volume "`+name+`"`)
		}
		return v.Path, v.ReadOnly, nil
	}
	return "", false, fault.New(fault.NotReady, "use", `host volume "`+name+`"`, "this node's configuration does not offer it")
}

func (a *Agent) buildStorage() (*storagePart, client.Parts, error) {
	log := a.log.With(logkey.Component, "csi")
	boot, err := hostfs.BootID()
	if err != nil {
		return nil, client.Parts{}, err
	}
	registry, err := dynamicplugins.Open(a.client.Store(), log)
	if err != nil {
		return nil, client.Parts{}, err
	}
	supervisor := &taskhooks.CSIPluginSupervisor{DataDir: a.cfg.DataDir, Base: node.HostBase, Registry: registry}
	instances := instance.New(instance.Config{Registry: registry, Node: a.client.ID(), Health: supervisor.Health, Timeout: supervisor.Timeout, Log: log})
	keeper, err := node.New(node.Config{DataDir: a.cfg.DataDir, Lost: a.lost, Store: a.client.Store(), Codec: kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict}, Boot: boot,
		Plugins: instances, Processes: a.client.Processes(), Armed: a.client.Armed(), Known: a.client.Known, Log: log})
	if err != nil {
		return nil, client.Parts{}, err
	}
	st := &storagePart{keeper: keeper, instances: instances, executor: controller.New(controller.Config{Plugins: instances, Node: keeper, Log: log})}
	parts := client.Parts{
		AllocHooks: []hook.Hook{&allochooks.CSI{Grants: a.client, Mounter: keeper}},
		TaskHooks:  []hook.Hook{&taskhooks.Volume{Host: a, Mounter: keeper}, supervisor},
		Instances:  instances,
		Serve:      []func(*wire.Server){controller.Reads{Plugins: instances}.Register},
		Monitor:    a.serveMonitor,
	}
	return st, parts, nil
}

// lost restarts exactly the tasks whose volume was found dead under them.
func (a *Agent) lost(id ids.Alloc, alias, reason string) {
	if err := a.client.RestartUsers(id, alias, `volume "`+alias+`": `+reason); err != nil {
		a.log.Error("the tasks of a lost volume could not be restarted", logkey.Alloc, id, logkey.Volume, alias, logkey.Error, err)
	}
}

// runNode runs the node half with its keepers.
func (a *Agent) runNode(ctx context.Context) error {
	st := a.storage
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"client":    a.client.Run,
		"volumes":   st.keeper.Run,
		"plugins":   st.instances.Run,
		"inventory": a.reportInventory,
		"work":      a.takeWork,
	})
}

// serveMonitor streams this agent's log to a server that asks for it.
func (a *Agent) serveMonitor(req *wire.RunMonitorRequest, s *wire.Stream[wire.RunFrame, wire.Empty]) error {
	return a.hub.Follow(s.Context(), levelOf(req.Level), req.JSON, func(line []byte) error {
		return s.Send(&wire.RunFrame{Data: line})
	})
}

func runtimeStats() map[string]string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return map[string]string{"goroutines": strconv.Itoa(runtime.NumGoroutine()), "cpu_count": strconv.Itoa(runtime.NumCPU()),
		"version": runtime.Version(), "arch": runtime.GOARCH, "kernel.name": runtime.GOOS, "heap_bytes": strconv.FormatUint(m.HeapAlloc, 10)}
}
