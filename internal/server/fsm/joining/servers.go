package joining

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/model/datakey"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/state"
)

// ServersSchema is the number of the cluster from which on it has a list of its servers.
const ServersSchema = 8

func init() {
	fsm.Register[ServerPut]("server-put", ServersSchema, "server/endpoint/joining")
	fsm.Register[ServerRemove]("server-remove", ServersSchema, "server/membership")
}

// ServerPut says where a server is found. The one that began the cluster comes into the list of its servers by it;
// others are there since they joined.
type ServerPut struct {
	Name    string
	Key     trust.KeyID
	Address string
	Seal    []byte
	// Leads: it is the server that leads, which comes in without a token, and with another key than it had.
	Leads bool
}

// Apply returns the *trust.Member.
func (c *ServerPut) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	old := tx.Member(nil, trust.Server, c.Name)
	m := trust.Member{Role: trust.Server, ID: c.Name, Joined: st.Time}
	if old != nil {
		m = *old
	}
	switch {
	case old == nil && !c.Leads:
		return nil, fault.New(fault.NotFound, "note", fmt.Sprintf("server %q", c.Name), "it has not joined")
	case m.Gone():
		return nil, m.Accepts(c.Key)
	case !c.Leads && m.Key != c.Key:
		return nil, m.Accepts(c.Key)
	}
	m.Key, m.Address = c.Key, c.Address
	m.Seal = c.Seal
	tx.PutMember(&m)
	return &m, nil
}

// ServerRemove takes a server out of the cluster, and what lets it open the data keys. Its name stays taken.
type ServerRemove struct{ Name string }

// Apply returns the *trust.Member.
func (c *ServerRemove) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	old := tx.Member(nil, trust.Server, c.Name)
	if old == nil {
		return nil, fault.New(fault.NotFound, "remove", fmt.Sprintf("server %q", c.Name), "there is none of that name")
	}
	if old.Gone() { // it was removed, and the answer was lost
		return old, nil
	}
	left := 0
	for m := range tx.Members(nil, trust.Server) {
		if !m.Gone() {
			left++
		}
	}
	if left == 1 {
		return nil, fault.New(fault.Conflict, "remove", fmt.Sprintf("server %q", c.Name), "it is the only one")
	}
	unwrap := keys.Unwrap{Holders: []datakey.Holder{{Kind: datakey.Server, Name: c.Name}}}
	if _, err := unwrap.Apply(tx, st); err != nil {
		return nil, err
	}
	m := *old
	m.Removed = st.Time
	tx.PutMember(&m)
	return &m, nil
}

// Releases is true: it takes something away.
func (c *ServerRemove) Releases() bool { return true }
