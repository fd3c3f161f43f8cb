// Package host owns the node's description of itself: what it has, which drivers and plugins run on it, and what it
// keeps that the servers do not know. Only package client and what it is made of import it.
package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/redact"
	"berth/internal/client/allocs"
	"berth/internal/client/csimanager/instance"
	"berth/internal/client/devicemanager"
	"berth/internal/client/drivermanager"
	"berth/internal/client/fingerprint"
	"berth/internal/client/host/paths"
	"berth/internal/client/nodemeta"
	"berth/internal/model/cores"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// hostPeriod is how often the node looks at what no event tells about: the paths of its host volumes.
const hostPeriod = 15 * time.Second

// firstLook bounds how long the first registration waits for the drivers; a slow driver follows when it is known.
const firstLook = 500 * time.Millisecond

// Reserved is kept back from allocs.
type Reserved struct {
	CPUMHz, MemoryMB, DiskMB       int64
	MinDynamicPort, MaxDynamicPort int
	Ports                          []int
	Cores                          []uint16
}

// Defaults of the range that dynamic ports are taken from.
const (
	DefaultMinDynamicPort = 20000
	DefaultMaxDynamicPort = 32000
)

// Config says what a node is.
type Config struct {
	ID          ids.Node
	Secret      redact.Secret
	Name        string // empty: the host's name
	Datacenter  string
	NodePool    string
	NodeClass   string
	Meta        *nodemeta.Meta
	HTTPAddr    string
	Attributes  map[string]string // that the agent adds to those that were found
	HostVolumes []fingerprint.HostVolume
	Fingerprint fingerprint.Options
	Reserved    Reserved
	Drivers     *drivermanager.Manager
	Devices     *devicemanager.Manager
	Plugins     *instance.Manager
	Holdings    *allocs.Holdings
	Consul      Described // nil: the node has no agent of Consul
	Log         *slog.Logger
}

// Described adds to the node's attributes and metadata.
type Described interface {
	Attributes() map[string]string
	// Meta are metadata that the node has where nobody gives it others.
	Meta() map[string]string
	// Changed returns a channel that is closed when they change.
	Changed() <-chan struct{}
}

// Host describes the node.
type Host struct {
	cfg     Config
	changed lifecycle.Signal
	paths   paths.Paths
	ready   chan struct{} // closed when there is a description worth registering

	mu      sync.Mutex
	found   fingerprint.Found
	current *node.Node
	encoded []byte
}

// New looks at the machine once; Run follows what changes.
func New(ctx context.Context, cfg Config) *Host {
	h := &Host{cfg: cfg, ready: make(chan struct{}), found: fingerprint.Read(ctx, cfg.Fingerprint)}
	for _, err := range h.found.Problems {
		cfg.Log.Warn("a part of the node could not be read", logkey.Error, err)
	}
	h.current = h.describe(ctx)
	h.sayVolumes(nil)
	return h
}

// sayVolumes says which host volumes cannot be used any more, and which can again, since an earlier description.
func (h *Host) sayVolumes(before *node.Node) {
	for name, v := range h.current.HostVolumes {
		was := ""
		if before != nil && before.HostVolumes[name] != nil {
			was = before.HostVolumes[name].Unhealthy
		}
		switch {
		case v.Unhealthy == was:
		case v.Unhealthy != "":
			h.cfg.Log.Warn("a host volume cannot be used: what needs it waits, or goes elsewhere", "host_volume", name,
				logkey.Error, v.Unhealthy)
		default:
			h.cfg.Log.Info("a host volume can be used again", "host_volume", name)
		}
	}
}

// Changed returns a channel that is closed at the next change of the description.
func (h *Host) Changed() <-chan struct{} { return h.changed.C() }

// Ready is closed when there is a description worth registering.
func (h *Host) Ready() <-chan struct{} { return h.ready }

