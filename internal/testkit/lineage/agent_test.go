package lineage

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/allocs"
	"berth/internal/client/localstate"
	"berth/internal/client/session"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/wire"
)

// agent is one start of a node's agent. It acts by the laws of the client, one pass at a time.
type agent struct {
	w      *world
	m      *machine
	d      *dir
	number uint64 // of the start; a person's word that it is the one makes it the newest
	info   node.Node
	who    wire.NodeIdentity
	chain  localstate.Session

	patience    time.Duration // of the servers, see servers.Link
	incarnation string        // of the registration
	foreign     bool
	armed       bool
	refusal     error
	stopping    bool      // it ends all that runs
	known       string    // what the servers' last set said
	stream      wire.Conn // on which that came; nil: it is to begin anew
	reported    map[ids.Alloc]string
	waits       map[ids.Alloc]string // what an alloc waits for

	vols    map[volume.StagingKey]*vol
	unknown []volume.UnknownMount
	report  reporting

	calls *calls // nil: there is no stream
}

// newAgent starts an agent on the machine's data directory.
func newAgent(m *machine) *agent {
	w := m.w
	w.starts++
	a := &agent{
		w:        w,
		m:        m,
		d:        m.dir,
		number:   w.starts,
		reported: map[ids.Alloc]string{},
		waits:    map[ids.Alloc]string{},
		vols:     map[volume.StagingKey]*vol{},
		report:   reporting{full: true},
		who:      wire.NodeIdentity{Node: m.dir.node, Secret: secretOf(m.dir.node)},
	}
	a.d.store.chain = a.d.store.chain.Begin(rand.Text())
	a.chain = a.d.store.chain
	a.info = a.describe()
	a.load()
	return a
}

// conn is on what the agent calls the servers.
func (a *agent) conn() wire.Conn { return a.w.site.reach(a.m) }

func secretOf(id ids.Node) wire.Secrets {
	return wire.Secrets{Values: map[string]string{"id": "secret of " + string(id)}}
}

// describe is what the node says of itself all the time.
func (a *agent) describe() node.Node {
	caps := plugin.Capabilities{
		ControllerService: true,
		ExpandOnline:      true,
		CreateDelete:      true,
		Attach:            true,
		CreateSnapshot:    true,
		ControllerExpand:  true,
		Stage:             true,
		NodeExpand:        true,
	}
	instance := func(role plugin.Role) *plugin.Instance {
		return &plugin.Instance{
			Plugin:       disk,
			Role:         role,
			Node:         a.d.node,
			State:        plugin.Ready,
			Provider:     "provider",
			Version:      "1",
			Scope:        plugin.ScopeCluster,
			Capabilities: caps,
			Updated:      a.w.provider.instant(),
		}
	}
	byNode := instance(plugin.RoleNode)
	byNode.StorageNode = a.m.name
	n := node.Node{
		ID:         a.d.node,
		Name:       a.m.name,
		Datacenter: "dc1",
		NodePool:   "default",
		Address:    a.m.name,
		Drivers:    map[string]*node.Driver{"exec": {Detected: true, Healthy: true}},
		CSI:        []*plugin.Instance{instance(plugin.RoleController), byNode},
		Resources:  node.Resources{CPUShares: 4000, MemoryMB: 4000, DiskMB: 10000},
	}
	pluginjobs.Name(&n)
	return n
}

// stop ends the agent's calls.
func (a *agent) stop() {
	if a.calls != nil {
		a.calls.end()
		a.calls = nil
	}
}

// tick is one pass of all that an agent does.
func (a *agent) tick() {
	if err := a.register(); err != nil {
		a.refusal, a.stream = err, nil
		a.stop()
		return
	}
	a.refusal = nil
	a.takeCalls()
	if a.reportsFirst() {
		a.send(nil)
	}
	if !a.foreign {
		a.receive()
	}
	for range 30 { // until nothing moves any more
		if !a.work() {
			break
		}
	}
	a.tell()
}

// reportsFirst reports whether the report of what is here comes before the first set: either may.
func (a *agent) reportsFirst() bool { return a.number%2 == 0 }

