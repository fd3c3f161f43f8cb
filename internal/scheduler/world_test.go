package scheduler

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
)

// world is a small cluster: the state that Schedule reads, to which plans are applied as the planner would.
type world struct {
	now      time.Time
	index    uint64
	nodes    map[ids.Node]*node.Node
	sorted   []*node.Node
	jobs     map[ids.Job]*job.Job
	versions map[string]*job.Job
	allocs   map[ids.Alloc]*alloc.Alloc
	byNode   map[ids.Node][]ids.Alloc
	evals    map[ids.Eval]*eval.Eval
	volumes  map[volume.ID]*volume.Volume
	claims   map[volume.ClaimKey]*volume.Claim
	deploys  map[ids.Deployment]*deployment.Deployment
	full     map[plugin.ShortageKey]*plugin.Shortage
	evalSeq  int
}

func newWorld() *world {
	return &world{
		now:      time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		index:    10,
		nodes:    map[ids.Node]*node.Node{},
		jobs:     map[ids.Job]*job.Job{},
		versions: map[string]*job.Job{},
		allocs:   map[ids.Alloc]*alloc.Alloc{},
		byNode:   map[ids.Node][]ids.Alloc{},
		evals:    map[ids.Eval]*eval.Eval{},
		volumes:  map[volume.ID]*volume.Volume{},
		claims:   map[volume.ClaimKey]*volume.Claim{},
		deploys:  map[ids.Deployment]*deployment.Deployment{},
		full:     map[plugin.ShortageKey]*plugin.Shortage{},
	}
}

func (w *world) view() View { return View{Jobs: w, Nodes: w, Volumes: w, Deployments: true} }

func (w *world) Deployment(id ids.Deployment) *deployment.Deployment { return w.deploys[id] }

func (w *world) Job(_ ids.Namespace, id ids.Job) *job.Job { return w.jobs[id] }

func versionID(id ids.Job, create, version uint64) string {
	return fmt.Sprintf("%s/%d/%d", id, create, version)
}

func (w *world) JobVersion(_ ids.Namespace, id ids.Job, create, version uint64) *job.Job {
	return w.versions[versionID(id, create, version)]
}

func (w *world) JobAllocs(_ ids.Namespace, id ids.Job) []*alloc.Alloc {
	var out []*alloc.Alloc
	for _, a := range w.allocs {
		if a.Job == id {
			out = append(out, a)
		}
	}
	return out
}

func (w *world) JobEvals(_ ids.Namespace, id ids.Job) []*eval.Eval {
	var out []*eval.Eval
	for _, e := range w.evals {
		if e.Job == id {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *eval.Eval) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (w *world) Nodes() []*node.Node {
	if w.sorted == nil {
		for _, n := range w.nodes {
			w.sorted = append(w.sorted, n)
		}
		slices.SortFunc(w.sorted, func(a, b *node.Node) int { return cmp.Compare(a.ID, b.ID) })
	}
	return w.sorted
}

func (w *world) Groups() iter.Seq[*node.GroupSize] {
	sizes := map[node.Group]int{}
	for _, n := range w.nodes {
		sizes[n.Group()]++
	}
	groups := slices.SortedFunc(maps.Keys(sizes), func(a, b node.Group) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Datacenter, b.Datacenter), order(a.Ready, b.Ready))
	})
	return func(yield func(*node.GroupSize) bool) {
		for _, g := range groups {
			if !yield(&node.GroupSize{Group: g, Nodes: sizes[g]}) {
				return
			}
		}
	}
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (w *world) Of(g node.Group, from ids.Node) iter.Seq[*node.Node] {
	return func(yield func(*node.Node) bool) {
		sorted := w.Nodes()
		at, _ := slices.BinarySearchFunc(sorted, from, func(n *node.Node, id ids.Node) int {
			return cmp.Compare(n.ID, id)
		})
		for _, n := range sorted[at:] {
			if n.Group() == g && !yield(n) {
				return
			}
		}
	}
}

func (w *world) Node(id ids.Node) *node.Node { return w.nodes[id] }

