package client_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/port/driver"
)

// run places a service of one task and waits until it runs.
func (r *rig) run(name string) ids.Alloc {
	r.t.Helper()
	j := service(task(name, nil))
	j.ID, j.Name = ids.Job(name), name
	id := r.servers.place(j)
	eventually(r.t, name+" runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	return id
}

// lose makes the servers forget an alloc.
func (f *fakeServers) lose(list ...ids.Alloc) {
	f.change(func() {
		for _, id := range list {
			delete(f.allocs, id)
		}
	})
}

func (f *fakeServers) orphans() []node.Orphan {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.node == nil {
		return nil
	}
	return f.node.Orphans
}

func (f *fakeServers) orphan(id ids.Alloc) *node.Orphan {
	for _, o := range f.orphans() {
		if o.Alloc == id {
			return &o
		}
	}
	return nil
}

func TestWhatAStateThatContinuesHasRemovedIsEnded(t *testing.T) {
	r := newRig(t)
	c := r.start()
	gone, stays := r.run("gone"), r.run("stays")
	r.servers.lose(gone)
	eventually(t, "it is ended", func() bool { return slices.Equal(r.mock.Alive(), []string{"stays.1"}) })
	eventually(t, "and forgotten", func() bool { return !c.Known(gone) })
	if o := r.servers.orphans(); len(o) != 0 || r.servers.status(stays) != alloc.ClientRunning {
		t.Errorf("orphans %+v", o)
	}
}

// TestANodeThatWasAwayEndsWhatWasPurgedMeanwhile: two days later the jobs were purged and collected, and other
// leaderships came and went.
func TestANodeThatWasAwayEndsWhatWasPurgedMeanwhile(t *testing.T) {
	r := newRig(t)
	first := r.start()
	gone := r.run("gone")
	first.stop()
	r.servers.change(func() { r.servers.mark = "m7" })
	r.servers.lose(gone)
	second := r.start()
	eventually(t, "it is ended and forgotten", func() bool { return len(r.mock.Alive()) == 0 && !second.Known(gone) })
	if o := r.servers.orphans(); len(o) != 0 {
		t.Errorf("orphans %+v", o)
	}
}

func TestAStateThatDoesNotContinueEndsNothing(t *testing.T) {
	r := newRig(t)
	r.drivers = []driver.Driver{r.mock}
	first := r.start()
	lost, known := r.run("lost"), r.run("known")
	first.stop()
	r.servers.change(func() { r.servers.index = 5 })
	r.servers.fork("other")
	r.servers.lose(lost)

	second := r.start()
	eventually(t, "the servers hear of the orphan", func() bool { return r.servers.orphan(lost) != nil })
	eventually(t, "the node serves them", second.Armed)
	o := r.servers.orphan(lost)
	if o.Job != "lost" || o.Namespace != "default" || o.Reason == "" || !o.Processes || o.Since.IsZero() {
		t.Errorf("the orphan is described as %+v", o)
	}
	if got := r.mock.Alive(); len(got) != 2 {
		t.Fatalf("alive: %v", got)
	}
	later := r.run("later") // new work of this state is taken
	if r.servers.orphan(known) != nil || r.servers.orphan(later) != nil {
		t.Errorf("orphans %+v", r.servers.orphans())
	}

	// What this state knew is removed by it; what it never knew stays, however far it advances.
	r.servers.lose(known)
	eventually(t, "the known one is ended", func() bool { return !second.Known(known) })
	if got := r.mock.Alive(); len(got) != 2 || !slices.Contains(got, "lost.1") {
		t.Fatalf("alive: %v", got)
	}
	second.stop()

	third := r.start()
	eventually(t, "what was restored is served", third.Armed)
	eventually(t, "it is an orphan after a restart too", func() bool { return r.servers.orphan(lost) != nil })
	if err := third.EndOrphan(t.Context(), later); !fault.Has(err, fault.Conflict) {
		t.Fatalf("what is no orphan is ended: %v", err)
	}
	if got := r.mock.Alive(); len(got) != 2 || !slices.Contains(got, "later.1") {
		t.Fatalf("alive: %v", got)
	}
	if err := third.EndOrphan(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a person ends it", func() bool {
		return !slices.Contains(r.mock.Alive(), "lost.1") && !third.Known(lost)
	})
	eventually(t, "it is no longer listed", func() bool { return len(r.servers.orphans()) == 0 })
}

