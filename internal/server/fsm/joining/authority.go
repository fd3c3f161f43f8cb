package joining

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// RotationSchema is the number of the cluster from which on its root can be replaced.
const RotationSchema = 10

func init() {
	fsm.Register[AuthorityRotate]("authority-rotate", RotationSchema, "server/keyring")
	fsm.Register[AuthorityFinish]("authority-finish", RotationSchema, "server/keyring")
}

// theAuthority is the subject of faults.
const theAuthority = "the cluster's authority"

// AuthorityRotate replaces the root by one that it vouches for. The root before is trusted for an overlap.
type AuthorityRotate struct {
	After  []byte // the root that it follows, DER: of two that are made at once one holds
	Root   []byte // DER
	Cross  []byte // by which After vouches for Root, DER
	Sealed []byte // the key; only the keyring can open it
	By     string
}

// Apply returns the *state.Authority.
func (c *AuthorityRotate) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	a := tx.Authority(nil)
	switch {
	case a == nil:
		return nil, fault.New(fault.Conflict, "rotate", theAuthority, "there is none")
	case bytes.Equal(a.Root, c.Root): // it was made, and the answer was lost
		return a, nil
	case !bytes.Equal(a.Root, c.After):
		return nil, fault.WithHint(fault.New(fault.Conflict, "rotate", theAuthority, "another root was made meanwhile"),
			"look at it with berth operator ca list")
	case len(a.Former) > 0:
		return nil, fault.WithHint(
			fault.New(fault.Conflict, "rotate", theAuthority, "the root before the present one is trusted until "+
				a.Former[0].Until.UTC().Format("2006-01-02 15:04:05Z")),
			"have it forgotten first: berth operator ca finish")
	}
	if err := tx.Sealable(c.Sealed); err != nil {
		return nil, err
	}
	now := &state.Authority{
		Root:    c.Root,
		Sealed:  c.Sealed,
		Created: st.Time,
		By:      c.By,
		Former:  []trust.Former{{Root: a.Root, Cross: c.Cross, Until: st.Time.Add(trust.Overlap)}},
	}
	tx.PutAuthority(now)
	return now, nil
}

// AuthorityFinish forgets roots that were replaced: those whose time is over, or with Early all of them.
type AuthorityFinish struct {
	Early bool
	// Force: also where nodes have not shown that they know the present root.
	Force bool
}

// Apply returns the *state.Authority.
func (c *AuthorityFinish) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	a := tx.Authority(nil)
	if a == nil || len(a.Former) == 0 {
		return a, nil // it was done, and the answer was lost
	}
	if c.Early && !c.Force {
		if err := unaware(tx, a); err != nil {
			return nil, err
		}
	}
	now := *a
	now.Former = slices.DeleteFunc(slices.Clone(a.Former), func(f trust.Former) bool {
		return c.Early || !f.Until.After(st.Time)
	})
	if len(now.Former) < len(a.Former) {
		tx.PutAuthority(&now)
	}
	return &now, nil
}

// Releases is true: it takes something away.
func (c *AuthorityFinish) Releases() bool { return true }

// RootsAsOf is the index at which the authority of a state last changed, and with it the roots; 0: there is none.
func RootsAsOf(s *state.Snap) uint64 {
	if a := s.Authority(nil); a != nil {
		return a.ModifyIndex
	}
	return 0
}

// maxNamed is how many nodes a refusal names.
const maxNamed = 20

// unaware refuses to forget former roots while nodes of the state would be lost by that.
func unaware(tx *state.Tx, a *state.Authority) error {
	nodes, err := Unaware(&tx.Snap, nil, a)
	if err != nil {
		return err
	}
	return Lost(slices.DeleteFunc(nodes, func(k Kept) bool { return k.Forgotten }))
}

// Lost refuses to forget former roots by which nodes would be lost; nil: there are none.
func Lost(nodes []Kept) error {
	if len(nodes) == 0 {
		return nil
	}
	names := make([]string, 0, maxNamed)
	for _, n := range nodes[:min(len(nodes), maxNamed)] {
		name := fmt.Sprintf("%s (%s)", n.Name, n.ID)
		if n.Forgotten {
			name = fmt.Sprintf("%s (%s, purged or collected, which may come back)", n.Name, n.ID)
		}
		names = append(names, name)
	}
	if more := len(nodes) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fault.WithHint(
		fault.New(fault.Conflict, "forget", "the former root", "nodes have not shown that they know the present one: "+
			strings.Join(names, ", ")),
		"start their agents and wait; or forget it all the same, with -force: each of these nodes needs a new join "+
			"token then")
}

// Kept is a node of the cluster that has joined.
type Kept struct {
	ID   ids.Node
	Name string
	// Forgotten: it was purged or collected, and may come back as itself.
	Forgotten bool
}

// Unaware are the nodes of a state which would not believe what the present root of an authority issues once the former
// ones are forgotten, as far as the servers know: those that have a record, or may come back, and are not denied.
func Unaware(s *state.Snap, w *state.Watch, a *state.Authority) ([]Kept, error) {
	root, err := x509.ParseCertificate(a.Root)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", theAuthority)
	}
	key := trust.KeyOf(root)
	var out []Kept
	for m := range s.Members(w, trust.Node) {
		if m.Denied != nil || m.Knows(key, a.Created) {
			continue
		}
		id := ids.Node(m.ID)
		if n := s.Node(w, id); n != nil {
			out = append(out, Kept{ID: id, Name: n.Name})
		} else if d := s.Departure(id); d != nil {
			out = append(out, Kept{ID: id, Name: d.Name, Forgotten: true})
		}
	}
	return out, nil
}
