package gc

import (
	"context"
	"math"
	"time"

	"berth/internal/base/ids"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/deployments"
)

// collectDeployments forgets the deployments that were over an age ago, where every server knows how.
func (c *Collector) collectDeployments(ctx context.Context, age time.Duration) error {
	for {
		s := c.store.Snapshot()
		if m := s.Meta(nil); m == nil || m.Schema < deployments.CollectSchema {
			return nil
		}
		var all []candidate[ids.Deployment]
		for d := range s.Deployments(nil, "") {
			if deployments.Over(s, d) {
				all = append(all, candidate[ids.Deployment]{name: d.ID, at: d.ModifyTime})
			}
		}
		over := excess(all, time.Now(), age, math.MaxInt, math.MaxInt)
		if len(over) == 0 {
			return nil
		}
		n, _, err := fsm.Propose[int](ctx, c.proposer, &deployments.Collect{Deployments: over})
		if err != nil || n == 0 {
			return err
		}
		c.log.Debug("forgot deployments that are over", "deployments", n)
	}
}
