package partitioning_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/partition"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/partitioning"
	"berth/internal/server/partitions"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

func put(name ids.Namespace) *partitioning.NamespacePut {
	return &partitioning.NamespacePut{Namespace: &partition.Namespace{Name: name}}
}

func pool(name string) *partitioning.NodePoolPut {
	return &partitioning.NodePoolPut{Pool: &partition.NodePool{Name: name}}
}

func web(ns ids.Namespace) *job.Job {
	return &job.Job{
		Namespace:  ns,
		ID:         "web",
		Type:       job.TypeService,
		NodePool:   "default",
		TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1, Tasks: []*job.Task{{Name: "t", Driver: "exec"}}}},
	}
}

func refused(t *testing.T, c *localstate.Cluster, what string, cmd fsm.Command, want fault.Kind, says ...string) {
	t.Helper()
	_, _, err := c.Propose(t.Context(), cmd)
	for _, text := range says {
		if !fault.Has(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %s with %q", what, err, want, text)
		}
	}
}

// write changes the state as nobody could by a command alone.
func write(t *testing.T, c *localstate.Cluster, fn func(tx *state.Tx)) {
	t.Helper()
	at := c.Store.Snapshot().Stamp()
	if err := c.Store.Write(at, func(tx *state.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

// Given a namespace, when it is written again, then its create index stays, and what says the same changes nothing;
// neither built-in one is deleted, and the reserved one is not changed.
func TestANamespaceIsWrittenAndDeleted(t *testing.T) {
	c := localstate.New(t)
	c.Must(t, put("app"))
	first := *c.Store.Snapshot().Namespace(nil, "app")
	c.Must(t, put("app"))
	if again := c.Store.Snapshot().Namespace(nil, "app"); again.ModifyIndex != first.ModifyIndex {
		t.Errorf("the same again: modified at %d, was %d", again.ModifyIndex, first.ModifyIndex)
	}
	changed := put("app")
	changed.Namespace.Description = "the shop"
	c.Must(t, changed)
	now := c.Store.Snapshot().Namespace(nil, "app")
	if now.CreateIndex != first.CreateIndex || now.ModifyIndex <= first.ModifyIndex || now.Description != "the shop" {
		t.Errorf("changed: %+v, was %+v", now, first)
	}
	refused(t, c, "the reserved one", put("berth"), fault.Invalid, "nobody changes it")
	refused(t, c, "a bad name", put("a/b"), fault.Invalid, "its name: ")
	lost := put("app")
	lost.Namespace.Pools = &partition.PoolRules{Default: "gpu"}
	refused(t, c, "a default pool that is not there", lost, fault.Invalid, `"gpu" does not exist`,
		"berth node pool apply gpu")
	for _, name := range []ids.Namespace{"default", "berth"} {
		refused(t, c, "the end of "+string(name), &partitioning.NamespaceDelete{Name: name}, fault.Invalid,
			"every cluster has it")
	}
	refused(t, c, "the end of none", &partitioning.NamespaceDelete{Name: "none"}, fault.Conflict, "namespace not found")
	c.Must(t, &partitioning.NamespaceDelete{Name: "app"})
	if c.Store.Snapshot().Namespace(nil, "app") != nil {
		t.Error("it is still there")
	}
	refused(t, c, "a job in it", &fsm.JobRegister{Job: web("app"), Seed: "s"}, fault.NotFound,
		`namespace "app" does not exist`, "berth namespace apply")
	refused(t, c, "a volume in it", &fsm.VolumePut{Volume: &volume.Volume{ID: volume.ID{Namespace: "app", ID: "v"}}},
		fault.NotFound, `namespace "app" does not exist`)
}

// Given a namespace with something in it, when it is to be deleted, then what is in the way is named by its kind and
// name, with the way out, one kind after the other; and when all is over, nothing of it is left.
func TestANamespaceInUseIsNotDeleted(t *testing.T) {
	c := localstate.New(t)
	c.Must(t, put("app"))
	c.Must(t, put("apps"))
	c.Must(t, &fsm.JobRegister{Job: web("app"), Seed: "1"})
	c.Must(t, &fsm.JobRegister{Job: web("apps"), Seed: "2"})
	end := &partitioning.NamespaceDelete{Name: "app"}
	inUse := func(says ...string) {
		t.Helper()
		refused(t, c, "its end", end, fault.Busy, append(says, `delete namespace "app"`)...)
	}
	inUse("has non-terminal jobs: web", "berth job stop -namespace app web")

	c.Must(t, &fsm.JobDeregister{Namespace: "app", Job: "web", Seed: "3"})
	inUse("has non-terminal jobs: web") // what is to become of it is not decided yet
	done := func() {
		write(t, c, func(tx *state.Tx) {
			for _, e := range slices.Collect(tx.EvalsByJob(nil, "app", "web")) {
				n := *e
				n.Status = eval.StatusComplete
				tx.PutEval(&n)
			}
		})
	}
	done()
	a := &alloc.Alloc{
		ID:             "a0000000-0000-4000-8000-000000000001",
		Namespace:      "app",
		Job:            "web",
		JobCreateIndex: c.Store.Snapshot().Job(nil, "app", "web").CreateIndex,
		Node:           "n",
		NodeName:       "n1",
		DesiredStatus:  alloc.DesiredStop,
		ClientStatus:   alloc.ClientRunning,
	}
	store := func(change func(a *alloc.Alloc)) {
		write(t, c, func(tx *state.Tx) {
			n := *a
			change(&n)
			tx.PutAlloc(&n)
		})
	}
	store(func(*alloc.Alloc) {})
	inUse("has non-terminal allocations: a0000000 on node n1", "wait until")
	write(t, c, func(tx *state.Tx) { tx.PutNode(&node.Node{ID: "n", Name: "n1", Status: node.StatusDown}) })
	store(func(a *alloc.Alloc) { a.ClientStatus = alloc.ClientLost })
	inUse("has non-terminal allocations", "berth node replace") // its tasks may run
	write(t, c, func(tx *state.Tx) { tx.DeleteNode("n") })

	id := volume.ID{Namespace: "app", ID: "data"}
	write(t, c, func(tx *state.Tx) {
		tx.PutVolume(&volume.Volume{ID: id})
		tx.PutVolumeSnapshot(&volume.Snapshot{ID: "s", Name: "nightly", Namespace: "app"})
		tx.PutClaim(&volume.Claim{Volume: id, Alloc: "b0000000"})
	})
	inUse("has volumes: data", "berth volume deregister -namespace app data")
	write(t, c, func(tx *state.Tx) { tx.DeleteVolume(id) })
	inUse("has snapshots of volumes: nightly", "berth volume snapshot delete")
	write(t, c, func(tx *state.Tx) { tx.DeleteVolumeSnapshot("s") })
	inUse("has claims of volumes: ", "of allocation b0000000")
	write(t, c, func(tx *state.Tx) { tx.DeleteClaim(volume.ClaimKey{Volume: id, Alloc: "b0000000"}) })

	c.Must(t, end)
	s := c.Store.Snapshot()
	if s.Job(nil, "app", "web") != nil || len(s.StoredJobVersions(nil, "app", "web")) > 0 || s.Alloc(nil, a.ID) != nil {
		t.Error("something of its job is left")
	}
	for e := range s.Evals(nil, "") {
		if e.Namespace == "app" {
			t.Errorf("evaluation %s is left", e.ID)
		}
	}
	if s.Job(nil, "apps", "web") == nil || len(slices.Collect(s.EvalsByJob(nil, "apps", "web"))) == 0 {
		t.Error("the namespace beside it lost its job")
	}
}

// Given a job of a namespace that was purged, when it is not yet decided what becomes of its allocs, then the namespace
// stays; when that is, it goes with them.
func TestANamespaceWaitsForJobsThatWerePurged(t *testing.T) {
	c := localstate.New(t)
	c.Must(t, put("app"))
	c.Must(t, &fsm.JobRegister{Job: web("app"), Seed: "1"})
	c.Must(t, &fsm.JobDeregister{Namespace: "app", Job: "web", Purge: true, Seed: "2"})
	refused(t, c, "its end", &partitioning.NamespaceDelete{Name: "app"}, fault.Busy, "has non-terminal jobs: web")
	write(t, c, func(tx *state.Tx) {
		for _, e := range slices.Collect(tx.Evals(nil, "")) {
			n := *e
			n.Status = eval.StatusComplete
			tx.PutEval(&n)
		}
		tx.PutAlloc(&alloc.Alloc{ID: "a", Namespace: "app", Job: "web", ClientStatus: alloc.ClientLost})
	})
	c.Must(t, &partitioning.NamespaceDelete{Name: "app"})
	if s := c.Store.Snapshot(); s.Alloc(nil, "a") != nil || len(slices.Collect(s.Evals(nil, ""))) > 0 {
		t.Error("something of the job is left")
	}
}

// Given nodes, jobs and namespaces that name a node pool, when it is to be deleted, then each of them is in the way.
func TestANodePoolInUseIsNotDeleted(t *testing.T) {
	c := localstate.New(t)
	register := &fsm.NodeRegister{Node: &node.Node{ID: "n", Name: "n1", NodePool: "gpu", Status: node.StatusReady}}
	c.Must(t, register)
	made := c.Store.Snapshot().NodePool(nil, "gpu")
	if made == nil || !strings.Contains(made.Description, "Named by") {
		t.Fatalf("the pool that a node names: %+v", made)
	}
	described := pool("gpu")
	described.Pool.Description = "with accelerators"
	c.Must(t, described)
	c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n", Name: "n2", NodePool: "gpu", Status: node.StatusReady}})
	if p := c.Store.Snapshot().NodePool(nil, "gpu"); p.Description != "with accelerators" || p.CreateIndex !=
		made.CreateIndex {
		t.Errorf("a node that registers again writes %+v", p)
	}
	j := web("default")
	j.NodePool = "gpu"
	c.Must(t, &fsm.JobRegister{Job: j, Seed: "1"})
	of := put("app")
	of.Namespace.Pools = &partition.PoolRules{Default: "gpu"}
	c.Must(t, of)

	end := &partitioning.NodePoolDelete{Name: "gpu"}
	refused(t, c, "with a node", end, fault.Busy, `delete node pool "gpu"`, "has nodes: n2", "node_pool")
	write(t, c, func(tx *state.Tx) { tx.DeleteNode("n") })
	refused(t, c, "with a job", end, fault.Busy, "has non-terminal jobs: web", "berth job stop web")
	write(t, c, func(tx *state.Tx) {
		n := *tx.Job(nil, "default", "web")
		n.Stop = true
		tx.PutJob(&n)
		for _, e := range slices.Collect(tx.Evals(nil, "")) {
			tx.DeleteEval(e.ID)
		}
	})
	refused(t, c, "with a namespace", end, fault.Busy, "has namespaces whose default it is: app")
	c.Must(t, put("app"))
	c.Must(t, end)
	refused(t, c, "a job that names it", &fsm.JobRegister{Job: j, Seed: "2"}, fault.NotFound,
		`node pool "gpu" does not exist`, "berth node pool apply gpu")
	refused(t, c, "its end", end, fault.NotFound, "node pool not found")
	for _, name := range []string{"all", "default"} {
		refused(t, c, "the end of "+name, &partitioning.NodePoolDelete{Name: name}, fault.Invalid,
			"every cluster has it")
	}
	refused(t, c, "the pool of all nodes", pool("all"), fault.Invalid, "nobody changes it")
	refused(t, c, "a node that names the pool of all", &fsm.NodeRegister{Node: &node.Node{ID: "m", NodePool: "all"}},
		fault.Invalid, "without saying so")
	c.Must(t, pool("default"))
}

// Given as many node pools as there may be, when a node names another one, then it is refused: a node fills no memory.
func TestNodesMakeNoPoolsWithoutEnd(t *testing.T) {
	c := localstate.New(t)
	write(t, c, func(tx *state.Tx) {
		for i := range partitions.MaxNodePools - 2 {
			tx.PutNodePool(&partition.NodePool{Name: fmt.Sprintf("p%d", i)})
		}
	})
	refused(t, c, "one more", &fsm.NodeRegister{Node: &node.Node{ID: "m", NodePool: "other"}}, fault.Exhausted,
		"which is the bound")
	refused(t, c, "one more by hand", pool("other"), fault.Invalid, "which is the bound")
	c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "m", NodePool: "p7"}})
}

