package server

import (
	"context"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
)

// TestAServerDoesNotRunOnANewerState: given a server that has what the state needs, then it runs; when the schema is
// raised beyond that, then it ends, and says which version it takes.
func TestAServerDoesNotRunOnANewerState(t *testing.T) {
	c := localstate.New(t)
	once, cancel := context.WithCancel(t.Context())
	cancel() // it looks, and does not wait for what comes
	if err := watchSchema(once, c.Store, fsm.Schema()); err != nil {
		t.Error(err)
	}
	c.Must(t, &fsm.SchemaRaise{To: fsm.Schema() + 1})
	err := watchSchema(once, c.Store, fsm.Schema())
	if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "run the version of the others") {
		t.Errorf("%v", err)
	}
}
