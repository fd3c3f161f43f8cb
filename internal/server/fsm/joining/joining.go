// Package joining owns the commands by which a cluster has an authority of its own, makes join tokens known, and takes
// servers and nodes in. Only packages of the server import it.
package joining

import (
	"bytes"
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/partitions"
	"berth/internal/server/state"
)

// Schema is the number of the cluster from which on it has an authority.
const Schema = 7

func init() {
	fsm.Register[AuthorityPut]("authority-put", Schema, "server/keyring")
	fsm.Register[AdmissionPut]("admission-put", Schema, "server/endpoint/joining")
	fsm.Register[AdmissionDelete]("admission-delete", Schema, "server/endpoint/joining")
	fsm.Register[Join]("join", Schema, "server/endpoint/joining")
}

// AuthorityPut gives the cluster its authority. One that has an authority keeps it.
type AuthorityPut struct {
	Root   []byte // DER
	Sealed []byte // the key; only the keyring can open it
}

// Apply returns the *state.Authority that holds.
func (c *AuthorityPut) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	if a := tx.Authority(nil); a != nil {
		return a, nil
	}
	a := &state.Authority{Root: c.Root, Sealed: c.Sealed, Created: st.Time}
	tx.PutAuthority(a)
	return a, nil
}

// PoolsSchema is the number of the cluster from which on join tokens are for nodes of one pool.
const PoolsSchema = 12

// AdmissionPut makes a join token known, and forgets those that have expired.
type AdmissionPut struct{ Admission trust.Admission }

// Needs is what the token needs: a server of an older version would not know of its pool.
func (c *AdmissionPut) Needs() uint64 {
	if c.Admission.NodePool != "" {
		return PoolsSchema
	}
	return 0
}

// Apply returns the stored *trust.Admission.
func (c *AdmissionPut) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	a := c.Admission
	a.Created = st.Time
	if err := a.Check(st.Time); err != nil {
		return nil, err
	}
	if a.NodePool != "" && !partitions.HasPool(&tx.Snap, a.NodePool) {
		return nil, fault.WithHint(
			fault.New(fault.NotFound, "make", "join token", fmt.Sprintf("there is no node pool %q", a.NodePool)),
			"make it first: berth node pool apply "+a.NodePool)
	}
	left := 0
	for _, old := range slices.Collect(tx.Admissions(nil)) {
		switch {
		case old.ID == a.ID && !bytes.Equal(old.Hash, a.Hash):
			return nil, fault.New(fault.Conflict, "make", "join token", "there is another one of id "+a.ID)
		case old.ID == a.ID: // it was made, and the answer was lost
			return old, nil
		case !old.Expires.After(st.Time):
			tx.DeleteAdmission(old.ID)
		default:
			left++
		}
	}
	if left >= trust.MaxAdmissions {
		return nil, fault.WithHint(
			fault.New(fault.Invalid, "make", "join token", fmt.Sprintf("there are %d that have not expired", left)),
			"look at them with berth operator join-token list, and revoke some, or wait until they expire")
	}
	tx.PutAdmission(&a)
	return &a, nil
}

// AdmissionDelete revokes a join token.
type AdmissionDelete struct{ ID string }

// Apply returns nil.
func (c *AdmissionDelete) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	if !tx.DeleteAdmission(c.ID) {
		return nil, fault.New(fault.NotFound, "revoke", "join token "+c.ID, "there is none of that id")
	}
	return nil, nil
}

// Releases is true: it takes something away.
func (c *AdmissionDelete) Releases() bool { return true }

// Join takes a server or node in by a join token. One that has joined stays in by its key, without a token: so a join
// whose answer was lost is repeated, and certificates are renewed. No certificate is issued without it: whoever was
// denied before gets none.
type Join struct {
	Role  trust.Role
	ID    string
	Key   trust.KeyID
	Token string // its id
	Hash  []byte // of what was shown
	// Seal is a server's, and Wraps are the data keys, sealed for it: who is in can open what is sealed. A cluster that
	// has data keys understands them.
	Seal  []byte         `cbor:",omitempty"`
	Wraps []keys.Wrapped `cbor:",omitempty"`
	// Address is where others reach a server.
	Address string `cbor:",omitempty"`
	// Root is that of the cluster, if a node shows that it has it on its disk.
	Root trust.KeyID `cbor:",omitempty"`
}

// Releases lets a renewal through when the disk is nearly full: what runs goes on, and its node stays one by it.
func (c *Join) Releases() bool { return c.Token == "" }

// Apply returns the *trust.Member.
func (c *Join) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	switch m, err := Known(&tx.Snap, c.Role, c.ID, c.Key); {
	case err != nil:
		return nil, err
	case m != nil && c.Root != "" && m.Root != c.Root:
		now := *m
		now.Root = c.Root
		tx.PutMember(&now)
		return &now, nil
	case m != nil:
		return m, nil
	}
	known := tx.Admission(nil, c.Token)
	if err := known.Admits(c.Token, c.Hash, c.Role, st.Time); err != nil {
		return nil, err
	}
	used := *known
	used.Uses--
	tx.PutAdmission(&used)
	m := &trust.Member{
		Role:   c.Role,
		ID:     c.ID,
		Key:    c.Key,
		Seal:   c.Seal,
		Token:  c.Token,
		Joined: st.Time,

		Address:  c.Address,
		NodePool: known.NodePool,
	}
	tx.PutMember(m)
	if _, err := (&keys.Wrap{Wraps: c.Wraps}).Apply(tx, st); err != nil {
		return nil, err
	}
	return m, nil
}
