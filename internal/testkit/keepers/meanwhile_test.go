package keepers

import (
	"strings"
	"testing"
	"testing/synctest"

	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/recovery"
)

// Given a deletion that waits for other calls of its volume, when there comes meanwhile what it must wait for, then the
// provider is not asked when they have ended; and it is, if nothing has come.
func TestWhatComesWhileACallWaitsCounts(t *testing.T) {
	old := func(t *testing.T, w *world) { // a node shows that the servers' state is older than the world
		seen := w.c.Store.Snapshot().Point(nil)
		seen.Mark = "of another history"
		w.c.Must(t, &recovery.Evidence{Node: "n1", Seen: seen, Relation: lineage.Forked})
	}
	unheard := func(t *testing.T, w *world) { // a node is there that has not said yet what it holds
		w.c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n2", Name: "n2", Status: node.StatusReady}})
	}
	nothing := func(*testing.T, *world) {}
	const (
		snapshot = "answer expand v1 hold\nexpand v1 size=2000 wait=0s\ndelete-snapshot v1 wait=0s"
		whole    = "answer delete-snapshot v1 hold\ndelete-snapshot v1 wait=0s\ndelete v1 wait=0s"
	)
	for name, c := range map[string]struct {
		waits, ends, asked string
		comes              func(*testing.T, *world)
		goes               bool
	}{
		"a snapshot":                        {snapshot, "expand", "is asked to delete-snapshot", nothing, true},
		"a snapshot, the state is old":      {snapshot, "expand", "is asked to delete-snapshot", old, false},
		"a volume":                          {whole, "delete-snapshot", "is asked to delete v1", nothing, true},
		"a volume, the state is old":        {whole, "delete-snapshot", "is asked to delete v1", old, false},
		"a volume, a node says nothing yet": {whole, "delete-snapshot", "is asked to delete v1", unheard, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.play("node n1\nreport n1\ncreate v1\nsnapshot v1 name=a\n" + c.waits)
				c.comes(t, w)
				synctest.Wait()
				got := w.play("finish " + c.ends + " v1\nwait 1s")
				if asked := strings.Contains(got, c.asked); asked != c.goes {
					t.Errorf("asked: %v, want %v\n%s", asked, c.goes, got)
				}
			})
		})
	}
}