func (w *world) NodeAllocs(id ids.Node) []*alloc.Alloc {
	var out []*alloc.Alloc
	for _, a := range w.byNode[id] {
		out = append(out, w.allocs[a])
	}
	return out
}

func (w *world) Alloc(id ids.Alloc) *alloc.Alloc           { return w.allocs[id] }
func (w *world) Instances(n *node.Node) []*plugin.Instance { return n.CSI }
func (w *world) Volume(id volume.ID) *volume.Volume        { return w.volumes[id] }
func (w *world) Shortage(on ids.Node, k volume.StagingKey, _ string) *plugin.Shortage {
	return w.full[plugin.ShortageKey{Node: on, Plugin: k.Plugin}]
}
func (w *world) Claims(id volume.ID) []*volume.Claim {
	return w.claimsWhere(func(c *volume.Claim) bool { return c.Volume == id })
}
func (w *world) Holdings(id ids.Node) []volume.StagingKey {
	var out []volume.StagingKey
	for _, c := range w.claimsWhere(func(c *volume.Claim) bool { return c.Node == id }) {
		out = append(out, w.volumes[c.Volume].Staging())
	}
	return out
}

func (w *world) claimsWhere(keep func(*volume.Claim) bool) []*volume.Claim {
	var out []*volume.Claim
	for _, c := range w.claims {
		if keep(c) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *volume.Claim) int { return cmp.Compare(a.Alloc, b.Alloc) })
	return out
}

// putNode adds or replaces a node.
func (w *world) putNode(n *node.Node) { w.nodes[n.ID], w.sorted = n, nil }

// register stores a job as the endpoint would.
func (w *world) register(j *job.Job) {
	w.index++
	old := w.jobs[j.ID]
	j.CreateIndex, j.Version = w.index, 0
	if old != nil {
		j.CreateIndex, j.Version = old.CreateIndex, old.Version+1
	}
	w.jobs[j.ID] = j
	w.versions[versionID(j.ID, j.CreateIndex, j.Version)] = j
}

func (w *world) newEval(id ids.Job, trigger string) *eval.Eval {
	w.evalSeq++
	typ := job.TypeService
	if j := w.jobs[id]; j != nil {
		typ = j.Type
	}
	e := &eval.Eval{
		ID:          ids.Eval(fmt.Sprintf("eval-%d", w.evalSeq)),
		Namespace:   ids.DefaultNamespace,
		Job:         id,
		Type:        typ,
		Status:      eval.StatusPending,
		TriggeredBy: trigger,
		Priority:    50,
	}
	w.evals[e.ID] = e
	return e
}

// schedule runs an evaluation and applies its plan.
func (w *world) schedule(e *eval.Eval) (Plan, Explanation) {
	p, x := Schedule(w.view(), e, w.now)
	w.apply(p)
	return p, x
}

func (w *world) apply(p Plan) {
	w.index++
	for _, s := range p.Stop {
		w.stopAlloc(s)
	}
	for _, r := range p.Retry {
		w.change(r.Alloc, func(a *alloc.Alloc) { a.FollowupEval = r.Eval })
	}
	if d := p.Deployment; d != nil {
		w.deploys[d.ID] = d
	}
	for _, a := range p.InPlace {
		w.allocs[a.ID] = a
	}
	for _, pl := range p.Place {
		if pl.Ends != nil {
			w.stopAlloc(*pl.Ends)
		}
		pl.Alloc.CreateIndex = w.index
		w.allocs[pl.Alloc.ID] = pl.Alloc
		w.byNode[pl.Alloc.Node] = append(w.byNode[pl.Alloc.Node], pl.Alloc.ID)
		if pl.Alloc.PreviousAlloc != "" {
			w.change(pl.Alloc.PreviousAlloc, func(a *alloc.Alloc) { a.NextAlloc = pl.Alloc.ID })
		}
		for _, c := range pl.Claims {
			w.take(c)
		}
	}
	for _, e := range append(p.Evals, p.Eval) {
		w.evals[e.ID] = e
	}
}

func (w *world) take(c *volume.Claim) {
	w.claims[c.Key()] = c
	w.volumes[c.Volume] = w.volumes[c.Volume].UsedAs(c)
}