// Node implements taskrunner.Host: it is the present description, frozen.
func (h *Host) Node() *node.Node {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// HostVolume implements taskhooks.HostVolumes: a volume that the node's configuration offers.
func (h *Host) HostVolume(ctx context.Context, name string) (dir string, readOnly bool, err error) {
	for _, v := range h.cfg.HostVolumes {
		if v.Name != name {
			continue
		}
		if why := h.paths.Look(ctx, v.Path)[v.Path]; why != "" {
			return "", false, fault.New(fault.NotReady, "use", `host volume "`+name+`"`, why)
		}
		return v.Path, v.ReadOnly, nil
	}
	return "", false,
		fault.New(fault.NotReady, "use", `host volume "`+name+`"`, "this node's configuration does not offer it")
}

// Run looks again whenever a driver or a plugin instance changed, and from time to time.
func (h *Host) Run(ctx context.Context) error {
	t := time.NewTimer(firstLook)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-h.cfg.Drivers.Looked():
		select {
		case <-ctx.Done():
			return nil
		case <-h.cfg.Devices.Looked():
		case <-t.C:
		}
	case <-t.C:
	}
	tick := time.NewTicker(hostPeriod)
	defer tick.Stop()
	first := true
	for {
		drivers, plugins := h.cfg.Drivers.Changed(), h.cfg.Plugins.Changed()
		devices := h.cfg.Devices.Changed()
		orphans, meta := h.cfg.Holdings.OrphansChanged(), h.cfg.Meta.Changed()
		var consul <-chan struct{}
		if h.cfg.Consul != nil {
			consul = h.cfg.Consul.Changed()
		}
		h.refresh(ctx)
		if first {
			close(h.ready)
			first = false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-drivers:
		case <-devices:
		case <-plugins:
		case <-orphans:
		case <-meta:
		case <-consul:
		case <-tick.C:
			h.lookAtDisk(ctx)
			h.lookAtNetwork(ctx)
		}
	}
}

// lookAtDisk follows how much of the disk may be asked for: it was freed, or somebody else fills it.
func (h *Host) lookAtDisk(ctx context.Context) {
	look := h.cfg.Fingerprint
	if look.DiskMB > 0 {
		return
	}
	mb, err := h.found.Disk.Look(ctx, look.DiskPath, look.Allocs)
	if err != nil {
		h.cfg.Log.Warn("the room on the disk could not be read", logkey.Error, err)
		return
	}
	h.found.Resources.DiskMB = mb
}

// lookAtNetwork looks again for addresses that were not there yet: links may come up after the agent. What is offered
// stays: allocs have ports there.
func (h *Host) lookAtNetwork(ctx context.Context) {
	r, look := &h.found.Resources, h.cfg.Fingerprint
	if r.IP != "" && len(r.HostNetworks) == len(look.HostNetworks) {
		return
	}
	now := fingerprint.Found{Attributes: map[string]string{}}
	if err := fingerprint.Network(ctx, &now, look); err != nil {
		h.cfg.Log.Debug("an address for ports is not there yet", logkey.Error, err)
	}
	if r.IP == "" {
		r.IP, r.Device = now.Resources.IP, now.Resources.Device
		maps.Copy(h.found.Attributes, now.Attributes)
	}
	if len(now.Resources.HostNetworks) > len(r.HostNetworks) {
		r.HostNetworks = now.Resources.HostNetworks
	}
}

// refresh describes the node anew and tells about it when something differs.
func (h *Host) refresh(ctx context.Context) {
	n := h.describe(ctx)
	data, err := wire.Encode(n)
	if err != nil {
		h.cfg.Log.Error("the node's description can't be encoded", logkey.Error, err)
		return
	}
	h.mu.Lock()
	same := bytes.Equal(data, h.encoded)
	if !same {
		before := h.current
		h.current, h.encoded = n, data
		h.sayVolumes(before)
	}
	h.mu.Unlock()
	if !same {
		h.changed.Notify()
	}
}

// hostVolumes are those of the configuration. One that cannot be used is unhealthy, with the reason; the others and the
// node go on.
func (h *Host) hostVolumes(ctx context.Context) map[string]*node.HostVolume {
	var all []string
	for _, v := range h.cfg.HostVolumes {
		all = append(all, v.Path)
	}
	why := h.paths.Look(ctx, all...)
	out := map[string]*node.HostVolume{}
	for _, v := range h.cfg.HostVolumes {
		out[v.Name] = &node.HostVolume{Name: v.Name, Path: v.Path, ReadOnly: v.ReadOnly, Unhealthy: why[v.Path]}
	}
	return out
}

