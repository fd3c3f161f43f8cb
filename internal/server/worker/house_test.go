package worker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
	"berth/internal/testkit/pluginjobs"
)

// house is a cluster whose evaluations are scheduled. Everything happens in a bubble with its own time: settle waits
// until nothing moves any more.
type house struct {
	*localstate.Cluster
	t    *testing.T
	s    *Scheduling
	stop func()
}

func inHouse(t *testing.T, story func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &house{Cluster: localstate.New(t), t: t}
		h.lead(h.Cluster)
		story(t, h)
		h.stop()
	})
}

// lead begins a term of the scheduling; stop ends it.
func (h *house) lead(p fsm.Proposer) {
	h.s = New(h.Store, p, 2, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.s.Run(ctx) }()
	h.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("scheduling ended with %v", err)
		}
	}
}

func (h *house) settle() *state.Snap {
	synctest.Wait()
	snap := h.Store.Snapshot()
	h.check(snap)
	return snap
}

func (h *house) node(name string, edit ...func(*node.Node)) ids.Node {
	n := &node.Node{
		ID:         ids.Node(name),
		Name:       name,
		Datacenter: "dc1",
		SecretHash: "h",
		Attributes: map[string]string{},
		Meta:       map[string]string{},
		Drivers:    map[string]*node.Driver{"exec": {Detected: true, Healthy: true}},
		Resources:  node.Resources{CPUShares: 1000, MemoryMB: 1000, DiskMB: 10000, IP: "127.0.0.1"},
	}
	for _, e := range edit {
		e(n)
	}
	pluginjobs.Name(n)
	h.Must(h.t, &fsm.NodeRegister{Node: n, Seed: ids.New()})
	pluginjobs.Place(h.t, h, h.Store.Snapshot, n.ID, n.CSI)
	return n.ID
}

func withPlugin(slots int64) func(*node.Node) {
	return func(n *node.Node) {
		n.CSI = []*plugin.Instance{{
			Plugin:     "p",
			Role:       plugin.RoleNode,
			Node:       n.ID,
			State:      plugin.Ready,
			MaxVolumes: slots,
		}}
	}
}

func (h *house) volume(id string, phase volume.Phase) volume.ID {
	v := &volume.Volume{ID: volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(id)}, UID: ids.New(),
		Spec: volume.Spec{
			Plugin:       "p",
			Capabilities: []volume.Capability{{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}},
		},
		Status: volume.Status{Phase: phase, ExternalID: "x-" + id}}
	seen := uint64(0)
	if old := h.Store.Snapshot().Volume(nil, v.ID); old != nil {
		seen = old.ModifyIndex
	}
	h.Must(h.t, &fsm.VolumePut{Volume: v, Seen: seen})
	return v.ID
}

func service(id string, count int) *job.Job {
	return &job.Job{
		Namespace:   ids.DefaultNamespace,
		ID:          ids.Job(id),
		Name:        id,
		Type:        job.TypeService,
		Priority:    50,
		Datacenters: []string{"*"},
		NodePool:    "default",
		TaskGroups: []*job.TaskGroup{{
			Name:  "g",
			Count: count,
			Tasks: []*job.Task{{
				Name:      "t",
				Driver:    "exec",
				Resources: &job.Resources{CPU: 100, MemoryMB: 100},
			}},
			ReschedulePolicy: &job.ReschedulePolicy{
				Unlimited:     true,
				Delay:         30 * time.Second,
				DelayFunction: "constant",
			},
			Update: &job.UpdateStrategy{MaxParallel: 1},
		}},
	}
}

func onVolume(j *job.Job, source string) *job.Job {
	j.TaskGroups[0].Volumes = map[string]*job.VolumeRequest{"data": {
		Name:           "data",
		Type:           job.VolumeTypeCSI,
		Source:         source,
		AccessMode:     string(volume.SingleNodeWriter),
		AttachmentMode: string(volume.FileSystem),
	}}
	return j
}

func (h *house) register(j *job.Job) *eval.Eval {
	return h.Must(h.t, &fsm.JobRegister{Job: j, Seed: ids.New()}).(*fsm.JobRegistered).Eval
}

func (h *house) deregister(id string) {
	h.Must(h.t, &fsm.JobDeregister{Namespace: ids.DefaultNamespace, Job: ids.Job(id), Seed: ids.New()})
}

