package e2e

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/base/render"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	instance "berth/internal/model/plugin"
	"berth/internal/model/trust"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// method is one that nodes call: how it is called by who says to be a node, and what lies it is tried with besides.
type method struct {
	as   func(context.Context, wire.NodeIdentity) error
	lies []lie
	// unsaid: what it does does not depend on the session that is named.
	unsaid bool
}

// unary is a method with one answer.
func unary[Req, Rep any](l *liar, m wire.Method[Req, Rep], req func(wire.NodeIdentity) *Req, lies ...lie) method {
	return method{
		as: func(ctx context.Context, id wire.NodeIdentity) error {
			_, err := m.Call(ctx, l.conn, req(id))
			return err
		},
		lies: lies,
	}
}

// stream is a method that answers until it ends.
func stream[Req, In, Out any](l *liar, m wire.StreamMethod[Req, In, Out], req func(wire.NodeIdentity) *Req) method {
	return method{as: func(ctx context.Context, id wire.NodeIdentity) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := m.Open(ctx, l.conn, req(id))
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}}
}

// ofNodes are the methods that nodes call, each with its lies. The table of methods says which there are.
func (l *liar) ofNodes(token string) map[string]method {
	type id = wire.NodeIdentity
	elsewhere := ids.Alloc(l.alloc.ID)
	const (
		task    = "write"
		notHere = "is not placed on this node"
	)
	return map[string]method{
		"Node.Register": {as: l.registers(nil), lies: l.ofRegister(), unsaid: true},
		"Node.Heartbeat": unary(l, wire.NodeHeartbeat, func(id id) *wire.NodeHeartbeatRequest {
			return &wire.NodeHeartbeatRequest{NodeIdentity: id}
		}),
		"Node.Allocs": stream(l, wire.NodeAllocs, func(id id) *wire.NodeAllocsRequest {
			return &wire.NodeAllocsRequest{NodeIdentity: id}
		}),
		"Node.AllocsKnown": unary(l, wire.NodeAllocsKnown, func(id id) *wire.NodeAllocsKnownRequest {
			return &wire.NodeAllocsKnownRequest{
				NodeIdentity: id,
				Allocs:       []wire.ReceivedAlloc{{Alloc: elsewhere}},
			}
		}),
		"Node.UpdateAllocs": l.ofUpdates(),
		"Node.Inventory":    l.ofInventories(),
		"Node.InventoryKnown": unary(l, wire.NodeInventoryKnown, func(id id) *wire.InventoryDigest {
			return &wire.InventoryDigest{NodeIdentity: id}
		}),
		"Node.Grants": unary(l, wire.NodeGrants, func(id id) *wire.GrantsRequest {
			return &wire.GrantsRequest{NodeIdentity: id, Alloc: l.mine}
		}, l.grants("what another's allocation is granted", elsewhere, string(elsewhere), "placed on another node"),
			l.grants("what nobody's allocation is granted", ids.Alloc(ids.New()), "do not know it")),
		"Node.ControllerCalls": l.ofCalls(),
		"Node.Leave": unary(l, wire.NodeLeave, func(id id) *wire.NodeLeaveRequest {
			return &wire.NodeLeaveRequest{NodeIdentity: id, ForGood: true}
		}),
		"Node.Identities": unary(l, wire.NodeIdentities, func(id id) *wire.IdentitiesRequest {
			return &wire.IdentitiesRequest{NodeIdentity: id, Alloc: l.mine, Task: "t"}
		}, l.calls("the identity of another's task", func(ctx context.Context) error {
			_, err := wire.NodeIdentities.Call(ctx, l.conn, &wire.IdentitiesRequest{
				NodeIdentity: l.id,
				Alloc:        elsewhere,
				Task:         task,
				Names:        []string{"default"},
			})
			return err
		}, string(elsewhere), notHere)),
		"Node.ServiceIdentity": unary(l, wire.NodeServiceIdentity, func(id id) *wire.ServiceIdentityRequest {
			return &wire.ServiceIdentityRequest{NodeIdentity: id, Alloc: l.mine, Service: "s"}
		}, l.calls("the identity of another's service", func(ctx context.Context) error {
			_, err := wire.NodeServiceIdentity.Call(ctx, l.conn, &wire.ServiceIdentityRequest{
				NodeIdentity: l.id,
				Alloc:        elsewhere,
				Service:      "s",
			})
			return err
		}, string(elsewhere), notHere)),
		"Node.ConsulToken": unary(l, wire.NodeConsulToken, func(id id) *wire.ConsulTokenRequest {
			return &wire.ConsulTokenRequest{NodeIdentity: id, Alloc: l.mine, Task: "t", Service: "s"}
		}, l.calls("the token of another's task", func(ctx context.Context) error {
			_, err := wire.NodeConsulToken.Call(ctx, l.conn, &wire.ConsulTokenRequest{
				NodeIdentity: l.id,
				Alloc:        elsewhere,
				Task:         task,
				Service:      "s",
			})
			return err
		}, string(elsewhere), notHere)),
		"Node.Sources": unary(l, wire.NodeSources, func(id id) *wire.SourcesRequest {
			return &wire.SourcesRequest{NodeIdentity: id}
		}, l.reads("what another's task reads", elsewhere, task, string(elsewhere), notHere),
			l.reads("another job's variable for its own task", l.mine, "t", "nomad/jobs/",
				"a task reads the variables of its own job")),
		"Trust.Certify": {lies: l.ofCertificates(token)},
	}
}

