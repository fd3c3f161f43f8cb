// Package rank owns what a node has left and how good a place it is: capacity of processors, memory, disk and ports,
// the scores by which the scheduler chooses among nodes, and the queue that yields the best one. Everything in it is
// deterministic; ties fall by the order in which nodes were offered. The scheduler and the planner import it.
package rank

import (
	"hash/fnv"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// Dimensions that can be exhausted, as clients of the API know them.
const (
	DimensionCPU    = "cpu"
	DimensionMemory = "memory"
	DimensionDisk   = "disk"

	portCollision = "network: port collision " // and the label
	noDynamicPort = "network: no dynamic port left"
)

// Bounds of dynamic ports on a node that names none.
const (
	minDynamicPort = 20000
	maxDynamicPort = 32000
)

// Ask is what one alloc of a group takes.
type Ask struct {
	cpu, memory, disk int64
	tasks             map[string]alloc.TaskResources
	static, dynamic   []job.Port
}

// NewAsk sums up a group.
func NewAsk(g *job.TaskGroup) *Ask {
	a := &Ask{tasks: map[string]alloc.TaskResources{}}
	if g.EphemeralDisk != nil {
		a.disk = int64(g.EphemeralDisk.SizeMB)
	}
	for _, t := range g.Tasks {
		if t.Resources == nil {
			a.tasks[t.Name] = alloc.TaskResources{}
			continue
		}
		r := alloc.TaskResources{
			CPUShares:   int64(t.Resources.CPU),
			MemoryMB:    int64(t.Resources.MemoryMB),
			MemoryMaxMB: int64(t.Resources.MemoryMaxMB),
			PIDs:        int64(t.Resources.PIDs),
		}
		a.cpu += r.CPUShares
		a.memory += r.MemoryMB
		a.tasks[t.Name] = r
	}
	for _, n := range g.Networks {
		a.static = append(a.static, n.ReservedPorts...)
		a.dynamic = append(a.dynamic, n.DynamicPorts...)
	}
	return a
}

// Resources returns what an alloc gets, with its ports. The map of tasks is shared by all allocs of the group.
func (a *Ask) Resources(ports []alloc.PortMapping) alloc.Resources {
	return alloc.Resources{Tasks: a.tasks, DiskMB: a.disk, Ports: ports}
}

// Capacity is what a node has left for the plan.
type Capacity struct {
	Node              *node.Node
	cpu, memory, disk int64    // left; may be negative when the node shrank
	total             [3]int64 // before any alloc: processors, memory, disk
	ports             map[portKey]holder
	peers             map[string]int // allocs of the job that is being placed, by group
}

// portKey is a port of an address of the node: of a host network, or "" for its default one.
type portKey struct {
	address string
	port    int
}

// anyAddress is the address of a portKey that is held on all.
const anyAddress = "*"

// at is the key of a port in a host network, empty: the default one. What has the same address, or is the node's
// loopback, where ports of the default network are reached too, is one with it.
func (r *Capacity) at(hostNetwork string, port int) portKey {
	n := r.Node.Resources.HostNetwork(hostNetwork)
	if n == nil || n.Address == r.Node.Resources.IP || strings.HasPrefix(n.Address, "127.") {
		return portKey{port: port}
	}
	return portKey{n.Address, port}
}

// holderOf returns who has a port, on its address or on all.
func (r *Capacity) holderOf(key portKey) (holder, bool) {
	if by, held := r.ports[key]; held {
		return by, true
	}
	by, held := r.ports[portKey{anyAddress, key.port}]
	return by, held
}

// holder has a port.
type holder struct {
	alloc  ids.Alloc // empty: kept back by the node's configuration
	job    ids.Job
	ending bool // it will be free when the alloc's processes are gone
}

// NewCapacity counts the allocs of a node. Allocs that the servers stopped, or that gone reports as stopped by the
// plan, give back processors, memory and disk at once, but keep their ports until their processes are gone.
func NewCapacity(
	n *node.Node, allocs []*alloc.Alloc, gone func(ids.Alloc) bool, peer func(*alloc.Alloc) bool,
) *Capacity {
	r := &Capacity{Node: n,
		cpu:    n.Resources.CPUShares - n.Reserved.CPUShares,
		memory: n.Resources.MemoryMB - n.Reserved.MemoryMB,
		disk:   n.Resources.DiskMB - n.Reserved.DiskMB,
	}
	r.total = [3]int64{r.cpu, r.memory, r.disk}
	for _, p := range n.Reserved.ReservedPorts {
		r.hold(portKey{anyAddress, p}, holder{})
	}
	for _, h := range n.Resources.HostNetworks {
		for _, p := range h.ReservedPorts {
			r.hold(r.at(h.Name, p), holder{})
		}
	}
	for _, a := range allocs {
		if a.ClientTerminal() {
			continue
		}
		ending := a.ServerTerminal() || gone(a.ID)
		for _, p := range a.Resources.Ports {
			r.hold(r.at(p.HostNetwork, p.Value), holder{alloc: a.ID, job: a.Job, ending: ending})
		}
		if ending {
			continue
		}
		r.take(a.Resources.Total())
		if peer != nil && peer(a) {
			r.addPeer(a.TaskGroup, 1)
		}
	}
	return r
}

func (r *Capacity) take(cpu, memory, disk int64) {
	r.cpu = r.cpu - cpu
	r.memory = r.memory - memory
	r.disk = r.disk - disk
}

func (r *Capacity) hold(key portKey, by holder) {
	if r.ports == nil {
		r.ports = map[portKey]holder{}
	}
	r.ports[key] = by
}

// setEnding notes whether the ports of an alloc are about to be free.
func (r *Capacity) setEnding(a *alloc.Alloc, ending bool) {
	for _, p := range a.Resources.Ports {
		key := r.at(p.HostNetwork, p.Value)
		if h, held := r.ports[key]; held && h.alloc == a.ID {
			h.ending = ending
			r.ports[key] = h
		}
	}
}

func (r *Capacity) addPeer(group string, n int) {
	if r.peers == nil {
		r.peers = map[string]int{}
	}
	r.peers[group] += n
}

// Peers counts the allocs of the job's group on the node, those of the plan included.
func (r *Capacity) Peers(group string) int { return r.peers[group] }

// Release gives back what an alloc took that the plan stops after the capacity was counted. Its ports stay held.
func (r *Capacity) Release(a *alloc.Alloc) {
	cpu, memory, disk := a.Resources.Total()
	r.take(-cpu, -memory, -disk)
	r.addPeer(a.TaskGroup, -1)
	r.setEnding(a, true)
}

// Restore takes Release back.
func (r *Capacity) Restore(a *alloc.Alloc) {
	r.take(a.Resources.Total())
	r.addPeer(a.TaskGroup, 1)
	r.setEnding(a, false)
}

// Fits answers with the first dimension that is exhausted; empty: it fits. With assumeEnded the ports of allocs that
// are ending count as free.
func (r *Capacity) Fits(a *Ask, assumeEnded bool) string {
	switch {
	case a.cpu > r.cpu:
		return DimensionCPU
	case a.memory > r.memory:
		return DimensionMemory
	case a.disk > r.disk:
		return DimensionDisk
	}
	for _, p := range a.static {
		by, held := r.holderOf(r.at(p.HostNetwork, p.Value))
		if held && !(assumeEnded && by.ending) {
			return portCollision + p.Label
		}
	}
	if len(a.dynamic) > 0 && r.dynamicLeft() < len(a.dynamic) {
		return noDynamicPort
	}
	return ""
}

func (r *Capacity) dynamicRange() (low, high int) {
	low, high = r.Node.Resources.MinDynamicPort, r.Node.Resources.MaxDynamicPort
	if low <= 0 {
		low = minDynamicPort
	}
	if high < low {
		high = max(maxDynamicPort, low)
	}
	return low, high
}

// dynamicLeft is a lower bound that is exact when it matters: when few are left.
func (r *Capacity) dynamicLeft() int {
	low, high := r.dynamicRange()
	size := high - low + 1
	if size-len(r.ports) > 64 {
		return size - len(r.ports)
	}
	taken := map[int]bool{} // on any address
	for key := range r.ports {
		if key.port >= low && key.port <= high {
			taken[key.port] = true
		}
	}
	return size - len(taken)
}

// Ports chooses the ports of an alloc: the static ones, and dynamic ones by its id, so that the same plan chooses the
// same. Call it after Fits, and Put what it returned.
func (r *Capacity) Ports(a *Ask, id ids.Alloc) []alloc.PortMapping {
	if len(a.static)+len(a.dynamic) == 0 {
		return nil
	}
	out := make([]alloc.PortMapping, 0, len(a.static)+len(a.dynamic))
	mine := map[int]bool{}
	for _, p := range a.static {
		mine[p.Value] = true
		out = append(out, r.mapping(p, p.Value))
	}
	low, high := r.dynamicRange()
	size := high - low + 1
	for _, p := range a.dynamic {
		start := int(seed(string(id), p.Label) % uint64(size))
		for i := range size {
			port := low + (start+i)%size
			if _, held := r.holderOf(r.at(p.HostNetwork, port)); !held && !mine[port] {
				mine[port] = true
				out = append(out, r.mapping(p, port))
				break
			}
		}
	}
	return out
}

func (r *Capacity) mapping(p job.Port, value int) alloc.PortMapping {
	to := p.To
	if to == -1 {
		to = value
	}
	ip := r.Node.Resources.IP
	if n := r.Node.Resources.HostNetwork(p.HostNetwork); n != nil {
		ip = n.Address
	}
	return alloc.PortMapping{
		Label:       p.Label,
		Value:       value,
		To:          to,
		HostIP:      ip,
		HostNetwork: p.HostNetwork,
	}
}

func seed(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // a hash never fails
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// Put takes the capacity for an alloc of the plan.
func (r *Capacity) Put(a *Ask, group string, id ids.Alloc, ports []alloc.PortMapping) {
	r.take(a.cpu, a.memory, a.disk)
	r.addPeer(group, 1)
	for _, p := range ports {
		r.hold(r.at(p.HostNetwork, p.Value), holder{alloc: id})
	}
}

// PutAlloc checks an alloc as it stands, as the planner does, and takes its capacity. It answers with the dimension
// that is exhausted and then takes nothing.
func (r *Capacity) PutAlloc(a *alloc.Alloc) string {
	cpu, memory, disk := a.Resources.Total()
	switch {
	case cpu > r.cpu:
		return DimensionCPU
	case memory > r.memory:
		return DimensionMemory
	case disk > r.disk:
		return DimensionDisk
	}
	for _, p := range a.Resources.Ports {
		if _, held := r.holderOf(r.at(p.HostNetwork, p.Value)); held {
			return portCollision + p.Label
		}
	}
	r.take(cpu, memory, disk)
	for _, p := range a.Resources.Ports {
		r.hold(r.at(p.HostNetwork, p.Value), holder{alloc: a.ID, job: a.Job})
	}
	return ""
}
