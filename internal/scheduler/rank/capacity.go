// Package rank owns what a node has left and how good a place it is: capacity of processors, memory, disk and ports,
// the scores by which the scheduler chooses among nodes, and the queue that yields the best one. Everything in it is
// deterministic; ties fall by the order in which nodes were offered. The scheduler and the planner import it.
package rank

import (
	"hash/fnv"
	"maps"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/device"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/scheduler/devices"
)

// Dimensions that can be exhausted, as clients of the API know them.
const (
	DimensionCPU    = "cpu"
	DimensionMemory = "memory"
	DimensionDisk   = "disk"
	DimensionCores  = "cores"

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
	cores             []coreAsk
	static, dynamic   []job.Port
	devices           *devices.Ask
	namespace         ids.Namespace
	job               ids.Job
}

// NewAsk sums up a group of a job.
func NewAsk(j *job.Job, g *job.TaskGroup) *Ask {
	a := &Ask{
		tasks:     map[string]alloc.TaskResources{},
		devices:   devices.NewAsk(g),
		namespace: j.Namespace,
		job:       j.ID,
	}
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
		if t.Resources.Cores > 0 {
			a.cores = append(a.cores, newCoreAsk(t))
			r.CPUShares = 0 // what the cores stand for, once they are chosen
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

// Capacity is what a node has left for the plan.
type Capacity struct {
	Node              *node.Node
	cpu, memory, disk int64                // left; may be negative when the node shrank
	total             [3]int64             // before any alloc: processors, memory, disk
	ports             map[portKey][]holder // several where they share one
	cores             coreBook
	peers             map[string]int // allocs of the job that is being placed, by group
	devices           *devices.Free  // nil: the node has none
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

// held reports whether anybody has a port, on its address or on all.
func (r *Capacity) held(key portKey) bool {
	return len(r.ports[key]) > 0 || len(r.ports[portKey{anyAddress, key.port}]) > 0
}

// inTheWay returns who keeps a port, on its address or on all, from one who wants it; with assumeEnded, allocs that are
// ending do not.
func (r *Capacity) inTheWay(key portKey, wants holder, assumeEnded bool) (holder, bool) {
	for _, key := range []portKey{key, {anyAddress, key.port}} {
		for _, by := range r.ports[key] {
			if !by.shares(wants) && !(assumeEnded && by.ending) {
				return by, true
			}
		}
	}
	return holder{}, false
}

// holder has a port.
type holder struct {
	alloc     ids.Alloc // empty: kept back by the node's configuration
	namespace ids.Namespace
	job       ids.Job
	placed    bool // by the plan that is being made
	shared    bool // with others of its job that say so, too
	ending    bool // it will be free when the alloc's processes are gone
}

// shares reports whether two may have the same port at once.
func (h holder) shares(with holder) bool {
	return h.shared && with.shared && h.job == with.job && h.namespace == with.namespace
}

// holderFor is how an alloc has one of its ports.
func holderFor(a *alloc.Alloc, p alloc.PortMapping) holder {
	return holder{
		alloc:     a.ID,
		namespace: a.Namespace,
		job:       a.Job,
		shared:    p.IgnoreCollision,
	}
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
	if len(n.Resources.Devices) > 0 {
		r.devices = devices.NewFree(n)
	}
	r.cores = newCoreBook(n)
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
			by := holderFor(a, p)
			by.ending = ending
			r.hold(r.at(p.HostNetwork, p.Value), by)
		}
		if r.devices != nil {
			r.devices.Hold(a, ending)
		}
		if ending {
			continue
		}
		r.take(a.Resources.Total())
		r.cores.take(a.Resources, 1)
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
		r.ports = map[portKey][]holder{}
	}
	r.ports[key] = append(r.ports[key], by)
}

// setEnding notes whether the ports and devices of an alloc are about to be free.
func (r *Capacity) setEnding(a *alloc.Alloc, ending bool) {
	if r.devices != nil {
		r.devices.Hold(a, ending)
	}
	for _, p := range a.Resources.Ports {
		all := r.ports[r.at(p.HostNetwork, p.Value)]
		for i := range all {
			if all[i].alloc == a.ID {
				all[i].ending = ending
			}
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
	r.cores.take(a.Resources, -1)
	r.addPeer(a.TaskGroup, -1)
	r.setEnding(a, true)
}

// Restore takes Release back.
func (r *Capacity) Restore(a *alloc.Alloc) {
	r.take(a.Resources.Total())
	r.cores.take(a.Resources, 1)
	r.addPeer(a.TaskGroup, 1)
	r.setEnding(a, false)
}

// Fits answers with the first dimension that is exhausted; empty: it fits. With assumeEnded the ports of allocs that
// are ending count as free.
func (r *Capacity) Fits(a *Ask, assumeEnded bool) string {
	cpu, cores := r.computing(a)
	switch {
	case !cores:
		return DimensionCores
	case cpu > r.cpu:
		return DimensionCPU
	case a.memory > r.memory:
		return DimensionMemory
	case a.disk > r.disk:
		return DimensionDisk
	}
	for _, p := range a.static {
		if _, hindered := r.inTheWay(r.at(p.HostNetwork, p.Value), a.holder(p), assumeEnded); hindered {
			return portCollision + p.Label
		}
	}
	if len(a.dynamic) > 0 && r.dynamicLeft() < len(a.dynamic) {
		return noDynamicPort
	}
	if _, enough := r.chooseDevices(a, assumeEnded); !enough {
		return devices.Dimension
	}
	return ""
}

func (r *Capacity) chooseDevices(a *Ask, assumeEnded bool) (devices.Choice, bool) {
	if a.devices == nil {
		return devices.Choice{}, true
	}
	if r.devices == nil {
		return devices.Choice{}, false
	}
	return r.devices.Choose(a.devices, assumeEnded)
}

// Choose returns what an alloc gets. Call it after Fits, and Put what it returned. Where nothing of it is the alloc's
// own, the map of tasks is shared by all allocs of the group.
func (r *Capacity) Choose(a *Ask, id ids.Alloc) alloc.Resources {
	out := alloc.Resources{Tasks: a.tasks, DiskMB: a.disk, Ports: r.Ports(a, id)}
	own, _ := r.chooseDevices(a, false)
	chosen, _ := r.cores.choose(a.cores)
	if len(own.Given)+len(chosen) == 0 {
		return out
	}
	out.Tasks = maps.Clone(a.tasks)
	for task, given := range own.Given { // in any order: each has its own place
		t := out.Tasks[task]
		t.Devices = given
		out.Tasks[task] = t
	}
	for task, ids := range chosen { // in any order: each has its own place
		t := out.Tasks[task]
		t.Cores, t.CPUShares = ids, r.cores.shares(ids)
		out.Tasks[task] = t
	}
	return out
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
// same.
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
			if !mine[port] && !r.held(r.at(p.HostNetwork, port)) {
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
		Label:           p.Label,
		Value:           value,
		To:              to,
		HostIP:          ip,
		HostNetwork:     p.HostNetwork,
		IgnoreCollision: p.IgnoreCollision,
	}
}

// holder is how an alloc of the ask would have a static port.
func (a *Ask) holder(p job.Port) holder {
	return holder{namespace: a.namespace, job: a.job, shared: p.IgnoreCollision}
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
func (r *Capacity) Put(a *Ask, given alloc.Resources, group string, id ids.Alloc) {
	r.take(given.Total())
	r.cores.take(given, 1)
	r.addPeer(group, 1)
	for _, p := range given.Ports {
		r.hold(r.at(p.HostNetwork, p.Value), holder{
			alloc:     id,
			namespace: a.namespace,
			job:       a.job,
			placed:    true,
			shared:    p.IgnoreCollision,
		})
	}
	if r.devices != nil {
		own := map[string][]device.Given{}
		for task, t := range given.Tasks {
			own[task] = t.Devices
		}
		r.devices.Put(id, own)
	}
}

// PutAlloc checks an alloc as it stands, as the planner does, and takes its capacity. It answers with the dimension
// that is exhausted and then takes nothing.
func (r *Capacity) PutAlloc(a *alloc.Alloc) string {
	cpu, memory, disk := a.Resources.Total()
	switch {
	case !r.cores.free(a.Resources):
		return DimensionCores
	case cpu > r.cpu:
		return DimensionCPU
	case memory > r.memory:
		return DimensionMemory
	case disk > r.disk:
		return DimensionDisk
	}
	for _, p := range a.Resources.Ports {
		if _, hindered := r.inTheWay(r.at(p.HostNetwork, p.Value), holderFor(a, p), false); hindered {
			return portCollision + p.Label
		}
	}
	if !r.takesDevices(a) {
		return devices.Dimension
	}
	r.take(cpu, memory, disk)
	r.cores.take(a.Resources, 1)
	for _, p := range a.Resources.Ports {
		r.hold(r.at(p.HostNetwork, p.Value), holderFor(a, p))
	}
	return ""
}

// takesDevices checks the devices of an alloc as it stands, and takes them.
func (r *Capacity) takesDevices(a *alloc.Alloc) bool {
	if r.devices != nil {
		return r.devices.Takes(a)
	}
	for _, t := range a.Resources.Tasks { // in any order: one is enough
		if len(t.Devices) > 0 {
			return false
		}
	}
	return true
}
