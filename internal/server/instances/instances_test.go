package instances_test

import (
	"cmp"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/server/instances"
	"berth/internal/server/state"
)

// world is a state with a job that runs a plugin, an alloc of it on node "n", and what that node reports.
type world struct {
	job      *job.Job
	alloc    *alloc.Alloc
	instance *plugin.Instance
}

func newWorld() *world {
	return &world{
		job: &job.Job{Namespace: "default", ID: "storage", TaskGroups: []*job.TaskGroup{{Name: "g", Tasks: []*job.Task{
			{Name: "beside"},
			{Name: "t", CSIPluginConfig: &job.CSIPluginConfig{ID: "p", Type: job.PluginMonolith}},
		}}}},
		alloc: &alloc.Alloc{
			ID:            "a",
			Namespace:     "default",
			Job:           "storage",
			TaskGroup:     "g",
			Node:          "n",
			DesiredStatus: alloc.DesiredRun,
			ClientStatus:  alloc.ClientRunning,
		},
		instance: &plugin.Instance{
			Plugin: "p",
			Role:   plugin.RoleController,
			Alloc:  "a",
			Node:   "n",
			State:  plugin.Ready,
		},
	}
}

// bundled has the world run the bundled plugin in a namespace.
func bundled(ns ids.Namespace) func(w *world) {
	return func(w *world) {
		w.job.Namespace, w.alloc.Namespace = ns, ns
		w.job.TaskGroups[0].Tasks[1].CSIPluginConfig.ID = string(instances.Bundled)
		w.instance.Plugin = instances.Bundled
	}
}

func (w *world) plays(role string) { w.job.TaskGroups[0].Tasks[1].CSIPluginConfig.Type = role }