// tellsAll tries every method of nodes: by who names another node, by who does not know the secret, by a session that
// is not the one, and with its lies.
func (l *liar) tellsAll(methods map[string]method, before map[string]string) {
	l.m.t.Helper()
	var want []string
	for name, who := range l.table() {
		if strings.HasPrefix(name, "Node.") && strings.TrimSpace(who) == "nobody" || name == "Trust.Certify" {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(methods)); !slices.Equal(got, want) {
		l.m.t.Fatalf("nodes can call\n%s, and lies are known for\n%s", want, got)
	}
	other, stale := l.id, l.id
	other.Node = l.victim
	unknown := l.id
	unknown.Secret = wire.Secrets{Values: map[string]string{"id": ids.New()}}
	stale.Session = "a session of before"
	for _, name := range want {
		m := methods[name]
		if m.as != nil {
			by := func(id wire.NodeIdentity) func(context.Context) error {
				return func(ctx context.Context) error { return m.as(ctx, id) }
			}
			l.refused(lie{name + " in another's name", by(other), []string{"speak for", string(l.victim)}})
			l.refused(lie{name + " without its secret", by(unknown), []string{string(l.id.Node), "its secret is not"}})
			if !m.unsaid {
				l.refused(lie{name + " by another session", by(stale), []string{string(l.id.Node), "is not accepted"}})
			}
		}
		for _, x := range m.lies {
			x.what = name + ": " + x.what
			l.refused(x)
			l.beats()
			l.unchanged(x.what, before)
		}
		l.unchanged(name, before)
	}
}

// calls is a lie.
func (l *liar) calls(what string, tell func(context.Context) error, says ...string) lie {
	return lie{what: what, tell: tell, says: says}
}

// grants asks for the permission to mount what an alloc is to have.
func (l *liar) grants(what string, id ids.Alloc, says ...string) lie {
	return l.calls(what, func(ctx context.Context) error {
		_, err := wire.NodeGrants.Call(ctx, l.conn, &wire.GrantsRequest{NodeIdentity: l.id, Alloc: id})
		return err
	}, says...)
}

// reads asks for the variable of the other's job as a task.
func (l *liar) reads(what string, id ids.Alloc, task string, says ...string) lie {
	return l.calls(what, func(ctx context.Context) error {
		reply, err := wire.NodeSources.Call(ctx, l.conn, &wire.SourcesRequest{
			NodeIdentity: l.id,
			Tasks: []wire.TaskSources{{
				Alloc:   id,
				Task:    task,
				Sources: []render.Source{{Kind: render.Variable, Name: "nomad/jobs/" + l.alloc.JobID}},
			}},
		})
		if err == nil && len(reply.Answers) == 1 && len(reply.Answers[0].Values) == 0 {
			err = errors.New(strings.ReplaceAll(reply.Answers[0].Refused, canary, ""))
		}
		return err
	}, says...)
}

// registers has the node registered, as what it says to be.
func (l *liar) registers(change func(*wire.NodeRegisterRequest)) func(context.Context, wire.NodeIdentity) error {
	return func(ctx context.Context, id wire.NodeIdentity) error {
		req := &wire.NodeRegisterRequest{
			NodeIdentity: id,
			Info: &node.Node{
				ID:         id.Node,
				Name:       "liar",
				Datacenter: "dc1",
				NodePool:   "default",
				Attributes: map[string]string{},
				Drivers:    map[string]*node.Driver{"raw_exec": {Detected: true, Healthy: true}},
				Resources:  node.Resources{CPUShares: 1e3, CPUCores: 1, MemoryMB: 1e3, DiskMB: 1e3},
			},
			Start: &wire.AgentStart{Registration: node.Registration{
				Previous: l.tried[1:],
				Next:     l.tried[0],
				Machine:  node.Machine{Boot: strings.TrimSpace(l.m.read("/proc/sys/kernel/random/boot_id"))},
			}},
		}
		if change != nil {
			change(req)
		}
		_, err := wire.NodeRegister.Call(ctx, l.conn, req)
		return err
	}
}

func (l *liar) ofRegister() []lie {
	as := func(what string, change func(*wire.NodeRegisterRequest), says ...string) lie {
		return l.calls(what, func(ctx context.Context) error { return l.registers(change)(ctx, l.id) }, says...)
	}
	return []lie{
		as("another's id", func(r *wire.NodeRegisterRequest) { r.Info.ID = l.victim }, "differs from the caller's"),
		as("another pool", func(r *wire.NodeRegisterRequest) { r.Info.NodePool = "gpu" }, `pool "default"`),
		as("no such pool", func(r *wire.NodeRegisterRequest) { r.Info.NodePool = "none" }, `pool "default"`),
		as("an agent start that follows none", func(r *wire.NodeRegisterRequest) {
			r.Start.Previous, r.Start.Next = []string{"nobody's"}, ids.New()
		}, string(l.id.Node), "does not follow"),
		as("a start that says to run in the server", func(r *wire.NodeRegisterRequest) {
			r.Start.Previous, r.Start.Next = nil, ids.New()
			r.Start.InProcess = true
		}, string(l.id.Node), "does not follow"),
		as("more than it can be", func(r *wire.NodeRegisterRequest) {
			r.Info.Attributes["x"] = strings.Repeat("x", 8<<20)
		}, string(l.id.Node), "at most"),
		as("a readmission", func(r *wire.NodeRegisterRequest) {
			r.Start.Previous, r.Start.Next = nil, ids.New()
			r.Readmit = wire.Secrets{Values: map[string]string{wire.ReadmitToken: string(l.id.Node) + ".guessed"}}
		}, string(l.id.Node), "its token is unknown"),
	}
}

// ofUpdates are reports of allocs: of another's the servers take none over, and say so in their log.
func (l *liar) ofUpdates() method {
	of := func(id wire.NodeIdentity, a *alloc.Alloc) *wire.NodeUpdateRequest {
		return &wire.NodeUpdateRequest{NodeIdentity: id, Allocs: []*alloc.Alloc{a}}
	}
	ended := &alloc.Alloc{ID: ids.Alloc(l.alloc.ID), ClientStatus: alloc.ClientFailed, ClientDescription: canary}
	reports := func(a *alloc.Alloc) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := wire.NodeUpdate.Call(ctx, l.conn, of(l.id, a))
			return err
		}
	}
	return unary(l, wire.NodeUpdate, func(id wire.NodeIdentity) *wire.NodeUpdateRequest { return of(id, ended) },
		l.calls("the end of another's allocation", func(ctx context.Context) error {
			if err := reports(ended)(ctx); err != nil {
				return err
			}
			l.m.eventually("the server to say whose report it left out", func() bool {
				return l.m.logged("level=WARN", "placed on another node", string(l.id.Node), l.alloc.ID)
			})
			return nil
		}),
		l.calls("a word that is no status", reports(&alloc.Alloc{ID: l.mine, ClientStatus: "stolen"}), string(l.mine),
			"is no status"))
}

