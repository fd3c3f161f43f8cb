package nodes

import (
	"slices"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// An agent that is refused asks again every 40 seconds; one that was not heard for refusedShown is gone. keptRefusals
// bounds how many are shown of a node.
const (
	refusedShown = 2 * time.Minute
	keptRefusals = 4
)

// refusals remembers which agents this server has refused, because another one acts as their node. It is no state: a
// refused agent must not write to the log, and the next leader hears of it at its next try.
type refusals struct {
	mu sync.Mutex
	by map[ids.Node][]wire.RefusedAgent
}

// note remembers the refusal of an agent beside the obeyed session of its node.
func (r *refusals) note(start wire.AgentStart, obeyed *node.Session, why node.Admission) {
	now := time.Now().UTC()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[ids.Node][]wire.RefusedAgent{}
	}
	list := present(r.by[obeyed.Node], now)
	i := slices.IndexFunc(list, func(a wire.RefusedAgent) bool {
		return a.Address == start.Address && a.Boot == start.Machine.Boot
	})
	if i < 0 {
		list = append(list, wire.RefusedAgent{Address: start.Address, Boot: start.Machine.Boot, Since: now})
		list = list[max(0, len(list)-keptRefusals):]
		i = len(list) - 1
	}
	list[i].Why, list[i].Last = why, now
	list[i].Obeyed, list[i].ObeyedSince = obeyed.Address, obeyed.Since
	r.by[obeyed.Node] = list
}

// forget drops what is remembered of a node: another session of it begins, which one of them may be.
func (r *refusals) forget(id ids.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, id)
}

// of lists the agents that are refused now.
func (r *refusals) of(id ids.Node) []wire.RefusedAgent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return present(r.by[id], time.Now())
}

// present leaves out those that were not heard for a while.
func present(list []wire.RefusedAgent, now time.Time) (out []wire.RefusedAgent) {
	for _, a := range list {
		if now.Sub(a.Last) < refusedShown {
			out = append(out, a)
		}
	}
	return out
}
