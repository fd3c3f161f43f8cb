package client_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// timesAsked counts how often the node asked about an alloc by id.
func (f *fakeServers) timesAsked(id ids.Alloc) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[id]
}

// takeAgain reports once that a registration is asked for.
func (f *fakeServers) takeAgain() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	again := f.again
	f.again = false
	return again
}

// events lists the types of a task's events as the servers know them.
func (f *fakeServers) events(id ids.Alloc, task string) []string {
	var out []string
	if a := f.report(id); a != nil && a.TaskStates[task] != nil {
		for _, e := range a.TaskStates[task].Events {
			out = append(out, e.Type)
		}
	}
	return out
}

// current is the index of the servers' state.
func (f *fakeServers) current() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.index
}

// orphaned restarts the agent under a state that knows none of these allocs, and waits until they are orphans.
func (r *rig) orphaned(first *agentRun, list ...ids.Alloc) *agentRun {
	r.t.Helper()
	first.stop()
	r.servers.fork("other")
	r.servers.lose(list...)
	second := r.start()
	for _, id := range list {
		eventually(r.t, "it is an orphan", func() bool { return r.servers.orphan(id) != nil })
	}
	return second
}

// Given orphans that end by themselves, when the servers leave them out once more, then what they left stays, until a
// person ends or collects it.
func TestWhatAnOrphanLeavesStaysUntilAPersonIsDone(t *testing.T) {
	r := newRig(t)
	first := r.start()
	one, two := r.run("one"), r.run("two")
	c := r.orphaned(first, one, two)
	r.mock.Exit("one", driver.ExitResult{})
	r.mock.Exit("two", driver.ExitResult{ExitCode: 1})
	eventually(t, "they end by themselves", func() bool { return len(r.servers.orphans()) == 0 })
	before := map[ids.Alloc]int{one: r.servers.timesAsked(one), two: r.servers.timesAsked(two)}
	r.run("later")
	for _, id := range []ids.Alloc{one, two} {
		eventually(t, "the servers are asked about it once more", func() bool {
			return r.servers.timesAsked(id) > before[id] || !c.Known(id)
		})
		if dir := filepath.Join(c.AllocDir(), string(id)); !c.Known(id) || !exists(dir) {
			t.Fatalf("gone by itself: record %v, directory %v", !c.Known(id), !exists(dir))
		}
	}
	if err := c.EndOrphan(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if err := c.Collect(two); err != nil {
		t.Fatal(err)
	}
	for _, id := range []ids.Alloc{one, two} {
		eventually(t, "nothing of it is left", func() bool {
			return !c.Known(id) && !exists(filepath.Join(c.AllocDir(), string(id)))
		})
	}
}

// Given orphans of which one runs a storage plugin and one has a volume, then the plugin is not ended before the other:
// its volume could not be released.
func TestAnOrphanedPluginIsEndedLast(t *testing.T) {
	r := newRig(t)
	first := r.start()
	p := task("plugin", nil)
	p.CSIPluginConfig = &job.CSIPluginConfig{ID: "p", Type: "node"}
	user := service(task("user", nil))
	user.ID = "user"
	user.TaskGroups[0].Volumes = map[string]*job.VolumeRequest{"data": {
		Name:   "data",
		Type:   job.VolumeTypeCSI,
		Source: "vol",
	}}
	plugin, volume := r.servers.place(service(p)), r.servers.place(user)
	for _, id := range []ids.Alloc{plugin, volume} {
		eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	}
	c := r.orphaned(first, plugin, volume)
	err := c.EndOrphan(t.Context(), plugin)
	if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "berth node orphans end "+ids.Short(volume)) {
		t.Fatalf("the plugin is ended first: %v", err)
	}
	if got := r.mock.Alive(); len(got) != 2 {
		t.Fatalf("alive: %v", got)
	}
	if err := c.EndOrphan(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the user is gone", func() bool { return !c.Known(volume) })
	if got := r.mock.Alive(); !slices.Equal(got, []string{"plugin.1"}) {
		t.Fatalf("alive: %v", got)
	}
	if err := c.EndOrphan(t.Context(), plugin); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin is gone", func() bool { return !c.Known(plugin) && len(r.mock.Alive()) == 0 })
}

// Given an alloc that a restored state leaves out, when a change of that state comes before the servers said whether
// they ever knew it, then the change's silence does not count as knowing it: it is an orphan, and lives.
func TestAChangeDoesNotVouchForWhatTheSetLeftOut(t *testing.T) {
	r := newRig(t)
	first := r.start()
	id := r.run("web")
	first.stop()
	held := make(chan struct{})
	r.servers.change(func() { r.servers.deltas, r.servers.held = true, held })
	r.servers.fork("other")
	r.servers.lose(id)
	second := r.start()
	eventually(t, "the node has the state without it", second.Armed)
	r.servers.change(func() {})
	want := r.servers.current()
	eventually(t, "a change is acted on", func() bool { return second.Seen().Index == want })

	r.servers.mu.Lock()
	r.servers.held = nil
	r.servers.mu.Unlock()
	close(held)
	eventually(t, "it is an orphan", func() bool { return r.servers.orphan(id) != nil || !second.Known(id) })
	if got := r.mock.Alive(); !slices.Equal(got, []string{"web.1"}) {
		t.Errorf("alive: %v", got)
	}
}

// Given a stream of a set and its changes, when a change is of an earlier state than what the node has acted on, then
// nothing of it is applied, and the node is not armed until the servers have caught up.
func TestAChangeOfAnEarlierStateIsNotBelieved(t *testing.T) {
	r := newRig(t)
	r.servers.deltas = true
	c := r.start()
	r.run("web")
	eventually(t, "the node has the present state", func() bool {
		return c.Armed() && c.Seen().Index == r.servers.current()
	})
	seen := c.Seen()
	late := service(task("late", nil))
	late.ID = "late"
	// The index falls with the alloc: place takes one step up from it.
	r.servers.mu.Lock()
	r.servers.index, r.servers.behind = 2, true
	r.servers.mu.Unlock()
	id := r.servers.place(late)
	eventually(t, "the node is not armed", func() bool { return !c.Armed() })
	if got := r.mock.Alive(); !slices.Equal(got, []string{"web.1"}) || c.Seen() != seen || c.Known(id) {
		t.Errorf("alive %v, seen %+v, which was %+v", got, c.Seen(), seen)
	}
	r.servers.change(func() { r.servers.index, r.servers.behind = 100, false })
	eventually(t, "what has caught up is believed", func() bool { return r.servers.status(id) == alloc.ClientRunning })
}

// Given an alloc whose end the servers have not taken, then collecting leaves it: its files and its record are all that
// tells of it. Once they have taken it, it goes.
func TestAnEndThatTheServersDoNotKnowIsNotCollected(t *testing.T) {
	r := newRig(t)
	c := r.start()
	id := r.run("web")
	dir := filepath.Join(c.AllocDir(), string(id))
	r.servers.change(func() { r.servers.deaf = true })
	r.servers.stop(id)
	eventually(t, "it has ended", func() bool { return !fault.Has(c.Collect(id), fault.Conflict) })
	if err := c.Collect(""); err != nil {
		t.Error(err)
	}
	if !c.Known(id) || !exists(dir) {
		t.Fatalf("collected: record %v, directory %v", !c.Known(id), !exists(dir))
	}
	r.servers.change(func() { r.servers.deaf = false })
	eventually(t, "its end is reported", func() bool { return r.servers.status(id) == alloc.ClientComplete })
	eventually(t, "it is collected", func() bool { return c.Collect("") == nil && !c.Known(id) && !exists(dir) })
}

// Given a process of an alloc whose record is lost, when the servers' state is another, then the node says that it
// holds something, and does not follow. Given nothing but a directory, then it follows.
func TestANodeWithAnUnrecordedProcessDoesNotFollowAnotherClusterState(t *testing.T) {
	r := realRig(t)
	first := r.start()
	eventually(t, "the node has seen the servers' state", func() bool { return first.Seen().Incarnation == "one" })
	first.stop()
	id := ids.Alloc(ids.New())
	if err := os.MkdirAll(filepath.Join(r.dir, "alloc", string(id)), 0o711); err != nil {
		t.Fatal(err)
	}
	r.launch(id)
	r.servers.change(func() {
		r.servers.incarnation = "second"
		r.servers.mark = "n1"
		r.servers.index = 1
	})
	second := r.start()
	eventually(t, "it is reported", func() bool { return r.servers.orphan(id) != nil })
	eventually(t, "the node is armed: it may follow nobody", second.Armed)
	r.servers.mu.Lock()
	holds := r.servers.holds
	r.servers.mu.Unlock()
	if !holds || second.Seen().Incarnation != "one" {
		t.Errorf("holds %v, follows %q", holds, second.Seen().Incarnation)
	}
	if err := r.shims.End(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing but its directory is left: it follows", func() bool {
		return second.Seen().Incarnation == "second"
	})
}

// Given a node that keeps what another state placed, when the servers' state becomes a third one, then it follows that
// one as little, and may go on undoing what a person ends.
func TestANodeThatFollowsNobodyStaysArmedUnderAThirdClusterState(t *testing.T) {
	r := newRig(t)
	first := r.start()
	id := r.run("web")
	first.stop()
	r.servers.change(func() {
		r.servers.incarnation = "second"
		r.servers.mark = "n1"
		r.servers.index = 1
	})
	r.servers.lose(id)
	c := r.start()
	eventually(t, "it is an orphan", func() bool { return r.servers.orphan(id) != nil })
	eventually(t, "the node follows nobody", c.Armed)
	before := r.servers.times()
	r.servers.change(func() { r.servers.incarnation, r.servers.again = "third", true })
	eventually(t, "it is registered with the third", func() bool { return r.servers.times() > before })
	eventually(t, "the node is armed", c.Armed)
	if got := r.mock.Alive(); !slices.Equal(got, []string{"web.1"}) || c.Seen().Incarnation != "one" {
		t.Errorf("alive %v, follows %q", got, c.Seen().Incarnation)
	}
}