// register says that the agent is there, and acts on the answer.
func (a *agent) register() error {
	info := a.info
	info.Orphans = a.orphans()
	start := &wire.AgentStart{At: a.chain.At, Registration: node.Registration{
		Machine: a.m.identity(),
		Address: a.m.name,
	}}
	start.Previous, start.Next = a.chain.Start()
	req := &wire.NodeRegisterRequest{
		NodeIdentity: a.who,
		Info:         &info,
		Seen:         a.d.store.seen,
		Holds:        a.holds(),
		Start:        start,
	}
	reply, err := wire.NodeRegister.Call(a.w.ctx(), a.conn(), req)
	if err != nil {
		return err
	}
	a.obeyed("registration")
	a.w.placePlugin(a)
	if a.incarnation != reply.Incarnation {
		a.incarnation, a.armed = reply.Incarnation, false
		a.report.full = true
		clear(a.reported)
	}
	was := a.foreign
	stands := session.Stand(req.Seen, req.Holds, reply.Incarnation, reply.Parents)
	a.foreign = stands == session.Keeps
	if stands == session.FollowsAnew {
		a.d.store.seen = lineage.Point{}
	}
	if a.foreign && !was {
		for _, id := range a.allocs() {
			a.keep(id, allocs.ForeignReason)
		}
	}
	a.armed = a.foreign || a.armed && !was
	if a.chain.Accepted != start.Next || a.chain.At.Incarnation != reply.At.Incarnation {
		a.d.store.chain = localstate.Session{Accepted: start.Next, At: reply.At}
		a.chain = a.chain.Answered(reply.At)
	}
	a.who.Session, a.patience = reply.Session, reply.Silence
	return nil
}

// obeyed tells the oracle that an act of this agent start took effect.
func (a *agent) obeyed(what string) {
	a.w.obeyed = append(a.w.obeyed, oracle.Obeyed{
		At:    a.w.provider.instant(),
		Node:  string(a.d.node),
		Start: a.number,
		What:  what,
	})
}

// holds reports whether the node has anything that it answers for.
func (a *agent) holds() bool {
	for _, rec := range a.d.store.allocs {
		if !rec.Released {
			return true
		}
	}
	return len(a.unrecorded()) > 0
}

// unrecorded lists the allocs of which only a directory or a process is here.
func (a *agent) unrecorded() []ids.Alloc {
	all := maps.Clone(a.d.tasks)
	for id := range a.m.procs {
		all[id] = true
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(id ids.Alloc) bool {
		return a.d.store.allocs[id] != nil
	})
}

func (a *agent) allocs() []ids.Alloc { return slices.Sorted(maps.Keys(a.d.store.allocs)) }

// orphans are what nobody decides about.
func (a *agent) orphans() (out []node.Orphan) {
	for _, id := range a.allocs() {
		if rec := a.d.store.allocs[id]; rec.Orphan != nil && !rec.Released {
			out = append(out, node.Orphan{
				Alloc:     id,
				Namespace: rec.Bundle.Alloc.Namespace,
				Job:       rec.Bundle.Alloc.Job,
				Reason:    rec.Orphan.Reason,
				Since:     rec.Orphan.Since,
				Processes: a.m.procs[id] != nil,
				Volumes:   rec.Bundle.CSIVolumes(),
			})
		}
	}
	for _, id := range a.unrecorded() {
		out = append(out, node.Orphan{Alloc: id, Reason: "its record is lost", Processes: true})
	}
	slices.SortFunc(out, func(x, y node.Orphan) int { return cmp.Compare(x.Alloc, y.Alloc) })
	return out
}

func (a *agent) keep(id ids.Alloc, reason string) {
	rec := a.d.store.allocs[id]
	if rec.Released || rec.Orphan != nil && rec.Orphan.Reason == reason {
		return
	}
	rec.Orphan = &localstate.Orphan{Reason: reason, Since: a.w.provider.instant()}
}