// change edits a copy of an alloc.
func (w *world) change(id ids.Alloc, edit func(*alloc.Alloc)) {
	if old := w.allocs[id]; old != nil {
		n := *old
		edit(&n)
		w.allocs[id] = &n
	}
}

func (w *world) stopAlloc(s Stop) {
	w.change(s.Alloc, func(a *alloc.Alloc) {
		a.DesiredStatus, a.DesiredDescription = alloc.DesiredStop, s.Description
		if s.Lost {
			a.ClientStatus = alloc.ClientLost
		}
	})
	for k, c := range w.claims {
		switch {
		case c.Alloc != s.Alloc:
		case c.State == volume.Queued:
			delete(w.claims, k)
		case s.Lost:
			n := *c
			n.State = volume.Releasing
			w.claims[k] = &n
		}
	}
}

// end lets an alloc's processes end, as its node reports it.
func (w *world) end(id ids.Alloc, status string) {
	w.change(id, func(a *alloc.Alloc) {
		a.ClientStatus, a.ModifyTime = status, w.now.UnixNano()
	})
}

// release begins the end of an alloc's claims: its processes are gone.
func (w *world) release(id ids.Alloc) {
	for k, c := range w.claims {
		switch {
		case c.Alloc != id:
		case c.State == volume.Queued:
			delete(w.claims, k)
		case c.State == volume.Held:
			n := *c
			n.State = volume.Releasing
			w.claims[k] = &n
		}
	}
}

// released ends the claims of an alloc; queued ones behind become held, and a volume without claims has no mode.
func (w *world) released(id ids.Alloc) {
	for k, c := range w.claims {
		if c.Alloc != id {
			continue
		}
		delete(w.claims, k)
		rest := w.Claims(c.Volume)
		for _, q := range rest {
			as, _ := volume.Admit(q, rest, func(ids.Alloc) bool { return true })
			if q.State == volume.Queued && as == volume.Held {
				n := *q
				n.State = volume.Held
				w.claims[q.Key()] = &n
			}
		}
		if len(rest) == 0 {
			w.volumes[c.Volume] = w.volumes[c.Volume].Unused()
		}
	}
}

// live lists the allocs of a job that the servers want and that have not ended, by name.
func (w *world) live(id ids.Job) []*alloc.Alloc {
	var out []*alloc.Alloc
	for _, a := range w.JobAllocs("", id) {
		if !a.Terminal() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *alloc.Alloc) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.JobVersion, b.JobVersion))
	})
	return out
}

// blocked are the evaluations of a job that wait.
func (w *world) blocked(id ids.Job) []*eval.Eval {
	return slices.DeleteFunc(w.JobEvals("", id), func(e *eval.Eval) bool { return e.Status != eval.StatusBlocked })
}

// failer is a test, rapid's too.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// check fails the test when what must always hold does not: room is never exceeded, an exclusive volume has one holder
// and at most one in the queue, ports belong to one.
func (w *world) check(t failer) {
	t.Helper()
	for _, n := range w.Nodes() {
		var cpu, mem int64
		ports := map[int]ids.Alloc{}
		for _, a := range w.NodeAllocs(n.ID) {
			if a.Terminal() {
				continue
			}
			c, m, _ := a.Resources.Total()
			cpu, mem = cpu+c, mem+m
			for _, p := range a.Resources.Ports {
				if by, taken := ports[p.Value]; taken {
					t.Fatalf("port %d of node %s was given to %s and %s", p.Value, n.ID, by, a.ID)
				}
				ports[p.Value] = a.ID
			}
		}
		if cpu > n.Resources.CPUShares-n.Reserved.CPUShares || mem > n.Resources.MemoryMB-n.Reserved.MemoryMB {
			t.Fatalf("node %s has %d MHz and %d MB, its allocs got %d and %d", n.ID, n.Resources.CPUShares,
				n.Resources.MemoryMB, cpu, mem)
		}
	}
	for id := range w.volumes {
		held := 0
		queued := 0
		writers := 0
		on := map[ids.Node]bool{}
		for _, c := range w.Claims(id) {
			if c.State == volume.Queued {
				queued++
				continue
			}
			held++
			on[c.Node] = true
			if !c.ReadOnly {
				writers++
			}
		}
		switch mode := w.volumes[id].Status.AccessMode; {
		case queued > 1:
			t.Fatalf("volume %s has %d queued claims", id, queued)
		case mode == volume.SingleNodeWriter && held > 1:
			t.Fatalf("volume %s is %s and has %d holders", id, mode, held)
		case mode.SingleNode() && len(on) > 1:
			t.Fatalf("volume %s is %s and has holders on %d nodes", id, mode, len(on))
		case mode == volume.MultiNodeSingleWriter && writers > 1:
			t.Fatalf("volume %s has %d writers", id, writers)
		}
	}
}

