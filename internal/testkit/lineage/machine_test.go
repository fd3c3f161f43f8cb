package lineage

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/localstate"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
)

// dataDir is where every node keeps its things: a clone's paths are the original's.
const dataDir = "/data"

// machine is a computer: a kernel with its mounts and processes, and a disk. Processes outlive the agent.
type machine struct {
	w        *world
	name     string
	nameless bool // its firmware tells no product
	boots    int  // 0: it is off
	starts   int
	plugins  int  // runs of the plugin
	copied   bool // its disk is a copy of another machine's
	mounts   []hostfs.Mount
	gone     []hostfs.Mount // went with the power
	procs    map[ids.Alloc]*process
	dir      *dir
	agent    *agent

	mu     sync.Mutex
	wishes map[volume.StagingKey]int64 // sizes that the servers asked its agent for
}

// process is what a shim holds: a task that writes to its volume.
type process struct {
	bundle alloc.Bundle
	target string
	volume string // external id
}

// dir is a data directory.
type dir struct {
	node  ids.Node
	store *store
	names map[string]evidence.IDFile // beside the paths, outside of any mount
	tasks map[ids.Alloc]bool         // directories of allocs
}

// store is what a node remembers.
type store struct {
	chain   localstate.Session
	seen    lineage.Point
	allocs  map[ids.Alloc]*localstate.Alloc
	entries map[volume.StagingKey]*entry.Entry
}

func newStore() *store {
	return &store{allocs: map[ids.Alloc]*localstate.Alloc{}, entries: map[volume.StagingKey]*entry.Entry{}}
}

// copy is what a person, or a snapshot of a virtual machine, copies.
func (d *dir) copy() *dir {
	s := newStore()
	s.chain, s.seen = d.store.chain, d.store.seen
	s.chain.Tried = slices.Clone(s.chain.Tried)
	for id, a := range d.store.allocs {
		c := *a
		s.allocs[id] = &c
	}
	for k, e := range d.store.entries {
		s.entries[k] = e.Clone()
	}
	return &dir{
		node:  d.node,
		store: s,
		names: maps.Clone(d.names),
		tasks: maps.Clone(d.tasks),
	}
}

// newMachine is one that is switched on and whose agent runs on an empty disk.
func (w *world) newMachine(name string, id ids.Node) *machine {
	m := &machine{
		w:     w,
		name:  name,
		procs: map[ids.Alloc]*process{},
		dir: &dir{
			node:  id,
			store: newStore(),
			names: map[string]evidence.IDFile{},
			tasks: map[ids.Alloc]bool{},
		},
	}
	w.machines = append(w.machines, m)
	return m
}

// on switches the machine on and starts its agent.
func (m *machine) on() {
	if m.boots == 0 {
		m.starts++
		m.boots = m.starts
		m.w.provider.pluginStarts(m)
	}
	m.run()
}

// run starts the agent.
func (m *machine) run() {
	if m.agent == nil && m.boots > 0 {
		m.agent = newAgent(m)
	}
}

// wish takes down that a volume is to be larger on this machine, as its agent keeps it in memory.
func (m *machine) wish(k volume.StagingKey, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wishes == nil {
		m.wishes = map[volume.StagingKey]int64{}
	}
	m.wishes[k] = max(m.wishes[k], bytes)
}

// wished are the wishes since they were last taken.
func (m *machine) wished() map[volume.StagingKey]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.wishes
	m.wishes = nil
	return out
}

// kill ends the agent at once. What it started goes on.
func (m *machine) kill() {
	if m.agent != nil {
		m.agent.stop()
		m.agent = nil
		_ = m.wished() // they go with its memory
		m.w.provider.mark(proxy.CallerCrashed, proxy.Entry{Caller: m.name})
	}
}

// off takes the power away: no process is left, and no mount.
func (m *machine) off() {
	m.kill()
	if m.boots == 0 {
		return
	}
	m.boots = 0
	m.gone = append(m.gone, m.mounts...)
	m.mounts = nil
	clear(m.procs)
	m.w.provider.mark(proxy.Rebooted, proxy.Entry{Node: m.name, Plugin: string(disk)})
}