func TestAnOrphanIsNeitherRestartedNorEndedForItsSibling(t *testing.T) {
	r := newRig(t)
	first := r.start()
	id := r.servers.place(service(task("a", nil), task("b", nil)))
	eventually(t, "both run", func() bool {
		return len(r.mock.Alive()) == 2 && r.servers.status(id) == alloc.ClientRunning
	})
	first.stop()
	r.servers.fork("other")
	r.servers.lose(id)
	second := r.start()
	eventually(t, "it is an orphan", func() bool { return r.servers.orphan(id) != nil })

	r.mock.Exit("a", driver.ExitResult{ExitCode: 1})
	eventually(t, "the dead task is collected", func() bool { return slices.Equal(r.mock.Alive(), []string{"b.1"}) })
	time.Sleep(1500 * time.Millisecond) // the restart policy's delay is one second
	if got := r.mock.Alive(); !slices.Equal(got, []string{"b.1"}) {
		t.Fatalf("alive: %v", got)
	}
	r.mock.Exit("b", driver.ExitResult{})
	eventually(t, "what has ended by itself is cleaned up", func() bool { return len(r.servers.orphans()) == 0 })
	if !second.Known(id) {
		t.Error("its record is gone before anybody collected it")
	}
}

func TestAnOrphanThatTheServersKnowAgainIsTheirs(t *testing.T) {
	r := newRig(t)
	first := r.start()
	id := r.run("web")
	first.stop()
	var bundle alloc.Bundle
	r.servers.change(func() {
		bundle = r.servers.allocs[id]
		delete(r.servers.allocs, id)
	})
	r.servers.fork("other")
	second := r.start()
	eventually(t, "it is an orphan", func() bool { return r.servers.orphan(id) != nil })
	second.stop()
	r.servers.change(func() { r.servers.allocs[id] = bundle })
	r.servers.fork("m1") // the right state is back
	r.start()
	eventually(t, "it is no orphan", func() bool { return r.servers.times() > 3 && len(r.servers.orphans()) == 0 })
	r.mock.Exit("web", driver.ExitResult{ExitCode: 1})
	eventually(t, "it is restarted as before", func() bool { return slices.Contains(r.mock.Alive(), "web.2") })
	r.servers.stop(id)
	eventually(t, "and stopped by the servers", func() bool { return r.servers.status(id) == alloc.ClientComplete })
}

func TestANodeWithTasksDoesNotFollowAnotherClusterState(t *testing.T) {
	r := newRig(t)
	first := r.start()
	one, two := r.run("one"), r.run("two")
	first.stop()
	r.servers.change(func() {
		r.servers.incarnation = "second"
		r.servers.mark = "n1"
		r.servers.index = 1
	})
	r.servers.lose(one, two)

	second := r.start()
	eventually(t, "both are reported as orphans", func() bool { return len(r.servers.orphans()) == 2 })
	j := service(task("new", nil))
	j.ID = "new"
	placed := r.servers.place(j)
	time.Sleep(200 * time.Millisecond)
	if got := r.mock.Alive(); len(got) != 2 || r.servers.status(placed) != "" {
		t.Fatalf("alive %v, the new one is %q", got, r.servers.status(placed))
	}
	second.stop() // also over a restart

	third := r.start()
	eventually(t, "both are reported again", func() bool { return len(r.servers.orphans()) == 2 })
	for _, id := range []ids.Alloc{one, two} {
		eventually(t, "a person ends it", func() bool { return third.EndOrphan(t.Context(), id) == nil })
	}
	eventually(t, "the node follows when nothing is left", func() bool {
		return r.servers.status(placed) == alloc.ClientRunning
	})
	if got := r.mock.Alive(); !slices.Equal(got, []string{"new.1"}) {
		t.Errorf("alive: %v", got)
	}
}

func TestANodeThatHoldsNothingFollowsAnotherClusterState(t *testing.T) {
	r := newRig(t)
	first := r.start()
	id := r.run("one")
	r.servers.stop(id)
	eventually(t, "it ends", func() bool { return r.servers.status(id) == alloc.ClientComplete })
	first.stop()
	r.servers.change(func() {
		r.servers.incarnation = "second"
		r.servers.mark = "n1"
		r.servers.index = 1
	})
	r.servers.lose(id)
	c := r.start()
	eventually(t, "the node is armed", c.Armed)
	r.run("two")
	if o := r.servers.orphans(); len(o) != 0 {
		t.Errorf("orphans %+v", o)
	}
}

