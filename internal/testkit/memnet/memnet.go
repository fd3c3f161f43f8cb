// Package memnet owns a network within the process: in a bubble of testing/synctest the clock goes on while both ends
// wait on it. Only tests import it.
package memnet

import (
	"context"
	"net"
	"sync"
)

// Listener accepts the connections that Dial makes.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// Listen returns a listener.
func Listen() *Listener { return &Listener{conns: make(chan net.Conn), done: make(chan struct{})} }

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// place is where everything of this network seems to be. Nobody listens there.
var place net.Addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4646}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return place }

// Dial reaches the listener, whatever the address.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return l.DialHeld(ctx, nil)
}

// DialHeld reaches the listener by a connection on which nothing arrives while hold says so, as Pipe has it.
func (l *Listener) DialHeld(ctx context.Context, hold func() <-chan struct{}) (net.Conn, error) {
	here, there := Pipe(hold)
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