// receive takes a whole set of allocs.
func (a *agent) receive() {
	set, err := a.set()
	if err != nil {
		return // there is another pass
	}
	switch session.Receive(a.incarnation, a.d.store.seen,
		session.Set{Full: set.Full, At: set.At, Relation: set.Relation}) {
	case session.Acted, session.ActedWary:
	case session.Elsewhere, session.Foreign, session.Late:
		a.armed = false
		return
	}
	known := set.At.Mark
	named := map[ids.Alloc]bool{}
	var lost []*alloc.Alloc
	for _, b := range set.Bundles {
		id := b.Alloc.ID
		named[id] = true
		known += fmt.Sprint(" ", id, b.Alloc.AllocModifyIndex)
		if rec := a.d.store.allocs[id]; rec != nil {
			rec.Bundle = b
			rec.Received = set.At
			rec.Orphan = nil
			continue
		}
		switch allocs.Begin(b.Alloc, set.Restored, a.here(id)) {
		case allocs.Begins:
			a.d.store.allocs[id] = &localstate.Alloc{Bundle: b, Received: set.At}
			a.d.tasks[id] = true
		case allocs.TakesUp:
			if a.m.procs[id] != nil { // its shim answers
				a.d.store.allocs[id] = &localstate.Alloc{Bundle: b, Received: set.At}
				a.d.tasks[id] = true
			}
		case allocs.NotBegun:
			lost = append(lost, &alloc.Alloc{
				ID:                id,
				ClientStatus:      alloc.ClientLost,
				ClientDescription: alloc.LostInRestore,
			})
		case allocs.Passes:
		}
	}
	if len(lost) > 0 {
		if _, err := wire.NodeUpdate.Call(a.w.ctx(), a.conn(),
			&wire.NodeUpdateRequest{NodeIdentity: a.who, Allocs: lost}); err != nil {
			return
		}
		a.obeyed("report")
	}
	a.d.store.seen = set.At
	for _, id := range a.allocs() {
		if !named[id] {
			a.leave(id)
		}
	}
	a.armed = true
	if known != a.known || a.stream != a.conn() { // a stream that begins anew is caught up with
		a.known = known
		a.stream = a.conn()
		a.report.caughtUp = true
	}
}

// set opens a stream of allocs for its first, whole set.
func (a *agent) set() (*wire.AllocSet, error) {
	ctx, cancel := context.WithCancel(a.w.ctx())
	defer cancel()
	stream, err := wire.NodeAllocs.Open(ctx, a.conn(),
		&wire.NodeAllocsRequest{NodeIdentity: a.who, Seen: a.d.store.seen})
	if err != nil {
		return nil, err
	}
	return stream.Recv()
}

// here is what the node has of an alloc without a record.
func (a *agent) here(id ids.Alloc) allocs.Here {
	return allocs.Here{
		Unrecorded: slices.Contains(a.unrecorded(), id),
		Directory:  a.d.tasks[id],
		Stopping:   a.stopping,
	}
}

// leave asks about an alloc that a set left out, and does what the answer says.
func (a *agent) leave(id ids.Alloc) {
	rec := a.d.store.allocs[id]
	reply, err := wire.NodeAllocsKnown.Call(a.w.ctx(), a.conn(), &wire.NodeAllocsKnownRequest{
		NodeIdentity: a.who,
		Allocs:       []wire.ReceivedAlloc{{Alloc: id, Received: rec.Received}},
	})
	if err != nil {
		return
	}
	switch allocs.Leave(slices.Contains(reply.Removed, id), slices.Contains(reply.Orphans, id), rec.Released) {
	case allocs.Stays:
	case allocs.Orphaned:
		a.keep(id, "the servers do not know it")
	case allocs.Stops:
		rec.Stopped = cmp.Or(rec.Stopped, "the servers have removed the allocation")
	case allocs.Destroyed:
		a.destroy(id)
	}
}

func (a *agent) destroy(id ids.Alloc) {
	delete(a.d.store.allocs, id)
	delete(a.d.tasks, id)
	delete(a.reported, id)
}

