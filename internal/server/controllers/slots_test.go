package controllers

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// queue is a dispatcher with one node, of whose plugins as many calls are made at once as says says.
type queue struct {
	*Dispatcher
	s    *nodeStream
	says atomic.Int64
}

func newQueue(says int) *queue {
	q := &queue{Dispatcher: New()}
	q.says.Store(int64(says))
	q.s = &nodeStream{
		credits: func(ids.Plugin) int { return int(q.says.Load()) },
		slots:   map[slotKey]*slots{},
		gone:    make(chan struct{}),
	}
	return q
}

// enter begins calls, one after another, until ctx ends; each that has begun says so and goes on until next is sent.
func (q *queue) enter(ctx context.Context, plugin ids.Plugin, kind string, count int) (began *began) {
	began = newBegan()
	for i := range count {
		began.wg.Go(func() {
			end, err := q.begin(ctx, "n", q.s, &wire.ControllerCall{Kind: kind, Plugin: plugin})
			if err != nil {
				began.failed.Add(1)
				return
			}
			began.say(i)
			<-began.next
			end()
		})
		synctest.Wait()
	}
	return began
}

type began struct {
	wg     sync.WaitGroup
	next   chan struct{}
	failed atomic.Int64
	mu     sync.Mutex
	order  []int
}

func newBegan() *began { return &began{next: make(chan struct{})} }

func (b *began) say(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.order = append(b.order, i)
}

func (b *began) is(t *testing.T, when string, want ...int) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := slices.Sorted(slices.Values(b.order)); !slices.Equal(got, want) { // some begin at the same time
		t.Errorf("%s: the calls %v have begun, want %v", when, got, want)
	}
}

// Given more calls of a plugin than it takes at once, then they begin in their order as others end; and as many as it
// says by then, when that changes.
func TestCallsBeginInOrderAsOthersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(2)
		calls := q.enter(t.Context(), "p", wire.CallAttach, 7)
		calls.is(t, "two at once", 0, 1)
		calls.next <- struct{}{}
		calls.is(t, "one has ended", 0, 1, 2)
		q.says.Store(3)
		calls.next <- struct{}{}
		calls.is(t, "three at once", 0, 1, 2, 3, 4)
		q.says.Store(1)
		calls.next <- struct{}{}
		calls.next <- struct{}{}
		calls.is(t, "one at once", 0, 1, 2, 3, 4)
		calls.next <- struct{}{}
		calls.is(t, "the last of the three has ended", 0, 1, 2, 3, 4, 5)
		close(calls.next)
		calls.wg.Wait()
		calls.is(t, "all have ended", 0, 1, 2, 3, 4, 5, 6)
	})
}

// Given a plugin that makes as many calls as it takes at once, then neither what it undoes nor another plugin waits.
func TestPluginsAndUndoingDoNotWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		calls := q.enter(t.Context(), "p", wire.CallAttach, 2)
		undoes := q.enter(t.Context(), "p", wire.CallDetach, 1)
		others := q.enter(t.Context(), "q", wire.CallAttach, 1)
		calls.is(t, "made", 0)
		undoes.is(t, "undone", 0)
		others.is(t, "of another plugin", 0)
		close(calls.next)
		close(undoes.next)
		close(others.next)
		calls.wg.Wait()
		undoes.wg.Wait()
		others.wg.Wait()
	})
}

// Given calls that wait, when their callers give up, or the node's stream ends, then they fail, and take no place that
// others could have.
func TestACallThatIsGivenUpTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		first := q.enter(t.Context(), "p", wire.CallAttach, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		given := q.enter(ctx, "p", wire.CallAttach, 3)
		time.Sleep(time.Second)
		given.wg.Wait()
		if n := given.failed.Load(); n != 3 {
			t.Errorf("%d of 3 failed", n)
		}
		last := q.enter(t.Context(), "p", wire.CallAttach, 2)
		last.is(t, "while the first is made")
		close(first.next)
		last.is(t, "then", 0)
		close(q.s.gone)
		synctest.Wait()
		if n := last.failed.Load(); n != 1 {
			t.Errorf("the stream has ended, and %d of those that wait failed", n)
		}
		close(last.next)
		last.wg.Wait()
		if of := q.s.slots[slotKey{"p", false}]; of.busy != 0 || len(of.waiting) != 0 {
			t.Errorf("left are %+v", of)
		}
	})
}

// Given a node that says nothing of how many calls it makes, then it makes ten.
func TestANodeThatSaysNothingMakesTenCalls(t *testing.T) {
	for _, says := range []int{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			calls := newQueue(says).enter(t.Context(), "p", wire.CallAttach, 12)
			calls.is(t, "at once", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
			close(calls.next)
			calls.wg.Wait()
		})
	}
}

// Given instances of plugins on nodes, then the job of the controller's instance says how many calls it takes at once;
// of several the one that takes fewest counts, and one that says nothing counts for nothing.
func TestAPluginsJobSaysHowManyCallsItTakesAtOnce(t *testing.T) {
	c := localstate.New(t)
	instance := func(role plugin.Role, id ids.Plugin, a ids.Alloc) *plugin.Instance {
		return &plugin.Instance{Plugin: id, Role: role, Alloc: a}
	}
	if err := c.Store.Write(state.Stamp{Index: 2, Time: time.Now()}, func(tx *state.Tx) error {
		for name, says := range map[string]int{"fifty": 50, "three": 3, "silent": 0} {
			j := &job.Job{Namespace: "default", ID: ids.Job(name), TaskGroups: []*job.TaskGroup{{
				Name: "g",
				Tasks: []*job.Task{
					{Name: "beside"},
					{Name: "another", CSIPluginConfig: &job.CSIPluginConfig{ID: "q", MaxParallel: 7}},
					{Name: "plugin", CSIPluginConfig: &job.CSIPluginConfig{ID: "p", MaxParallel: says}},
				},
			}}}
			tx.PutJob(j)
			tx.PutAlloc(&alloc.Alloc{
				ID:             ids.Alloc(name),
				Namespace:      "default",
				Job:            j.ID,
				JobCreateIndex: j.CreateIndex,
				TaskGroup:      "g",
			})
		}
		controller := plugin.RoleController
		for id, has := range map[ids.Node][]*plugin.Instance{
			"one": {instance(controller, "p", "fifty"), instance(controller, "q", "fifty")},
			"two": {
				instance(controller, "p", "fifty"), instance(controller, "p", "three"),
				instance(controller, "p", "silent"),
			},
			"nodes": {instance(plugin.RoleNode, "p", "three")},
			"lost":  {instance(controller, "p", "gone")},
		} {
			tx.PutNode(&node.Node{ID: id, CSI: has})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s := c.Store.Snapshot()
	for _, want := range []struct {
		on   ids.Node
		of   ids.Plugin
		says int
	}{
		{"one", "p", 50}, {"one", "q", 7}, {"two", "p", 3}, {"two", "q", 0}, {"nodes", "p", 0}, {"lost", "p", 0},
		{"none", "p", 0},
	} {
		if got := AtOnce(s, want.on, want.of); got != want.says {
			t.Errorf("plugin %s on node %s takes %d, want %d", want.of, want.on, got, want.says)
		}
	}
}