// TestAnInstanceCountsWhereTheServersPlacedIt: what a node says of a plugin counts for an alloc that the servers placed
// on it, of a job that is that plugin in that role, until the node has said that it ended; nothing else does.
func TestAnInstanceCountsWhereTheServersPlacedIt(t *testing.T) {
	for name, c := range map[string]struct {
		given func(w *world)
		why   string // empty: it counts
	}{
		"a controller of a monolith": {func(*world) {}, ""},
		"a node part of a monolith":  {func(w *world) { w.instance.Role = plugin.RoleNode }, ""},
		"a controller":               {func(w *world) { w.plays(job.PluginController) }, ""},
		"one whose alloc is to stop": {func(w *world) { w.alloc.DesiredStatus = alloc.DesiredStop }, ""},
		"one whose alloc is lost":    {func(w *world) { w.alloc.ClientStatus = alloc.ClientLost }, ""},
		"the bundled one":            {bundled(ids.ReservedNamespace), ""},

		"no alloc":           {func(w *world) { w.instance.Alloc = "" }, "do not know"},
		"an unknown alloc":   {func(w *world) { w.instance.Alloc = "b" }, "do not know"},
		"another's alloc":    {func(w *world) { w.alloc.Node = "m" }, "placed on node m"},
		"one that is over":   {func(w *world) { w.alloc.ClientStatus = alloc.ClientComplete }, "has ended"},
		"one that failed":    {func(w *world) { w.alloc.ClientStatus = alloc.ClientFailed }, "has ended"},
		"another plugin":     {func(w *world) { w.instance.Plugin = "q" }, "does not run it"},
		"an unknown role":    {func(w *world) { w.instance.Role = "provider" }, "does not run it"},
		"another group":      {func(w *world) { w.alloc.TaskGroup = "h" }, "does not run it"},
		"another version":    {func(w *world) { w.alloc.JobVersion = 7 }, "does not run it"},
		"no controller":      {func(w *world) { w.plays(job.PluginNode) }, "does not run it"},
		"a user's local-csi": {bundled(ids.DefaultNamespace), "not Berth's own"},
		"no node part": {func(w *world) {
			w.plays(job.PluginController)
			w.instance.Role = plugin.RoleNode
		}, "does not run it"},
	} {
		w := newWorld()
		c.given(w)
		n := &node.Node{ID: "n", CSI: []*plugin.Instance{
			{Plugin: "false", Role: plugin.RoleController, Alloc: "forged", State: plugin.Ready}, w.instance,
		}}
		store := state.New()
		if err := store.Write(state.Stamp{Index: 1}, func(tx *state.Tx) error {
			tx.PutJob(w.job)
			w.alloc.JobCreateIndex = 1
			tx.PutAlloc(w.alloc)
			tx.PutNode(n)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		s := store.Snapshot()
		why := instances.Why(s, nil, "n", w.instance)
		if why != c.why && (c.why == "" || !strings.Contains(why, c.why)) {
			t.Errorf("%s: %q", name, why)
		}
		count := 0
		for on, i := range instances.Of(s, nil, w.instance.Plugin) {
			if on.ID != "n" || i != w.instance {
				t.Errorf("%s: %+v of node %q", name, i, on.ID)
			}
			count++
		}
		if on := instances.On(s, nil, n); len(on) != count || (count == 1) != (c.why == "") {
			t.Errorf("%s: %d count, of the node %d", name, count, len(on))
		}
	}
}

// Given a node that follows the servers of before, whose state is lost, then what runs there as a plugin counts while
// nothing that these servers placed is it in that role; of a node that follows them it never does.
func TestAnOrphanCountsWhereNothingPlacedIsThePlugin(t *testing.T) {
	for name, c := range map[string]struct {
		unfollowed string
		restored   bool
		placed     bool
		role       plugin.Role // of what is placed; empty: the orphan's
		counts     bool
	}{
		"an orphan":                      {node.FollowsOthers, false, false, "", true},
		"beside a placed one":            {node.FollowsOthers, false, true, "", false},
		"beside one of another role":     {node.FollowsOthers, false, true, plugin.RoleNode, true},
		"of a node of this cluster":      {"", false, false, "", false},
		"after a restore":                {"", true, false, "", true},
		"beside one placed by a restore": {"", true, true, "", false},
	} {
		w := newWorld()
		orphan := &plugin.Instance{Plugin: "p", Role: plugin.RoleController, Alloc: "orphan", State: plugin.Ready}
		other := &node.Node{ID: "m", Unfollowed: c.unfollowed, CSI: []*plugin.Instance{orphan}}
		n := &node.Node{ID: "n"}
		if c.placed {
			n.CSI = []*plugin.Instance{w.instance}
		}
		w.instance.Role = cmp.Or(c.role, plugin.RoleController)
		store := state.New()
		if err := store.Write(state.Stamp{Index: 1}, func(tx *state.Tx) error {
			tx.PutJob(w.job)
			w.alloc.JobCreateIndex = 1
			tx.PutAlloc(w.alloc)
			tx.PutNode(n)
			tx.PutNode(other)
			m := &state.Meta{ClusterID: "c", Incarnation: "now"}
			if c.restored {
				m.Parents = []string{"before"}
			}
			tx.PutMeta(m)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if on := instances.On(store.Snapshot(), nil, other); (len(on) == 1) != c.counts {
			t.Errorf("%s: %d count", name, len(on))
		}
	}
}

// Given a node with an instance in an alloc that the servers know, one in an alloc of theirs on another node, and one
// in an alloc that they do not know, then those that may be more than a restored state tells are the last, which is
// first, and the one that counts.
func TestWhatTheServersDoNotKnowIsAskedToo(t *testing.T) {
	w := newWorld()
	unknown := &plugin.Instance{Plugin: "p", Role: plugin.RoleController, Alloc: "unknown", State: plugin.Ready}
	foreign := &plugin.Instance{Plugin: "p", Role: plugin.RoleController, Alloc: "b", State: plugin.Ready}
	other := *w.alloc
	other.ID, other.Node = "b", "m"
	n := &node.Node{ID: "n", CSI: []*plugin.Instance{foreign, w.instance, unknown}}
	store := state.New()
	if err := store.Write(state.Stamp{Index: 1}, func(tx *state.Tx) error {
		tx.PutJob(w.job)
		w.alloc.JobCreateIndex, other.JobCreateIndex = 1, 1
		tx.PutAlloc(w.alloc)
		tx.PutAlloc(&other)
		tx.PutNode(n)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s := store.Snapshot()
	if got := instances.OnOrUnknown(s, n); len(got) != 2 || got[0] != unknown || got[1] != w.instance {
		t.Errorf("asked are %+v", got)
	}
	if got := instances.On(s, nil, n); len(got) != 1 || got[0] != w.instance {
		t.Errorf("those that count are %+v", got)
	}
	if instances.On(s, nil, nil) != nil || instances.OnOrUnknown(s, nil) != nil {
		t.Error("no node has instances")
	}
}

// Given an alloc that was placed, one that was adopted after it, and none, then the order in which the servers placed
// them is that of their own log: an orphan stands where it was adopted, whenever others had made it.
func TestWhatWasAdoptedWasPlacedThen(t *testing.T) {
	w := newWorld()
	store := state.New()
	for i, id := range []ids.Alloc{"a", "b", "c"} {
		if err := store.Write(state.Stamp{Index: uint64(10 * (i + 1))}, func(tx *state.Tx) error {
			a := *w.alloc
			a.ID = id
			if id == "a" {
				a.Adopted = 25
			}
			tx.PutAlloc(&a)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	s := store.Snapshot()
	for id, want := range map[ids.Alloc]uint64{"a": 25, "b": 20, "c": 30, "none": 0} {
		if got := instances.Placed(s, &plugin.Instance{Alloc: id}); got != want {
			t.Errorf("%s was placed at %d, want %d", id, got, want)
		}
	}
}
