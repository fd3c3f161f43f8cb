package catalog_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/catalog"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/withdrawal"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// rig is a state whose objects are written by hand, each write at an index of its own.
type rig struct {
	*localstate.Cluster
	t     *testing.T
	index uint64
}

func (r *rig) write(fn func(tx *state.Tx)) {
	r.t.Helper()
	r.index++
	err := r.Store.Write(state.Stamp{Index: r.index, Time: time.Now()}, func(tx *state.Tx) error {
		fn(tx)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func newRig(t *testing.T) *rig {
	r := &rig{Cluster: localstate.New(t), t: t, index: 10}
	r.write(func(tx *state.Tx) {
		n := &node.Node{ID: "n", Name: "n1", Datacenter: "dc1", Resources: node.Resources{IP: "10.0.0.1"}}
		tx.PutNode(n)
	})
	return r
}

func jobOf(id ids.Job, version uint64, names ...string) *job.Job {
	g := &job.TaskGroup{Name: "g", Tasks: []*job.Task{{Name: "t"}}}
	for _, n := range names {
		g.Services = append(g.Services, &job.Service{Name: n, Provider: job.ProviderServers, PortLabel: "p"})
	}
	j := &job.Job{Namespace: "default", ID: id, Name: string(id), TaskGroups: []*job.TaskGroup{g}}
	j.Version = version
	return j
}

// runs writes a job version and an alloc of it that runs.
func (r *rig) runs(j *job.Job, id string) *alloc.Alloc {
	a := &alloc.Alloc{
		ID:            ids.Alloc(id + "-2222-4333-8444-555555555555"),
		Namespace:     j.Namespace,
		Node:          "n",
		Job:           j.ID,
		JobVersion:    j.Version,
		TaskGroup:     "g",
		DesiredStatus: alloc.DesiredRun,
		ClientStatus:  alloc.ClientRunning,
		Resources:     alloc.Resources{Ports: []alloc.PortMapping{{Label: "p", Value: 80, HostIP: "10.0.0.1"}}},
	}
	r.write(func(tx *state.Tx) {
		tx.PutJob(j)
		a.JobCreateIndex = j.CreateIndex
		tx.PutAlloc(a)
	})
	return a
}

// named are the allocs that are found under a name, and the index of that read.
func (r *rig) named(name string) (string, uint64) {
	found, index := catalog.Named(r.Store.Snapshot(), nil, "default", name)
	return idsOf(found), index
}

func idsOf(found []*service.Registration) string {
	var out []string
	for _, f := range found {
		out = append(out, string(f.Alloc[:1]))
	}
	return strings.Join(out, " ")
}

// TestWhoIsFoundUnderAName: allocs of all versions of all jobs that have it, of no other, and as soon as one is to stop
// it is not among them. Who waits for a change hears of that, and the index has grown.
func TestWhoIsFoundUnderAName(t *testing.T) {
	r := newRig(t)
	old := jobOf("web", 0, "web", "old")
	a := r.runs(old, "aaaaaaaa")
	r.runs(jobOf("web", 1, "web"), "bbbbbbbb")
	r.runs(jobOf("other", 0, "web2", "we"), "cccccccc")
	r.runs(jobOf("place", 0, "${node.unique.name}", "web"), "dddddddd")
	for name, want := range map[string]string{"web": "a b d", "old": "a", "web2": "c", "n1": "d", "nobody": "",
		"${node.unique.name}": ""} {
		if got, index := r.named(name); got != want || index == 0 {
			t.Errorf("%s is found as %q at %d, not %q", name, got, index, want)
		}
	}
	all, _ := catalog.All(r.Store.Snapshot(), nil, "default")
	if got := idsOf(all); got != "a a b c c d d" {
		t.Errorf("in all %q", got)
	}
	if all, _ := catalog.All(r.Store.Snapshot(), nil, "elsewhere"); len(all) > 0 {
		t.Errorf("in another namespace %q", idsOf(all))
	}
	ofJob, _ := catalog.OfJob(r.Store.Snapshot(), nil, "default", "web")
	if got := idsOf(ofJob); got != "a a b" {
		t.Errorf("of the job %q", got)
	}
	ofAlloc, _ := catalog.OfAlloc(r.Store.Snapshot(), nil, a)
	if got := idsOf(ofAlloc); got != "a a" {
		t.Errorf("of the alloc %q", got)
	}
	w := state.NewWatch()
	_, before := catalog.Named(r.Store.Snapshot(), w, "default", "web")
	r.write(func(tx *state.Tx) {
		stopped := *a
		stopped.DesiredStatus = alloc.DesiredStop
		tx.PutAlloc(&stopped)
	})
	if err := w.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if got, index := r.named("web"); got != "b d" || index <= before {
		t.Errorf("it is to stop, and found is %q at %d after %d", got, index, before)
	}
}

// TestALookAtANameIsWokenByItsJobsAlone: a change of another job's alloc wakes nobody who waits for this name.
func TestALookAtANameIsWokenByItsJobsAlone(t *testing.T) {
	r := newRig(t)
	r.runs(jobOf("web", 0, "web"), "aaaaaaaa")
	b := r.runs(jobOf("other", 0, "other"), "bbbbbbbb")
	w := state.NewWatch()
	catalog.Named(r.Store.Snapshot(), w, "default", "web")
	r.write(func(tx *state.Tx) {
		ended := *b
		ended.ClientStatus = alloc.ClientComplete
		tx.PutAlloc(&ended)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // runs out: nobody wakes it
	defer cancel()
	if w.Wait(ctx) == nil {
		t.Error("it is woken by what is not its affair")
	}
	r.runs(jobOf("new", 0, "web"), "cccccccc")
	if err := w.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestARegistrationIsTakenAway: by its name, its id and its namespace, once; what is not found is said so.
func TestARegistrationIsTakenAway(t *testing.T) {
	r := newRig(t)
	a := r.runs(jobOf("web", 0, "web", "admin"), "aaaaaaaa")
	all, _ := catalog.OfAlloc(r.Store.Snapshot(), nil, a)
	id := all[1].ID
	take := func(ns ids.Namespace, name, id string) error {
		cmd := &withdrawal.Withdraw{Namespace: ns, Name: name, ID: id, Alloc: withdrawal.AllocOf(id)}
		data, err := fsm.Encode(cmd, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		back, _, err := fsm.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		r.index++
		st := fsm.Stamp{Index: r.index, Time: time.Now()}
		return r.Store.Write(state.Stamp{Index: r.index, Time: st.Time}, func(tx *state.Tx) error {
			_, err := back.Apply(tx, st)
			return err
		})
	}
	for what, err := range map[string]error{
		"another namespace": take("other", "web", id),
		"another name":      take("default", "nobody", id),
		"no alloc":          take("default", "web", "_nomad-task-bbbbbbbb-2222-4333-8444-555555555555-group-g-web-p"),
		"no id":             take("default", "web", "x"),
	} {
		if !fault.Has(err, fault.NotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := take("default", "web", id); err != nil {
		t.Fatal(err)
	}
	if got, _ := r.named("web"); got != "" {
		t.Errorf("it was taken away, and is found as %q", got)
	}
	if got, _ := r.named("admin"); got != "a" {
		t.Errorf("its other service is found as %q", got)
	}
	if err := take("default", "web", id); !fault.Has(err, fault.NotFound) {
		t.Errorf("once more: %v", err)
	}
}

// BenchmarkNamed is a look at a name that a thousand allocs have.
func BenchmarkNamed(b *testing.B) {
	store := state.New()
	j := jobOf("web", 0, "web")
	port := []alloc.PortMapping{{Label: "p", Value: 80, HostIP: "10.0.0.1"}}
	err := store.Write(state.Stamp{Index: 1, Time: time.Now()}, func(tx *state.Tx) error {
		attributes := map[string]string{}
		for i := range 40 {
			attributes[fmt.Sprintf("attribute.%d", i)] = "value"
		}
		tx.PutNode(&node.Node{ID: "n", Name: "n1", Attributes: attributes, Resources: node.Resources{IP: "10.0.0.1"}})
		tx.PutJob(j)
		for range 1000 {
			tx.PutAlloc(&alloc.Alloc{
				ID:             ids.Alloc(ids.New()),
				Namespace:      j.Namespace,
				Node:           "n",
				Job:            j.ID,
				JobCreateIndex: j.CreateIndex,
				TaskGroup:      "g",
				DesiredStatus:  alloc.DesiredRun,
				ClientStatus:   alloc.ClientRunning,
				Resources:      alloc.Resources{Ports: port},
			})
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if found, _ := catalog.Named(store.Snapshot(), nil, "default", "web"); len(found) != 1000 {
			b.Fatalf("%d are found", len(found))
		}
	}
}

// TestWhoIsToBeFoundInConsul: the services of Consul of all allocs that are to run, whether they do or not; those of
// the servers are others.
func TestWhoIsToBeFoundInConsul(t *testing.T) {
	r := newRig(t)
	j := jobOf("web", 0, "web")
	j.TaskGroups[0].Services[0].Provider = job.ProviderConsul
	a := r.runs(j, "aaaaaaaa")
	r.runs(jobOf("other", 0, "web"), "bbbbbbbb")
	pending := *a
	pending.ID, pending.ClientStatus = "cccccccc-2222-4333-8444-555555555555", alloc.ClientPending
	r.write(func(tx *state.Tx) { tx.PutAlloc(&pending) })
	in := func() string {
		found, index := catalog.InConsul(r.Store.Snapshot(), nil, "default", "web")
		if index == 0 || len(found) > 0 && found[0].Address != "10.0.0.1" {
			t.Errorf("%+v at %d", found, index)
		}
		return idsOf(found)
	}
	if got, _ := r.named("web"); got != "b" || in() != "a c" {
		t.Errorf("by the servers is found %q, and in Consul %q", got, in())
	}
	ends := *a
	ends.DesiredStatus = alloc.DesiredStop
	r.write(func(tx *state.Tx) { tx.PutAlloc(&ends) })
	if in() != "c" {
		t.Errorf("one is to stop, and to be found are %q", in())
	}
}