// key is the other's volume.
func (l *liar) key() volume.StagingKey {
	return volume.StagingKey{Plugin: "local-csi", ExternalID: l.volume.ExternalID}
}

// ofInventories are reports of what is mounted: what another holds goes on, whatever is said of it.
func (l *liar) ofInventories() method {
	head := uint64(0)
	report := func(ctx context.Context, entries ...volume.InventoryEntry) error {
		for range 2 {
			reply, err := wire.NodeInventory.Call(ctx, l.conn, &wire.InventoryReport{
				NodeIdentity: l.id,
				Full:         true,
				Prev:         head,
				Entries:      entries,
			})
			if err != nil {
				return err
			}
			head = reply.Head
			if !reply.Stale {
				return nil
			}
		}
		return errors.New("it is stale twice")
	}
	name := volume.ID{Namespace: "default", ID: ids.Volume(l.volume.ID)}
	entry := func(is volume.Presence, epoch uint64) volume.InventoryEntry {
		return volume.InventoryEntry{
			StagingKey: l.key(),
			Volume:     name,
			Staging:    is,
			ExpandedTo: 1 << 40,
			Publications: []volume.InventoryPublication{{
				Alloc:    ids.Alloc(l.alloc.ID),
				Epoch:    volume.Epoch{Index: epoch},
				Presence: is,
			}},
		}
	}
	return unary(l, wire.NodeInventory, func(id wire.NodeIdentity) *wire.InventoryReport {
		all := []volume.InventoryEntry{entry(volume.Absent, 1)}
		return &wire.InventoryReport{NodeIdentity: id, Full: true, Entries: all}
	},
		l.calls("another's volume has been unmounted", func(ctx context.Context) error {
			return report(ctx, entry(volume.Absent, 1))
		}),
		l.calls("another's volume is mounted here, too, and then not any more", func(ctx context.Context) error {
			return errors.Join(report(ctx, entry(volume.Present, 1<<40)), report(ctx))
		}),
		l.calls("more than it can hold", func(ctx context.Context) error {
			return report(ctx, make([]volume.InventoryEntry, 20_000)...)
		}, "20000", "at most"))
}

