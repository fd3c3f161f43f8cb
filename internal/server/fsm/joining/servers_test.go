package joining_test

import (
	"testing"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
	"berth/internal/server/fsm/joining"
	"berth/internal/testkit/localstate"
)

// TestServersComeAndGo: the one that leads comes in by itself, others by a token; each says where it is under its own
// key; whoever was removed stays out, and the last one cannot be removed.
func TestServersComeAndGo(t *testing.T) {
	c := localstate.New(t)
	refused := func(what string, kind fault.Kind, put *joining.ServerPut) {
		t.Helper()
		if _, _, err := c.Propose(t.Context(), put); !fault.Has(err, kind) {
			t.Errorf("%s: %v, want %s", what, err, kind)
		}
	}
	refused("a server that has not joined", fault.NotFound, &joining.ServerPut{Name: "s1", Key: "k1"})
	c.Must(t, &joining.ServerPut{Name: "s1", Key: "k1", Address: "10.0.0.1:4647", Leads: true})
	if _, _, err := c.Propose(t.Context(), &joining.ServerRemove{Name: "s1"}); !fault.Has(err, fault.Conflict) {
		t.Errorf("the only server is removed: %v", err)
	}
	c.Must(t, &joining.ServerPut{Name: "s2", Key: "k2", Address: "10.0.0.2:4647", Leads: true})
	refused("another key", fault.Conflict, &joining.ServerPut{Name: "s2", Key: "other", Address: "10.0.0.9:4647"})
	c.Must(t, &joining.ServerPut{Name: "s2", Key: "k2", Address: "10.0.0.3:4647"})
	if m := c.Store.Snapshot().Member(nil, trust.Server, "s2"); m.Address != "10.0.0.3:4647" || m.Key != "k2" {
		t.Errorf("s2 is %+v", m)
	}
	c.Must(t, &joining.ServerRemove{Name: "s2"})
	refused("a server that was removed", fault.Denied, &joining.ServerPut{Name: "s2", Key: "k2"})
	refused("one that was removed and leads", fault.Denied, &joining.ServerPut{Name: "s2", Key: "k2", Leads: true})
	c.Must(t, &joining.ServerRemove{Name: "s2"}) // the answer was lost
	if !c.Store.Snapshot().Member(nil, trust.Server, "s2").Gone() {
		t.Error("it is back")
	}
	if _, _, err := c.Propose(t.Context(), &joining.ServerRemove{Name: "s1"}); !fault.Has(err, fault.Conflict) {
		t.Errorf("the last server is removed: %v", err)
	}
}
