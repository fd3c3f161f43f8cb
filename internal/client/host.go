package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"sync"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/client/fingerprint"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// hostPeriod is how often the node looks at what no event tells about: the paths of its host volumes.
const hostPeriod = 15 * time.Second

// firstLook bounds how long the first registration waits for the drivers; a slow driver follows when it is known.
const firstLook = 500 * time.Millisecond

// host owns the node's description of itself.
type host struct {
	c       *Client
	changed lifecycle.Signal
	ready   chan struct{} // closed when there is a description worth registering

	mu      sync.Mutex
	found   fingerprint.Found
	current *node.Node
	encoded []byte
}

func newHost(c *Client) *host {
	o := c.cfg.Fingerprint
	o.DiskPath, o.Version = c.cfg.DataDir, c.cfg.Version
	h := &host{c: c, ready: make(chan struct{}), found: fingerprint.Read(o)}
	for _, err := range h.found.Problems {
		c.log.Warn("a part of the node could not be read", logkey.Error, err)
	}
	h.current = h.describe()
	return h
}

// node is the present description, frozen.
func (h *host) node() *node.Node {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// run looks again whenever a driver or a plugin instance changed, and from time to time.
func (h *host) run(ctx context.Context) error {
	t := time.NewTimer(firstLook)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-h.c.drivers.Looked():
	case <-t.C:
	}
	tick := time.NewTicker(hostPeriod)
	defer tick.Stop()
	first := true
	for {
		drivers := h.c.drivers.Changed()
		var plugins <-chan struct{}
		if h.c.parts.Instances != nil {
			plugins = h.c.parts.Instances.Changed()
		}
		h.refresh()
		if first {
			close(h.ready)
			first = false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-drivers:
		case <-plugins:
		case <-tick.C:
		}
	}
}

// refresh describes the node anew and tells about it when something differs.
func (h *host) refresh() {
	n := h.describe()
	data, err := wire.Encode(n)
	if err != nil {
		h.c.log.Error("the node's description can't be encoded", logkey.Error, err)
		return
	}
	h.mu.Lock()
	same := bytes.Equal(data, h.encoded)
	if !same {
		h.current, h.encoded = n, data
	}
	h.mu.Unlock()
	if !same {
		h.changed.Notify()
	}
}

func (h *host) describe() *node.Node {
	cfg := h.c.cfg
	sum := sha256.Sum256([]byte(h.c.id.Secret.Reveal()))
	n := &node.Node{ID: h.c.id.Node, SecretHash: hex.EncodeToString(sum[:]), Name: cfg.Name, Datacenter: cfg.Datacenter, NodeClass: cfg.NodeClass,
		NodePool: cfg.NodePool, HTTPAddr: cfg.HTTPAddr, Attributes: maps.Clone(h.found.Attributes), Meta: maps.Clone(cfg.Meta),
		Drivers: h.c.drivers.States(), HostVolumes: fingerprint.HostVolumes(cfg.HostVolumes), Resources: h.found.Resources}
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
	for _, d := range n.Drivers {
		if d.Detected {
			maps.Copy(n.Attributes, d.Attributes)
		}
	}
	if cfg.HTTPAddr != "" {
		n.Attributes["unique.advertise.address"] = cfg.HTTPAddr
	}
	r := cfg.Reserved
	n.Reserved = node.Resources{CPUShares: r.CPUMHz, MemoryMB: r.MemoryMB, DiskMB: r.DiskMB, ReservedPorts: r.Ports}
	n.Resources.MinDynamicPort, n.Resources.MaxDynamicPort = DefaultMinDynamicPort, DefaultMaxDynamicPort
	if r.MinDynamicPort > 0 {
		n.Resources.MinDynamicPort = r.MinDynamicPort
	}
	if r.MaxDynamicPort > 0 {
		n.Resources.MaxDynamicPort = r.MaxDynamicPort
	}
	n.Resources.ReservedPorts = r.Ports
	if h.c.parts.Instances != nil {
		n.CSI = h.c.parts.Instances.States()
	}
	return n
}
