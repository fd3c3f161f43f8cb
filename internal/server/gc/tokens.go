package gc

import (
	"context"
	"time"

	"berth/internal/server/fsm"
	"berth/internal/server/fsm/acls"
)

// expireTokens forgets the tokens of access control lists that have expired: they open nothing any more, and what they
// are called needs no history.
func (c *Collector) expireTokens(ctx context.Context) error {
	for {
		over := false
		for t := range c.store.Snapshot().ACLTokensByExpiry() {
			over = t.Expired(time.Now())
			break
		}
		if !over {
			return nil
		}
		n, _, err := fsm.Propose[int](ctx, c.proposer, &acls.TokensExpire{Most: maxBatch})
		if err != nil {
			return err
		}
		c.log.Debug("forgot tokens that have expired", "tokens", n)
		if n == 0 { // the command's time is a little before this one
			return nil
		}
	}
}