// boot names the present boot.
func (m *machine) boot() string { return fmt.Sprintf("boot %d of %s", m.boots, m.name) }

// identity is what the machine says of itself.
func (m *machine) identity() node.Machine {
	out := node.Machine{Boot: m.boot(), Product: "product of " + m.name, ID: "id of " + m.name}
	if m.nameless {
		out.Product = ""
	}
	return out
}

func (m *machine) table() *hostfs.Table { return hostfs.TableOf(m.mounts...) }

func (m *machine) mounted(path string) bool {
	_, is := m.table().At(path)
	return is
}

func (m *machine) mount(path, externalID string) {
	if !m.mounted(path) {
		m.mounts = append(m.mounts, hostfs.Mount{
			ID:     len(m.mounts) + 1,
			Path:   path,
			Device: externalID,
			Root:   "/",
			FSType: "ext4",
		})
	}
}

func (m *machine) unmount(path string) {
	m.mounts = slices.DeleteFunc(m.mounts, func(x hostfs.Mount) bool { return x.Path == path })
}

// forget gives a machine another data directory than the one it had. What went with the power before, nobody
// remembers then, and the oracle learns that it went.
func (m *machine) forget(d *dir) {
	m.dir = d
	for _, x := range slices.Backward(m.gone) {
		if !m.mounted(x.Path) {
			m.unmountByHand(volume.UnknownMount{Path: x.Path, Device: x.Device})
		}
	}
	m.gone = nil
}

// unmountByHand is what a person does about a mount of which the node does not know whose it is. The oracle takes it
// for a call of the plugin, for there is no other word of it.
func (m *machine) unmountByHand(u volume.UnknownMount) {
	e := proxy.Entry{RPC: string(csi.NodeUnpublishVolume), Volume: u.Device, Node: m.name, Target: u.Path}
	if strings.Contains(u.Path, "/s/") {
		e.RPC = string(csi.NodeUnstageVolume)
		e.Staging = u.Path
		e.Target = ""
	}
	m.w.provider.call(m, e, func() (any, codes.Code) { m.unmount(u.Path); return nil, codes.OK })
}

// start starts the task of an alloc on its volume.
func (m *machine) start(b alloc.Bundle, target, externalID string) {
	m.w.tasks = append(m.w.tasks, oracle.TaskStart{
		At:      m.w.provider.instant(),
		Node:    m.name,
		Target:  target,
		Mounted: m.mounted(target),
	})
	m.procs[b.Alloc.ID] = &process{bundle: b, target: target, volume: externalID}
	m.w.lookForTwoWriters()
}

// end ends the processes of an alloc, as the agent does.
func (m *machine) end(id ids.Alloc) {
	if m.procs[id] == nil {
		return
	}
	delete(m.procs, id)
	m.w.ended(m, id)
}

// left lists what of volumes is on the machine, and of its directories in the agent's.
func (m *machine) left() (mounts, dirs []string) {
	for _, x := range m.mounts {
		mounts = append(mounts, m.name+":"+x.Path)
	}
	for _, path := range slices.Sorted(maps.Keys(m.dir.names)) {
		dirs = append(dirs, m.name+":"+filepath.Clean(path))
	}
	return mounts, dirs
}

// remembers reports whether anything on the machine tells of a volume.
func (m *machine) remembers(k volume.StagingKey) bool {
	for _, f := range m.dir.names {
		if f.Key == k {
			return true
		}
	}
	return m.dir.store.entries[k] != nil || slices.ContainsFunc(m.mounts, func(x hostfs.Mount) bool {
		return x.Device == k.ExternalID
	})
}

// living are the processes beside an agent.
func (a *agent) living() (out []*process) {
	for _, p := range a.m.procs {
		out = append(out, p)
	}
	return out
}
