package gc

import (
	"context"
	"math"
	"time"

	"berth/internal/base/ids"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/departure"
)

// expireDepartures ends what is kept of nodes that were forgotten long ago, and of the longest gone where there are too
// many.
func (c *Collector) expireDepartures(ctx context.Context, now time.Time) error {
	for {
		var all []candidate[ids.Node]
		for s := range c.store.Snapshot().AllSessions() {
			if s.Departed != nil {
				all = append(all, candidate[ids.Node]{name: s.Node, at: s.Departed.Time.UnixNano()})
			}
		}
		over := excess(all, now, departure.KeptFor, departure.Most, math.MaxInt)
		if len(over) == 0 {
			return nil
		}
		n, _, err := fsm.Propose[int](ctx, c.proposer, &departure.Expire{Nodes: over})
		if err != nil || n == 0 {
			return err
		}
		c.log.Debug("ended what was kept of nodes that were forgotten", "nodes", n)
	}
}
