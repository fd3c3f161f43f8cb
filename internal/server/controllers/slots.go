package controllers

import (
	"cmp"
	"context"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/plugin"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Credits says how many calls of a kind a node makes at once of a plugin; 0: as many as of one that does not say it.
type Credits func(ids.Plugin) int

// defaultCredits is how many calls of a kind a node makes at once that does not say it.
const defaultCredits = 10

// AtOnce is how many calls of a kind a node's controller instance of a plugin takes at once, as its job says; 0: that
// says nothing. Of several instances the one that takes fewest counts.
func AtOnce(s *state.Snap, on ids.Node, id ids.Plugin) (least int) {
	n := s.Node(nil, on)
	if n == nil {
		return 0
	}
	for _, i := range n.CSI {
		if i.Plugin != id || i.Role != plugin.RoleController {
			continue
		}
		if says := saysOf(s, i); says != 0 && (least == 0 || says < least) {
			least = says
		}
	}
	return least
}

// saysOf is what the job of an instance says.
func saysOf(s *state.Snap, i *plugin.Instance) int {
	a := s.Alloc(nil, i.Alloc)
	if a == nil {
		return 0
	}
	j := s.JobOf(nil, a)
	if j == nil {
		return 0
	}
	g := j.Group(a.TaskGroup)
	if g == nil {
		return 0
	}
	for _, t := range g.Tasks {
		if t.CSIPluginConfig != nil && t.CSIPluginConfig.ID == string(i.Plugin) {
			return t.CSIPluginConfig.MaxParallel
		}
	}
	return 0
}

// slots are the calls of one kind of a plugin that a node makes, and those that wait until one of them has ended, in
// the order in which they came.
type slots struct {
	busy    int
	waiting []chan struct{} // closed when it may begin
}

// next has as many begin as may. The caller holds the lock.
func (q *slots) next(most int) {
	for q.busy < most && len(q.waiting) > 0 {
		close(q.waiting[0])
		q.waiting = q.waiting[1:]
		q.busy++
	}
}

// slotKey separates plugins, and undoing from making, so that none starves another.
type slotKey struct {
	plugin ids.Plugin
	undo   bool
}

// begin waits until the node makes few enough calls; end has the next one begin.
func (d *Dispatcher) begin(
	ctx context.Context, node ids.Node, s *nodeStream, call *wire.ControllerCall,
) (end func(), err error) {
	key := slotKey{call.Plugin, call.Undoes()}
	may := make(chan struct{})
	change := func(by func(*slots)) {
		most := cmp.Or(max(s.credits(call.Plugin), 0), defaultCredits)
		d.mu.Lock()
		defer d.mu.Unlock()
		q := s.slots[key]
		if q == nil {
			q = &slots{}
			s.slots[key] = q
		}
		by(q)
		q.next(most)
	}
	end = func() { change(func(q *slots) { q.busy-- }) }
	change(func(q *slots) { q.waiting = append(q.waiting, may) })
	select {
	case <-may:
		return end, nil
	case <-s.gone:
		err = fault.New(fault.Unavailable, call.Kind, call.Subject, notConnected(node))
	case <-ctx.Done():
		err = fault.Wrap(ctx.Err(), fault.Unavailable, call.Kind, call.Subject)
	}
	change(func(q *slots) {
		if i := slices.Index(q.waiting, may); i >= 0 {
			q.waiting = slices.Delete(q.waiting, i, i+1)
		} else { // it was let in at the same time
			q.busy--
		}
	})
	return nil, err
}