func (h *Host) describe(ctx context.Context) *node.Node {
	cfg := h.cfg
	sum := sha256.Sum256([]byte(cfg.Secret.Reveal()))
	n := &node.Node{
		ID:          cfg.ID,
		SecretHash:  hex.EncodeToString(sum[:]),
		Name:        cfg.Name,
		Datacenter:  cfg.Datacenter,
		NodeClass:   cfg.NodeClass,
		NodePool:    cfg.NodePool,
		HTTPAddr:    cfg.HTTPAddr,
		Attributes:  maps.Clone(h.found.Attributes),
		Meta:        cfg.Meta.Merged(),
		Drivers:     cfg.Drivers.States(),
		HostVolumes: h.hostVolumes(ctx),
		Resources:   h.found.Resources,
		CSI:         cfg.Plugins.States(),
		Orphans:     cfg.Holdings.Orphans(),
	}
	n.Resources.Devices = cfg.Devices.Groups()
	n.Address = n.Resources.IP
	if n.Name == "" {
		n.Name, _ = os.Hostname() // its failure is among the problems already
	}
	if n.Datacenter == "" {
		n.Datacenter = "dc1"
	}
	if n.NodePool == "" {
		n.NodePool = "default"
	}
	addOfDrivers(n)
	if cfg.HTTPAddr != "" {
		n.Attributes["unique.advertise.address"] = cfg.HTTPAddr
	}
	maps.Copy(n.Attributes, cfg.Attributes)
	if cfg.Consul != nil {
		maps.Copy(n.Attributes, cfg.Consul.Attributes())
		given := n.Meta
		n.Meta = cfg.Consul.Meta()
		maps.Copy(n.Meta, given)
	}
	reserve(n, cfg.Reserved)
	return n
}

// addOfDrivers adds what drivers say of themselves. A driver of somebody else can name any attribute: what the node has
// found itself, and what is another driver's, it does not say.
func addOfDrivers(n *node.Node) {
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		if !n.Drivers[name].Detected {
			continue
		}
		for attribute, value := range n.Drivers[name].Attributes {
			if _, there := n.Attributes[attribute]; !there && !ofAnother(n, name, attribute) {
				n.Attributes[attribute] = value
			}
		}
	}
}

// ofAnother reports whether an attribute is of another driver of the node than the one that is named.
func ofAnother(n *node.Node, name, attribute string) bool {
	of := func(driver string) bool { return strings.HasPrefix(attribute+".", "driver."+driver+".") }
	for other := range n.Drivers {
		if other != name && of(other) && !of(name) {
			return true
		}
	}
	return false
}

// keepCores keeps cores back, with the computing power that they stand for.
func keepCores(n *node.Node, ids []uint16) {
	for _, c := range n.Resources.Cores {
		if slices.Contains(ids, c.ID) {
			n.Reserved.Kept = append(n.Reserved.Kept, c.ID)
		}
	}
	kept := cores.Shares(n.Resources.Cores, n.Reserved.Kept, n.Resources.CPUShares)
	n.Reserved.CPUShares = max(n.Reserved.CPUShares, kept)
	if len(n.Reserved.Kept) > 0 {
		n.Attributes["cpu.reservablecores"] = strconv.Itoa(len(n.Resources.Cores) - len(n.Reserved.Kept))
		n.Attributes["cpu.usablecompute"] = strconv.FormatInt(n.Resources.CPUShares-n.Reserved.CPUShares, 10)
	}
}

func reserve(n *node.Node, r Reserved) {
	n.Reserved = node.Resources{CPUShares: r.CPUMHz, MemoryMB: r.MemoryMB, DiskMB: r.DiskMB, ReservedPorts: r.Ports}
	keepCores(n, r.Cores)
	n.Resources.MinDynamicPort, n.Resources.MaxDynamicPort = DefaultMinDynamicPort, DefaultMaxDynamicPort
	if r.MinDynamicPort > 0 {
		n.Resources.MinDynamicPort = r.MinDynamicPort
	}
	if r.MaxDynamicPort > 0 {
		n.Resources.MaxDynamicPort = r.MaxDynamicPort
	}
	n.Resources.ReservedPorts = r.Ports
}