// Given an armed node, when its servers are another incarnation at a later registration, then it undoes nothing before
// it has heard the whole set of that one, however long that takes.
func TestANodeIsNotArmedByTheSetsOfAnEarlierIncarnation(t *testing.T) {
	r := newRig(t)
	c := r.start()
	eventually(t, "the node is armed", c.Armed)
	said := make(chan struct{})
	r.servers.change(func() { r.servers.mute = said })
	for range 2 { // when the second has begun, the node has acted on the first
		before := r.servers.times()
		r.servers.change(func() { r.servers.incarnation, r.servers.again = "second", true })
		eventually(t, "it is registered with the second", func() bool { return r.servers.times() > before })
	}
	if c.Armed() {
		t.Error("it is armed by what the first said")
	}
	close(said)
	eventually(t, "the node is armed by the second", c.Armed)
}

func TestManyRemovalsAreConfirmedTwice(t *testing.T) {
	r := newRig(t)
	r.tune = func(c *client.Config) { c.ConfirmRemovals = 400 * time.Millisecond }
	first := r.start()
	var all []ids.Alloc
	for i := range 11 {
		all = append(all, r.run(fmt.Sprintf("t%d", i)))
	}
	first.stop()
	bundles := map[ids.Alloc]alloc.Bundle{}
	r.servers.change(func() {
		for _, id := range all {
			bundles[id] = r.servers.allocs[id]
		}
	})
	r.servers.lose(all...)
	second := r.start()
	eventually(t, "the node is armed", second.Armed)
	time.Sleep(100 * time.Millisecond)
	if got := r.mock.Alive(); len(got) != 11 {
		t.Fatalf("alive: %v; what was done: %v", got, r.mock.Log())
	}
	r.servers.change(func() { r.servers.allocs[all[0]] = bundles[all[0]] }) // the leader corrects itself about one
	eventually(t, "the confirmed ones end", func() bool { return slices.Equal(r.mock.Alive(), []string{"t0.1"}) })
}

// TestALostRecordIsKept: the servers know the alloc, its directory and its task are there, the node's store is gone.
func TestALostRecordIsKept(t *testing.T) {
	r := realRig(t)
	first := r.start()
	id := r.servers.place(service(shell("sh", "raw_exec", `exec sleep 3600`)))
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	node := first.ID()
	first.stop()
	r.loseStore()

	second := r.start()
	if second.ID() != node {
		t.Fatalf("the node is %s, it was %s", second.ID(), node)
	}
	eventually(t, "it is reported, with what its shim knows of it", func() bool {
		o := r.servers.orphan(id)
		return o != nil && o.Job == "web"
	})
	eventually(t, "the node is armed", second.Armed)
	if gone, _ := second.ProcessesGone(id); gone || second.Known(id) {
		t.Fatal("its processes count as gone")
	}
	second.stop()
	third := r.start()
	eventually(t, "the node is armed", third.Armed)
	eventually(t, "its shim was looked at", func() bool { return len(third.Orphans()) == 1 })
	if err := third.Shutdown(t.Context(), true); err != nil || running(id) {
		t.Errorf("the end of a -dev agent leaves nothing: %v", err)
	}
	third.stop()
	second = r.start()
	eventually(t, "it is reported again, as one that does not run", func() bool {
		o := r.servers.orphan(id)
		return o != nil && !o.Processes && second.Armed()
	})
	if err := second.EndOrphan(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ended by a person, it is no orphan", func() bool { return r.servers.orphan(id) == nil })
	if got := r.servers.last(id); got == nil || got.ClientStatus != alloc.ClientLost || !got.OutcomeUnknown() {
		t.Fatalf("the servers heard of its end: %+v", got)
	}
	r.run("later") // another set has come
	if second.Known(id) || r.servers.status(id) != alloc.ClientLost {
		t.Error("it is run a second time")
	}
}

func TestRecordsFromBeforeThereWereMarksAreStampedOnce(t *testing.T) {
	r := newRig(t)
	r.servers.mark = "" // as written by a version without marks
	first := r.start()
	id := r.run("web")
	first.stop()
	r.servers.change(func() { r.servers.mark = "m1" })
	second := r.start()
	eventually(t, "the node has seen the mark", func() bool { return second.Seen().Mark == "m1" })
	second.stop()
	r.servers.fork("other")
	r.servers.lose(id)
	r.start()
	eventually(t, "it counts as received under the mark", func() bool { return r.servers.orphan(id) != nil })
}

// loseStore deletes the node's store and nothing else.
func (r *rig) loseStore() {
	r.t.Helper()
	if err := os.Remove(filepath.Join(r.dir, "client", "client.db")); err != nil {
		r.t.Fatal(err)
	}
}