// Given a state of before there were namespaces and pools to write, when the cluster's schema is raised, then what its
// objects name is there, and what replicas of it save is the same to the byte.
func TestWhatAnOldStateNamesIsFoundByTheRaise(t *testing.T) {
	step := func(store *state.Store, index uint64, fn func(tx *state.Tx, st state.Stamp) error) {
		t.Helper()
		at := state.Stamp{Index: index, Time: time.Unix(int64(index), 0).UTC()}
		if err := store.Write(at, func(tx *state.Tx) error { return fn(tx, at) }); err != nil {
			t.Fatal(err)
		}
	}
	saved := func(s *state.Store) []byte {
		t.Helper()
		var b bytes.Buffer
		if err := s.Snapshot().Persist(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	one, other := state.New(), state.New()
	step(one, 1, func(tx *state.Tx, st state.Stamp) error {
		_, err := (&fsm.Bootstrap{ClusterID: "c", Incarnation: "i", Schema: partitions.Schema - 1}).Apply(tx, st)
		j := web("jobs")
		j.NodePool = "gpu"
		tx.PutJob(j)
		tx.PutVolume(&volume.Volume{ID: volume.ID{Namespace: "volumes", ID: "v"}})
		tx.PutAlloc(&alloc.Alloc{ID: "a", Namespace: "allocs"})
		tx.PutVolumeSnapshot(&volume.Snapshot{ID: "s", Namespace: "snapshots"})
		tx.PutNode(&node.Node{ID: "n", NodePool: "named"})
		tx.PutNode(&node.Node{ID: "m"})
		return err
	})
	if s := one.Snapshot(); len(slices.Collect(s.Namespaces(nil, ""))) != 2 || s.NodePool(nil, "default") != nil {
		t.Fatal("the old state has more than it can")
	}
	odd := web("default")
	odd.NodePool = "anything"
	if err := partitions.Admits(one.Snapshot(), odd); err != nil {
		t.Errorf("below the schema a pool is asked for: %v", err)
	}
	if err := other.Restore(bytes.NewReader(saved(one))); err != nil {
		t.Fatal(err)
	}
	for _, replica := range []*state.Store{one, other} {
		step(replica, 2, func(tx *state.Tx, st state.Stamp) error {
			_, err := (&fsm.SchemaRaise{To: partitions.Schema}).Apply(tx, st)
			return err
		})
		var names, pools []string
		for n := range replica.Snapshot().Namespaces(nil, "") {
			names = append(names, string(n.Name))
		}
		for p := range replica.Snapshot().NodePools(nil, "") {
			pools = append(pools, p.Name)
		}
		want := []string{"allocs", "berth", "default", "jobs", "snapshots", "volumes"}
		if !slices.Equal(names, want) || !slices.Equal(pools, []string{"all", "default", "gpu", "named"}) {
			t.Errorf("there are namespaces %v and pools %v", names, pools)
		}
	}
	if !bytes.Equal(saved(one), saved(other)) {
		t.Error("two replicas save different bytes")
	}
	if err := partitions.Admits(one.Snapshot(), odd); !fault.Has(err, fault.NotFound) {
		t.Errorf("from the schema on: %v", err)
	}
	back := state.New()
	if err := back.Restore(bytes.NewReader(saved(one))); err != nil || back.Snapshot().NodePool(nil, "gpu") == nil {
		t.Errorf("restored: %v", err)
	}
}
