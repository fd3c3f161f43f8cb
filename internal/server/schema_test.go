package server

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
)

// TestAServerDoesNotRunOnANewerState: given a server that has what the state needs, when the schema is raised beyond
// that, then it ends, and says which version it takes; one that starts on such a state ends as well.
func TestAServerDoesNotRunOnANewerState(t *testing.T) {
	c := localstate.New(t)
	ended := make(chan error, 1)
	g, ctx := lifecycle.NewGroup(t.Context())
	g.Go("schema", func() error {
		ended <- watchSchema(ctx, c.Store, fsm.Schema())
		return nil
	})
	c.Must(t, &fsm.SchemaRaise{To: fsm.Schema() + 1})
	for _, err := range []error{<-ended, watchSchema(t.Context(), c.Store, fsm.Schema())} {
		if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "run the version of the others") {
			t.Errorf("%v", err)
		}
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}