// ofCalls are answers to calls at plugins: nobody asked, and nobody listens.
func (l *liar) ofCalls() method {
	open := func(id wire.NodeIdentity) *wire.ControllerCallsRequest {
		return &wire.ControllerCallsRequest{NodeIdentity: id, Credits: 1 << 30}
	}
	out := stream(l, wire.NodeControllerCalls, open)
	out.lies = []lie{l.calls("the ends of calls that others were asked for", func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := wire.NodeControllerCalls.Open(ctx, l.conn, open(l.id))
		for _, kind := range []string{wire.CallDetach, wire.CallDelete, wire.CallCreate, wire.CallExpand} {
			if err == nil {
				err = s.Send(&wire.ControllerResult{
					Kind:     kind,
					Subject:  "default/" + l.volume.ID,
					Created:  &wire.CreatedVolume{ExternalID: "/etc"},
					Capacity: 1,
				})
			}
		}
		if err == nil {
			err = s.CloseSend()
		}
		if err == nil {
			if _, err = s.Recv(); err != nil && err.Error() == "EOF" {
				err = nil
			}
		}
		return err
	})}
	return out
}

// ofCertificates are requests of certificates for somebody else.
func (l *liar) ofCertificates(token string) []lie {
	asks := func(role trust.Role, id string, shows wire.Secrets) func(context.Context) error {
		return func(ctx context.Context) error {
			key, err := trust.NewKey()
			if err != nil {
				return err
			}
			req, err := trust.NewRequest(trust.Principal{Cluster: l.cluster, Role: role, ID: id}, key)
			if err != nil {
				return err
			}
			_, err = wire.TrustCertify.Call(ctx, l.conn, &wire.CertifyRequest{
				Request: req,
				Token:   shows,
				Address: "127.0.0.1:1",
				Seal:    []byte("seal"),
			})
			return err
		}
	}
	used := wire.Secrets{Values: map[string]string{"token": strings.TrimSpace(l.own.read(l.own.token()))}}
	another := ids.New()
	return []lie{
		l.calls("as a server", asks(trust.Server, "s9", wire.Secrets{}), `server "s9"`, "has not joined"),
		l.calls("as a server, by its own token", asks(trust.Server, "s9", used), token, "node"),
		l.calls("as another node, by its own token", asks(trust.Node, another, used), token, "used"),
		l.calls("as the node beside the server", asks(trust.Node, string(l.victim), used), string(l.victim),
			"an agent that has a server"),
		l.calls("as itself, by another key", asks(trust.Node, string(l.id.Node), wire.Secrets{}),
			string(l.id.Node), "key"),
	}
}

// boasts is what the node says of itself alone: it is taken, and makes it no more than it is.
func (l *liar) boasts() lie {
	return l.calls("registers as more than it is", func(ctx context.Context) error {
		return l.registers(func(r *wire.NodeRegisterRequest) {
			n := r.Info
			n.Name = "another's name"
			n.SchedulingEligibility, n.ReplacedBy = node.Eligible, l.victim
			n.HostVolumes = map[string]*node.HostVolume{"rig": {Name: "rig", Path: "/"}}
			for _, role := range []instance.Role{instance.RoleController, instance.RoleNode} {
				n.CSI = append(n.CSI, &instance.Instance{
					Plugin:      "local-csi",
					Role:        role,
					Alloc:       ids.Alloc(l.alloc.ID),
					Node:        l.victim,
					State:       instance.Ready,
					StorageNode: string(l.victim),
				})
			}
			n.Orphans = []node.Orphan{{Alloc: ids.Alloc(l.alloc.ID), Plugin: true, Plugins: []ids.Plugin{"local-csi"}}}
			r.Seen = lineage.Point{}
			r.Start.Next = l.tried[0]
		})(ctx, l.id)
	})
}
