package servers

import (
	"context"
	"crypto/x509"
	"fmt"
	"path/filepath"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/keyring"
)

// add makes one more server, that does not run yet.
func (c *Cluster) add() *Member {
	c.t.Helper()
	name := fmt.Sprintf("s%d", len(c.Members)+1)
	m := &Member{
		Name: name,
		c:    c,
		dir:  filepath.Join(c.base, name),
		cred: c.Trust.Server(c.t, name),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Members = append(c.Members, m)
	return m
}

// founders are the first voters, as a server knows them when it has no log; none: it is given them by a leader.
func (c *Cluster) founders(of *Member) []*Member {
	first := c.Members[:c.begun]
	for _, m := range first {
		if m == of {
			return first
		}
	}
	return nil
}

// Join starts one more server, with an empty log and a key of its own. It is nobody's until List has it listed.
func (c *Cluster) Join() *Member {
	c.t.Helper()
	m := c.add()
	if _, err := keyring.Create(m.keys()); err != nil {
		c.t.Fatal(err)
	}
	m.Start()
	return m
}

func (m *Member) keys() string { return filepath.Join(m.dir, "keyring") }

// List has the server that leads take down another one, or itself, as one that has shown a join token.
func (m *Member) List(ctx context.Context, other *Member) error {
	ring, err := keyring.Open(other.keys())
	if err != nil {
		return err
	}
	shown, err := other.cred.Certificate()
	if err != nil {
		return err
	}
	leaf, err := x509.ParseCertificate(shown.Certificate[0])
	if err != nil {
		return err
	}
	_, _, err = m.Propose(ctx, &joining.ServerPut{
		Name:    other.Name,
		Key:     trust.KeyOf(leaf),
		Address: other.Name,
		Seal:    ring.Public(),
		Leads:   true,
	})
	return err
}

// Removed reports whether the server knows that it was removed.
func (m *Member) Removed() bool {
	r := m.Store().Snapshot().Member(nil, trust.Server, m.Name)
	return r != nil && r.Gone()
}

// colleague admits servers that this one does not know to be removed.
func (m *Member) colleague(p trust.Peer) error {
	if err := only(trust.Server)(p); err != nil {
		return err
	}
	if r := m.Store().Snapshot().Member(nil, trust.Server, p.ID); r != nil && r.Gone() {
		return fault.New(fault.Denied, "admit", p.String(), "it was removed")
	}
	return nil
}
