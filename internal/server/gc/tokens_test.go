package gc

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/model/acl"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/acls"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// counting counts the commands that pass through it.
type counting struct {
	*localstate.Cluster
	sent atomic.Int64
}

func (c *counting) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	if _, ok := cmd.(*acls.TokensExpire); ok {
		c.sent.Add(1)
	}
	return c.Cluster.Propose(ctx, cmd)
}

// TestTokensThatHaveExpiredAreForgotten in a few commands, and nothing is written where none has.
func TestTokensThatHaveExpiredAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{Cluster: localstate.New(t)}
		begin := time.Now()
		err := c.Store.Write(state.Stamp{Index: 2, Time: begin}, func(tx *state.Tx) error {
			for i := range maxBatch + 10 {
				tx.PutACLToken(&acl.Token{
					Accessor:   fmt.Sprint("short-", i),
					SecretHash: fmt.Append(nil, i),
					Created:    begin,
					Expires:    begin.Add(time.Minute),
				})
			}
			tx.PutACLToken(&acl.Token{Accessor: "long", SecretHash: []byte("l"), Expires: begin.Add(time.Hour)})
			tx.PutACLToken(&acl.Token{Accessor: "ever", SecretHash: []byte("e")})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Skip(1)
		ended := make(chan error, 1)
		go func() { ended <- New(c.Store, c, Hold(Ages{}), slog.New(slog.DiscardHandler)).Run(t.Context()) }()
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		if c.sent.Load() != 0 {
			t.Errorf("%d commands before any token has expired", c.sent.Load())
		}
		time.Sleep(time.Second + everyCount)
		synctest.Wait()
		var left string
		for tok := range c.Store.Snapshot().ACLTokens(nil, "") {
			left += tok.Accessor + " "
		}
		if left != "ever long " || c.sent.Load() != 2 {
			t.Errorf("%q are left after %d commands", left[:min(len(left), 100)], c.sent.Load())
		}
	})
}