// report plays a node that tells of an alloc.
func (h *house) report(a *alloc.Alloc, status string) {
	state := &alloc.TaskState{State: alloc.TaskDead, FinishedAt: time.Now()}
	if status == alloc.ClientRunning {
		state = &alloc.TaskState{State: alloc.TaskRunning, StartedAt: time.Now()}
	}
	h.Must(h.t, &fsm.AllocClientUpdate{
		Seed: ids.New(),
		Allocs: []*alloc.Alloc{{ID: a.ID, Node: a.Node, ClientStatus: status,
			TaskStates: map[string]*alloc.TaskState{"t": state}}},
	})
}

// runsWell plays a node whose alloc runs, and the keeper of health who says that it is well.
func (h *house) runsWell(a *alloc.Alloc) {
	h.report(a, alloc.ClientRunning)
	seen := h.Store.Snapshot().Alloc(nil, a.ID).ModifyIndex
	h.Must(h.t, &fsm.AllocHealth{
		Seed:      ids.New(),
		Decisions: []fsm.HealthDecision{{Alloc: a.ID, Seen: seen, Healthy: true}},
	})
}

// release ends what an alloc holds, as the keeper of claims does when the node has released it.
func (h *house) release(a *alloc.Alloc) {
	for c := range h.Store.Snapshot().ClaimsByAlloc(nil, a.ID) {
		h.Must(h.t, &fsm.ClaimProof{Claim: c.Key(), Epoch: c.Epoch, Proof: volume.ProofReleased})
	}
}

// live lists the allocs of a job that are wanted and have not ended.
func live(s *state.Snap, id string) []*alloc.Alloc {
	var out []*alloc.Alloc
	for a := range s.AllocsByJob(nil, ids.DefaultNamespace, ids.Job(id)) {
		if !a.Terminal() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *alloc.Alloc) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (h *house) one(id string) *alloc.Alloc {
	h.t.Helper()
	got := live(h.settle(), id)
	if len(got) != 1 {
		h.t.Fatalf("job %s has %d allocs: %s", id, len(got), h.why(id))
	}
	return got[0]
}

// why tells what the job's evaluations say.
func (h *house) why(id string) string {
	var out []string
	for e := range h.Store.Snapshot().EvalsByJob(nil, ids.DefaultNamespace, ids.Job(id)) {
		line := fmt.Sprintf("%s %s %q", e.Status, e.TriggeredBy, e.StatusDescription)
		for _, m := range e.FailedTGAllocs {
			for _, r := range m.Reasons {
				line += "; " + r.Name + ": " + r.Reason
			}
		}
		out = append(out, line)
	}
	return strings.Join(out, " | ")
}

func blocked(s *state.Snap, id string) []*eval.Eval {
	var out []*eval.Eval
	for e := range s.EvalsByJob(nil, ids.DefaultNamespace, ids.Job(id)) {
		if e.Status == eval.StatusBlocked {
			out = append(out, e)
		}
	}
	return out
}

// check is what holds at every moment.
func (h *house) check(s *state.Snap) {
	h.t.Helper()
	for n := range s.Nodes(nil, "") {
		var cpu int64
		ports := map[int]ids.Alloc{}
		for a := range s.AllocsByNode(nil, n.ID) {
			if a.Terminal() {
				continue
			}
			c, _, _ := a.Resources.Total()
			cpu += c
			for _, p := range a.Resources.Ports {
				if ports[p.Value] != "" {
					h.t.Fatalf("port %d of %s is given to two allocs", p.Value, n.ID)
				}
				ports[p.Value] = a.ID
			}
		}
		if cpu > n.Resources.CPUShares {
			h.t.Fatalf("node %s has %d MHz and gave %d away", n.ID, n.Resources.CPUShares, cpu)
		}
	}
	for v := range s.Volumes(nil, ids.DefaultNamespace, "") {
		held, queued := 0, 0
		for c := range s.ClaimsOf(nil, v.Staging()) {
			if c.State == volume.Queued {
				queued++
			} else {
				held++
			}
		}
		if held > 1 || queued > 1 {
			h.t.Fatalf("volume %s has %d holders and %d waiting", v.ID, held, queued)
		}
	}
}
