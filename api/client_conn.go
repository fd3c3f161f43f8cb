package api

import (
	"context"
	"net"
	"sync"
)

// askedConn is a connection on which nothing is heard before something was asked. What listens may speak first: a port
// of something else, an agent that has too many connections. Go's transport drops what comes before its request, and
// the reason with it.
type askedConn struct {
	net.Conn
	once  sync.Once
	asked chan struct{} // closed when something was, and at the end
}

func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &askedConn{Conn: conn, asked: make(chan struct{})}, nil
}

func (c *Client) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if c.socket != "" {
		network, address = "unix", c.socket
	}
	if c.config.Dial != nil {
		return c.config.Dial(ctx, network, address)
	}
	return c.dialer.DialContext(ctx, network, address)
}

// Read implements net.Conn.
func (a *askedConn) Read(p []byte) (int, error) {
	<-a.asked
	return a.Conn.Read(p)
}

// Write implements net.Conn.
func (a *askedConn) Write(p []byte) (int, error) {
	a.once.Do(func() { close(a.asked) })
	return a.Conn.Write(p)
}

// Close implements net.Conn.
func (a *askedConn) Close() error {
	a.once.Do(func() { close(a.asked) })
	return a.Conn.Close()
}
