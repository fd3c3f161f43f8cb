package keepers

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/endpoint"
	"berth/internal/server/fsm"
	"berth/internal/wire"
)

// command runs one line of a story.
//
//	node n1 [plugin=p] [lists=no] [scope=node]   one with both roles of a plugin joins and reports nothing
//	disconnect|connect|down n1        its stream of calls ends, or begins anew; it is found dead
//	reconnect n1                      its stream begins anew before the one before has ended
//	report n1 [v1]                    all that a node holds: nothing, or one volume staged
//	create|delete|expand|snapshot|delete-snapshot v1 [size=N] [wait=D] [clone=v0]   what a user asks
//	claim v1 a1 n1 [state=queued]     an alloc is placed with a claim
//	end a1                            it ends
//	answer KIND v1 HOW...             how the provider answers the next calls; hold: not before "finish KIND v1"
//	forgets v1, has v1 [n1]           the provider lost it, or has it
//	leader lost|back                  the term of leadership ends; a new one begins
//	wait D                            time goes by
func (w *world) command(name string, words []string) error {
	if err := need(words, 1); err != nil {
		return err
	}
	switch first := words[0]; name {
	case "node":
		return w.join(ids.Node(first), words[1:])
	case "connect":
		return w.connect(ids.Node(first))
	case "reconnect":
		before := w.streams[ids.Node(first)]
		err := w.connect(ids.Node(first))
		synctest.Wait() // the servers have it
		before()
		return err
	case "disconnect":
		w.streams[ids.Node(first)]()
	case "down":
		w.c.Must(w.t, &fsm.NodeStatus{Nodes: []ids.Node{ids.Node(first)}, Status: node.StatusDown})
	case "report":
		return w.report(ids.Node(first), words[1:])
	case "claim":
		return w.claim(words)
	case "end":
		return w.end(ids.Alloc(first))
	case "leader":
		if w.follow(); first == "back" {
			w.lead()
		}
	case "wait":
		d, err := time.ParseDuration(first)
		time.Sleep(d)
		return err
	case "answer", "finish", "forgets", "has":
		return w.script(name, words)
	default:
		return w.ask(name, first, words[1:])
	}
	return nil
}

// script tells the provider what to do.
func (w *world) script(name string, words []string) error {
	p := w.provider
	if name == "finish" {
		return p.finish(strings.Join(words, " "))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch name {
	case "answer":
		p.answers[words[0]+" "+words[1]] = words[2:]
	case "forgets":
		delete(p.volumes, "x-"+words[0])
		delete(p.snaps, "s-x-"+words[0])
	case "has":
		p.volumes["x-"+words[0]] = words[1:]
	}
	return nil
}

// secretOf is what a node shows.
func secretOf(id ids.Node) string { return "secret of " + string(id) }

func (w *world) join(id ids.Node, words []string) error {
	p, now := ids.Plugin(option(words, "plugin", "p")), time.Now()
	lists := option(words, "lists", "yes") == "yes"
	scope := plugin.Scope(option(words, "scope", string(plugin.ScopeCluster)))
	caps := plugin.Capabilities{
		ControllerService:  true,
		CreateDelete:       true,
		Attach:             true,
		ListVolumes:        lists,
		ListPublishedNodes: lists,
		CreateSnapshot:     true,
		Clone:              true,
		ListSnapshots:      lists,
		ControllerExpand:   true,
		ExpandOnline:       true,
		NodeExpand:         true,
	}
	instance := func(role plugin.Role) *plugin.Instance {
		return &plugin.Instance{
			Plugin:       p,
			Role:         role,
			Node:         id,
			State:        plugin.Ready,
			Scope:        scope,
			Capabilities: caps,
			StorageNode:  string(id),
			Updated:      now,
		}
	}
	w.c.Must(w.t, &fsm.NodeRegister{Node: &node.Node{
		ID:         id,
		Name:       string(id),
		SecretHash: endpoint.HashSecret(secretOf(id)),
		CSI:        []*plugin.Instance{instance(plugin.RoleController), instance(plugin.RoleNode)},
	}})
	if err := w.report(id, nil); err != nil {
		return err
	}
	return w.connect(id)
}

func (w *world) identity(id ids.Node) wire.NodeIdentity {
	return wire.NodeIdentity{Node: id, Secret: wire.Secrets{Values: map[string]string{"id": secretOf(id)}}}
}

func (w *world) connect(id ids.Node) error {
	g, ctx := lifecycle.NewGroup(w.t.Context())
	req := &wire.ControllerCallsRequest{NodeIdentity: w.identity(id)}
	stream, err := wire.NodeControllerCalls.Open(ctx, w.conn, req)
	if err != nil {
		return err
	}
	g.Go("calls of "+string(id), func() error { return w.provider.serve(ctx, id, stream) })
	w.streams[id] = g.Stop
	return nil
}

func (w *world) report(id ids.Node, staged []string) error {
	s := w.c.Store.Snapshot()
	req := &wire.InventoryReport{NodeIdentity: w.identity(id), Full: true, At: s.Point(nil)}
	if h := s.InventoryHead(nil, id); h != nil {
		req.Prev = h.ModifyIndex
	}
	for _, name := range staged {
		vol := s.Volume(nil, idOf(name))
		req.Entries = append(req.Entries, volume.InventoryEntry{
			StagingKey: volume.StagingKey{Plugin: vol.Spec.Plugin, ExternalID: vol.Status.ExternalID},
			Volume:     vol.ID,
			Staging:    volume.Present,
			Step:       "unmounting",
		})
	}
	reply, err := wire.NodeInventory.Call(w.t.Context(), w.conn, req)
	if err == nil && reply.Stale {
		err = fmt.Errorf("the report is refused as late: %+v", reply)
	}
	return err
}

func idOf(name string) volume.ID {
	return volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(name)}
}

