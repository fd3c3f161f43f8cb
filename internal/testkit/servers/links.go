package servers

import (
	"context"
	"net"

	"berth/internal/testkit/certificates"
)

// DialAs connects a node that has a name in this network, by which its links are cut.
func (c *Cluster) DialAs(
	ctx context.Context, name string, to *Member, protocol string, cred *certificates.Credentials,
) (net.Conn, error) {
	return c.dial(ctx, name, to.Name, protocol, cred)
}

// CutLink ends what goes between two that have names, and lets nothing through until Heal.
func (c *Cluster) CutLink(a, b string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut[link(a, b)] = true
	c.breakCut()
}

// Crash ends a server that nobody hears of any more from now on, and keeps what it has written.
func (m *Member) Crash() {
	m.c.mu.Lock()
	m.c.gone[m.Name] = true
	m.c.breakCut()
	m.c.mu.Unlock()
	m.Stop()
}

// carries reports whether a link lets anything through.
func (c *Cluster) carries(between [2]string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open(between)
}

// open reports the same; the caller holds the lock.
func (c *Cluster) open(between [2]string) bool {
	return !c.cut[between] && !c.gone[between[0]] && !c.gone[between[1]]
}

// breakCut ends the connections of links that are cut; the other end hears of it, too. The caller holds the lock.
func (c *Cluster) breakCut() {
	for conn, between := range c.conns {
		if !c.open(between) {
			conn.shut()
			delete(c.conns, conn)
		}
	}
}

// Hold keeps back whatever goes to or comes from a server until Release: to all others it stands still, and what it
// was about to say is said when it goes on.
func (c *Cluster) Hold(m *Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[m.Name] == nil {
		c.held[m.Name] = make(chan struct{})
	}
}

// Release lets everything that was kept back through.
func (c *Cluster) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, released := range c.held {
		close(released)
		delete(c.held, name)
	}
}

// holding is closed once nothing between two is kept back any more; nil: nothing is.
func (c *Cluster) holding(between [2]string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range between {
		if released := c.held[name]; released != nil {
			return released
		}
	}
	return nil
}

// thread is one connection of a link, at the end of who made it.
type thread struct {
	net.Conn
	c *Cluster
}

// Close implements net.Conn.
func (t *thread) Close() error {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	delete(t.c.conns, t)
	t.shut()
	return nil
}

// shut ends the connection, and whoever waits for it.
func (t *thread) shut() { _ = t.Conn.Close() } // a pipe in memory