func testNode(id string) *node.Node {
	return &node.Node{
		ID:                    ids.Node(id),
		Name:                  id,
		Datacenter:            "dc1",
		Status:                node.StatusReady,
		SchedulingEligibility: node.Eligible,
		Attributes:            map[string]string{"kernel.name": "linux"},
		Meta:                  map[string]string{},
		Drivers: map[string]*node.Driver{"exec": {Detected: true, Healthy: true},
			"raw_exec": {Detected: true, Healthy: true, NoMounts: true}},
		Resources: node.Resources{CPUShares: 4000, MemoryMB: 8192, DiskMB: 100000, IP: "127.0.0.1"},
	}
}

func testJob(id string, count int) *job.Job {
	return &job.Job{
		Namespace:   ids.DefaultNamespace,
		ID:          ids.Job(id),
		Name:        id,
		Type:        job.TypeService,
		Priority:    50,
		Datacenters: []string{"*"},
		NodePool:    "default",
		TaskGroups: []*job.TaskGroup{{
			Name:          "g",
			Count:         count,
			EphemeralDisk: &job.EphemeralDisk{SizeMB: 10},
			Tasks: []*job.Task{{
				Name:      "t",
				Driver:    "exec",
				Resources: &job.Resources{CPU: 100, MemoryMB: 100},
				Config:    map[string]any{"command": "/bin/a"},
			}},
			ReschedulePolicy: &job.ReschedulePolicy{
				Unlimited:     true,
				Delay:         30 * time.Second,
				DelayFunction: "exponential",
				MaxDelay:      time.Hour,
			},
			Update: &job.UpdateStrategy{MaxParallel: 1},
		}},
	}
}

func testVolume(id string, mode volume.AccessMode) *volume.Volume {
	return &volume.Volume{ID: volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(id)},
		Spec: volume.Spec{
			Plugin:       "p",
			Capabilities: []volume.Capability{{AccessMode: mode, AttachmentMode: volume.FileSystem}},
		},
		Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x-" + id}}
}

func nodePlugin(n *node.Node, slots int64, segments map[string]string) {
	i := &plugin.Instance{
		Plugin:     "p",
		Role:       plugin.RoleNode,
		Node:       n.ID,
		State:      plugin.Ready,
		MaxVolumes: slots,
	}
	if segments != nil {
		i.Topology = &plugin.Topology{Segments: segments}
	}
	n.CSI = append(n.CSI, i)
}

func useVolume(j *job.Job, source string, mode volume.AccessMode, edit ...func(*job.VolumeRequest)) {
	r := &job.VolumeRequest{
		Name:           "data",
		Type:           job.VolumeTypeCSI,
		Source:         source,
		AccessMode:     string(mode),
		AttachmentMode: string(volume.FileSystem),
	}
	for _, e := range edit {
		e(r)
	}
	g := j.TaskGroups[0]
	g.Volumes = map[string]*job.VolumeRequest{"data": r}
	g.Tasks[0].VolumeMounts = []*job.VolumeMount{{Volume: "data", Destination: "/data"}}
}

func names(list []*alloc.Alloc) string {
	var out []string
	for _, a := range list {
		out = append(out, a.Name+"@"+string(a.Node))
	}
	return strings.Join(out, " ")
}