// endOrphan ends what nobody decides about, on a person's word.
func (a *agent) endOrphan(id ids.Alloc) {
	a.w.byHand[id] = true
	if rec := a.d.store.allocs[id]; rec != nil {
		rec.Stopped = cmp.Or(rec.Stopped, "a person ended it")
		return
	}
	a.m.end(id)
	delete(a.d.tasks, id)
}

// tell reports the allocs that are in another state than was reported last, with the inventory.
func (a *agent) tell() {
	var news []*alloc.Alloc
	for _, id := range a.allocs() {
		rec := a.d.store.allocs[id]
		status := a.status(rec)
		if a.foreign || rec.Orphan != nil || a.reported[id] == status {
			continue
		}
		news = append(news, &alloc.Alloc{ID: id, ClientStatus: status, ClientDescription: rec.Refused})
	}
	a.send(news)
	for _, id := range a.allocs() {
		rec := a.d.store.allocs[id]
		if rec.Released && rec.Orphan != nil && rec.Stopped != "" {
			a.destroy(id)
		}
	}
}

// status is how an alloc is, for the servers.
func (a *agent) status(rec *localstate.Alloc) string {
	switch {
	case rec.Released && rec.Refused != "":
		return alloc.ClientFailed
	case rec.Released:
		return alloc.ClientComplete
	case a.m.procs[rec.Bundle.Alloc.ID] != nil:
		return alloc.ClientRunning
	}
	return alloc.ClientPending
}

// shown is the agent in a line, for what does not change any more and for people.
func (a *agent) shown() string {
	var b strings.Builder
	if a.refusal != nil {
		b.WriteString("refused: " + a.refusal.Error())
		return b.String()
	}
	fmt.Fprintf(&b, "armed %t foreign %t", a.armed, a.foreign)
	for _, id := range a.allocs() {
		rec := a.d.store.allocs[id]
		fmt.Fprintf(&b, "; %s of %s %s orphan %t stopped %q released %t waits %q", ids.Short(id), rec.Bundle.Alloc.Job,
			a.status(rec), rec.Orphan != nil, rec.Stopped, rec.Released, a.waits[id])
	}
	for _, id := range a.unrecorded() {
		fmt.Fprintf(&b, "; %s has no record", ids.Short(id))
	}
	for _, k := range a.keys() {
		v := a.vols[k]
		fmt.Fprintf(&b, "; %s staging %s", k.ExternalID, v.entry.Staging.Presence)
		for _, id := range v.entry.Allocs() {
			fmt.Fprintf(&b, ", for %s %s wanted %t", ids.Short(id), v.entry.Pubs[id].Presence, v.entry.Pubs[id].Wanted)
		}
		fmt.Fprintf(&b, " (%s)", v.wait)
	}
	for _, u := range a.unknown {
		b.WriteString("; unknown " + u.Path)
	}
	return b.String()
}

// calls is the stream on which an agent is asked for controller calls.
type calls struct {
	group *lifecycle.Group
	mu    sync.Mutex
	over  bool
}

func (c *calls) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

func (c *calls) end() {
	c.group.Stop()
	_ = c.group.Wait() // it ends by its context
}

// takeCalls opens the stream unless it is open, and makes the calls that it brings.
func (a *agent) takeCalls() {
	if a.calls != nil && !a.calls.ended() {
		return
	}
	a.stop()
	g, ctx := lifecycle.NewGroup(a.w.ctx())
	stream, err := wire.NodeControllerCalls.Open(ctx, a.conn(),
		&wire.ControllerCallsRequest{NodeIdentity: a.who, Credits: 10})
	if err != nil {
		g.Stop()
		return
	}
	c := &calls{group: g}
	m := a.m
	g.Go("calls of "+m.name, func() error {
		for {
			call, err := stream.Recv()
			if err != nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.over = true
				return nil // the servers have ended it, or the agent
			}
			if call.Cancel {
				continue // every call has ended when the next one is read
			}
			if err := stream.Send(a.w.provider.control(m, call)); err != nil {
				return nil
			}
		}
	})
	a.calls = c
}