// claim commits an alloc of a job of its own with its claim, as the planner would.
func (w *world) claim(words []string) error {
	if err := need(words, 3); err != nil {
		return err
	}
	id := idOf(words[0])
	a := ids.Alloc(words[1])
	on := ids.Node(words[2])
	state := volume.ClaimState(option(words, "state", string(volume.Held)))
	w.c.Must(w.t, &fsm.JobRegister{Seed: ids.New(), Job: &job.Job{
		Namespace: ids.DefaultNamespace,
		ID:        ids.Job("job-" + words[1]),
		Type:      job.TypeService,
		Priority:  50,
		TaskGroups: []*job.TaskGroup{
			{Name: "g", Count: 1, Tasks: []*job.Task{{Name: "t", Driver: "exec"}}},
		},
	}})
	j := w.c.Store.Snapshot().Job(nil, ids.DefaultNamespace, ids.Job("job-"+words[1]))
	w.c.Must(w.t, &fsm.PlanApply{
		Place: []*alloc.Alloc{{
			ID:             a,
			Namespace:      j.Namespace,
			Job:            j.ID,
			JobVersion:     j.Version,
			JobCreateIndex: j.CreateIndex,
			JobType:        j.Type,
			TaskGroup:      "g",
			Name:           string(j.ID) + ".g[0]",
			Node:           on,
		}},
		Claims: []*volume.Claim{{
			Volume:         id,
			Alloc:          a,
			Node:           on,
			Job:            j.ID,
			AccessMode:     volume.SingleNodeWriter,
			AttachmentMode: volume.FileSystem,
			State:          state,
		}},
	})
	return nil
}

func (w *world) end(id ids.Alloc) error {
	a := w.c.Store.Snapshot().Alloc(nil, id)
	if a == nil {
		return fmt.Errorf("there is no alloc %s", id)
	}
	w.c.Must(w.t, &fsm.AllocClientUpdate{
		Seed:   ids.New(),
		Allocs: []*alloc.Alloc{{ID: id, Node: a.Node, ClientStatus: alloc.ClientComplete}},
	})
	return nil
}

// ask calls an endpoint as a user does, and tells the answer when it comes.
func (w *world) ask(name, vol string, words []string) error {
	wait, err := time.ParseDuration(option(words, "wait", "1h"))
	if err != nil {
		return err
	}
	size, err := strconv.ParseInt(option(words, "size", "1000"), 10, 64)
	if err != nil {
		return err
	}
	call := w.request(name, idOf(vol), ids.Plugin(option(words, "plugin", "p")), size, wait, option(words, "clone", ""))
	if call == nil {
		return fmt.Errorf("no such command")
	}
	w.users.Go(name, func() error {
		outcome, err := call(w.t.Context())
		if w.t.Context().Err() != nil {
			return nil // the story is over
		}
		if err != nil {
			outcome = err.Error()
		}
		w.tell(event{volume: vol, answer: fmt.Sprintf("user, %s %s: %s", name, vol, outcome)})
		return nil
	})
	return nil
}

// request is what a user asks, with what came of it in a word; nil: users cannot ask that.
func (w *world) request(
	name string, id volume.ID, p ids.Plugin, size int64, wait time.Duration, clone string,
) func(context.Context) (string, error) {
	switch name {
	case "create":
		spec := volume.Spec{
			Plugin:       p,
			CapacityMin:  size,
			CloneID:      clone,
			Capabilities: []volume.Capability{{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}},
		}
		return outcomeOf(w, wire.VolumeCreate, &wire.VolumeWriteRequest{Volume: id, Spec: spec, Wait: wait})
	case "expand":
		return outcomeOf(w, wire.VolumeExpand, &wire.VolumeExpandRequest{Volume: id, Min: size, Wait: wait})
	case "delete":
		return outcomeOf(w, wire.VolumeDelete, &wire.VolumeDeleteRequest{Volume: id, Wait: wait})
	case "snapshot":
		return outcomeOf(w, wire.SnapshotCreate, &wire.SnapshotCreateRequest{Volume: id, Wait: wait})
	case "delete-snapshot":
		return outcomeOf(w, wire.SnapshotDelete, &wire.SnapshotDeleteRequest{
			Namespace:  id.Namespace,
			Plugin:     p,
			SnapshotID: "s-x-" + string(id.ID),
			Wait:       wait,
		})
	}
	return nil
}

func outcomeOf[Req, Resp any](w *world, m wire.Method[Req, Resp], req *Req) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		reply, err := m.Call(ctx, w.conn, req)
		if r, ok := any(reply).(*wire.VolumeWriteReply); ok && err == nil {
			return r.Outcome, nil
		}
		return "done", err
	}
}
