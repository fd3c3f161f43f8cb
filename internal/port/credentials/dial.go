package credentials

import (
	"context"
	"fmt"
	"net"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
	"berth/internal/port/tlsport"
)

// dial reaches the server whose turn it is; the next call tries the next one if it fails.
func (c *Credentials) dial(ctx context.Context) (net.Conn, string, error) {
	addr := c.turn()
	if addr == "" {
		return nil, addr, fault.New(fault.Unavailable, "reach", "the servers", "none is known")
	}
	raw, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		c.fail(addr)
		return nil, addr, fault.Wrap(err, fault.Unavailable, "reach", "server at "+addr)
	}
	return raw, addr, nil
}

// fail lets the next server have its turn, if it is still that of the one that failed.
func (c *Credentials) fail(addr string) {
	if c.turn() == addr {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.next++
	}
}

// turn is the address of the server whose turn it is, of those that are configured and those that the cluster has told;
// empty: none is known.
func (c *Credentials) turn() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.addresses()
	if len(all) == 0 {
		return ""
	}
	return all[c.next%len(all)]
}

// Reach opens a connection of a protocol to the server of a name.
func (c *Credentials) Reach(ctx context.Context, name, protocol string, shown tlsport.Credentials) (net.Conn, error) {
	addr := ""
	for _, s := range c.Servers() {
		if s.Name == name {
			addr = s.Address
		}
	}
	if addr == "" {
		return nil, fault.New(fault.Unavailable, "reach", fmt.Sprintf("server %q", name), "its address is not known")
	}
	raw, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "reach", fmt.Sprintf("server %q", name))
	}
	conn, err := tlsport.Over(ctx, raw, protocol, name, shown)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "reach", fmt.Sprintf("server %q at %s", name, addr))
	}
	return conn, nil
}

// Way is how connections of one protocol are made to the servers.
type Way struct {
	c        *Credentials
	protocol string
}

// Way returns the way for a protocol.
func (c *Credentials) Way(protocol string) Way { return Way{c, protocol} }

// Dial opens a connection to a server, once the node has joined.
func (w Way) Dial(ctx context.Context) (net.Conn, error) {
	if err := w.c.joined(ctx); err != nil {
		return nil, err
	}
	raw, addr, err := w.c.dial(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := tlsport.Over(ctx, raw, w.protocol, "", w.c)
	if err != nil {
		w.c.fail(addr)
		if trust.IsUntrusted(err) {
			w.c.distrusts()
		}
		return nil, fault.Wrap(err, fault.Unavailable, "connect to", fmt.Sprintf("server at %s", addr))
	}
	return conn, nil
}

// distrusts notes that a server shows what no root that is known here has issued: whether the roots were replaced is
// asked where certificates are issued, which also says what to do.
func (c *Credentials) distrusts() {
	c.mu.Lock()
	c.untrusting = true
	c.mu.Unlock()
	c.wake.Notify()
}

// joined waits until there is a certificate that can be shown. One that is over is renewed at once: the machine was
// suspended, or its clock was set.
func (c *Credentials) joined(ctx context.Context) error {
	for {
		changed := c.changed.C()
		usable, why := c.usable()
		if usable {
			return nil
		}
		c.wake.Notify()
		select {
		case <-ctx.Done():
			return why
		case <-changed:
		}
	}
}
