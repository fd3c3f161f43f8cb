// Package localstate owns a replicated state without a log, for tests: commands are encoded, decoded and applied at
// once, as one server with a perfect disk would. Only tests import it.
package localstate

import (
	"context"
	"sync"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/port/raftlog"
	"berth/internal/server/fsm"
	"berth/internal/server/partitions"
	"berth/internal/server/state"
)

// Cluster is a bootstrapped state and the proposer that changes it.
type Cluster struct {
	Store *state.Store
	FSM   *fsm.FSM

	mu    sync.Mutex
	index uint64
}

// New returns a bootstrapped cluster.
func New(t testing.TB) *Cluster {
	t.Helper()
	store := state.New()
	c := &Cluster{Store: store, FSM: fsm.New(store), index: 1}
	err := store.Write(state.Stamp{Index: 1, Time: time.Now()}, func(tx *state.Tx) error {
		schema := max(fsm.Schema(), partitions.Schema) // of all commands, also where a test knows a few of them
		tx.PutMeta(&state.Meta{ClusterID: ids.New(), Incarnation: ids.New(), Schema: schema})
		partitions.Found(tx, schema)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Propose applies a command.
func (c *Cluster) Propose(_ context.Context, cmd fsm.Command) (any, uint64, error) {
	data, err := fsm.Encode(cmd, time.Now())
	if err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index++
	e := raftlog.Entry{Index: c.index, Data: data}
	result := c.FSM.ApplyBatch([]raftlog.Entry{e})[0]
	if err, ok := result.(error); ok {
		return nil, c.index, err
	}
	return result, c.index, nil
}

// Must applies a command and fails the test if it is refused.
func (c *Cluster) Must(t testing.TB, cmd fsm.Command) any {
	t.Helper()
	v, _, err := c.Propose(t.Context(), cmd)
	if err != nil {
		t.Fatalf("%T: %v", cmd, err)
	}
	return v
}

// Skip lets the log go on at a higher index, as it does where entries are not commands, or after a restore.
func (c *Cluster) Skip(entries uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index += entries
}
