package keepers

import (
	"fmt"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/collection"
	"berth/internal/wire"
)

// command runs one line of a story.
//
//	node n1 [plugin=p] [provider=a] [lists=no] [scope=node] [version=1] [state=failing] [controller=no]   one with
//	                                  both roles of a plugin joins and reports nothing
//	serves n1 b                       another provider serves its plugins
//	rebind p b                        a person hands the plugin's volumes over
//	disconnect|connect|down n1        its stream of calls ends, or begins anew; it is found dead
//	collect n1                        it is forgotten, if nothing names it
//	failing|bare n1                   its controllers fail; it runs no plugin any more
//	reconnect n1                      its stream begins anew before the one before has ended
//	report n1 [v1]                    all that a node holds: nothing, or one volume staged
//	create|delete|expand|snapshot|delete-snapshot|forget v1 [size=N] [wait=D] [clone=v0]   what a user asks
//	snapshot v1 [name=s] [following=yes]   the latter asks what came of the same before
//	create v1 [max=N] [secrets=yes] [from=snapshot] [fs=xfs] [in=n1] [required=n1]
//	register v1 [zone=a]              what the provider has is registered, anew with another context
//	attest v1 n1                      a person vouches that a node is dead
//	claim v1 a1 n1 [state=queued] [mode=single-node-reader-only] [fs=xfs]   an alloc is placed with a claim
//	stop a1                           its job is asked to stop
//	end a1                            it ends
//	answer KIND v1 HOW...             how the provider answers the next calls; hold: not before "finish KIND v1 [HOW]";
//	                                  deaf: nor when the call is withdrawn
//	forgets v1, has v1 [n1]           the provider lost it, or has it
//	left N [max=M]                    the provider has N bytes left, and at most M for a volume
//	keys lost|back                    nobody can open secrets; everybody can again
//	disk full|back                    the keepers can write nothing down; they can again
//	job j v1 v2 [on=NODE]             a job is registered that brings these volumes, and may run on that node alone
//	leader lost|back                  the term of leadership ends; a new one begins
//	look KIND v1|grant a1|plugin p    what the last such call was made with; what a node receives to mount with;
//	                                  what is known of a plugin
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
	case "failing":
		w.changeInstances(ids.Node(first), failing)
	case "serves":
		return w.serves(ids.Node(first), words[1:])
	case "bare":
		w.changeInstances(ids.Node(first), gone)
	case "down":
		w.c.Must(w.t, &fsm.NodeStatus{Nodes: []ids.Node{ids.Node(first)}, Status: node.StatusDown})
	case "collect":
		w.c.Must(w.t, &collection.Collect{Nodes: []ids.Node{ids.Node(first)}})
	case "report":
		return w.report(ids.Node(first), words[1:])
	case "claim":
		return w.claim(words)
	case "end":
		return w.end(ids.Alloc(first))
	case "stop":
		w.c.Must(w.t, &fsm.JobDeregister{
			Namespace: ids.DefaultNamespace,
			Job:       ids.Job("job-" + first),
			Seed:      ids.New(),
		})
	case "job":
		return w.job(first, words[1:])
	case "leader":
		if w.follow(); first == "back" {
			w.lead()
		}
	case "wait":
		d, err := time.ParseDuration(first)
		time.Sleep(d)
		return err
	case "look":
		if err := need(words, 2); err != nil {
			return err
		}
		return w.look(first, words[1])
	case "answer", "finish", "forgets", "has", "left", "keys", "disk":
		return w.script(name, words)
	default:
		return w.ask(name, first, words[1:])
	}
	return nil
}

// serves has another provider serve the plugins of a node.
func (w *world) serves(id ids.Node, words []string) error {
	if err := need(words, 1); err != nil {
		return err
	}
	w.changeInstances(id, func(i plugin.Instance) *plugin.Instance {
		i.Provider, i.Updated = words[0], time.Now()
		return &i
	})
	return nil
}

// script tells the provider, or the store of secrets, what to do.
func (w *world) script(name string, words []string) error {
	p := w.provider
	if err := known(name, words); err != nil {
		return err
	}
	if name == "keys" || name == "disk" {
		w.mu.Lock()
		defer w.mu.Unlock()
		if name == "keys" {
			w.keyless = words[0] == "lost"
		} else {
			w.full = words[0] == "full"
		}
		return nil
	}
	if name == "left" {
		return w.left(words)
	}
	if name == "finish" {
		if err := need(words, 2); err != nil {
			return err
		}
		return p.finish(words[0]+" "+words[1], strings.Join(append(words[2:], "ok")[:1], ""))
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

// left says what the provider has left.
func (w *world) left(words []string) error {
	available, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return err
	}
	most, err := strconv.ParseInt(option(words, "max", "0"), 10, 64)
	w.provider.mu.Lock()
	defer w.provider.mu.Unlock()
	w.provider.left = wire.CapacityReply{Available: available, MaximumVolume: most}
	return err
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
		TaskGroups: []*job.TaskGroup{{
			Name:  "g",
			Count: 1,
			Tasks: []*job.Task{{Name: "t", Driver: "exec"}},
			Volumes: map[string]*job.VolumeRequest{"data": {
				Name:   "data",
				Type:   job.VolumeTypeCSI,
				Source: words[0],
			}},
		}},
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
			AccessMode:     volume.AccessMode(option(words, "mode", string(volume.SingleNodeWriter))),
			AttachmentMode: volume.FileSystem,
			MountOptions:   mountedAs(words),
			ReadOnly:       option(words, "mode", "") == string(volume.SingleNodeReader),
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
