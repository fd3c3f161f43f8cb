package server

import (
	"context"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/wire"
)

// Network reaches the methods of the other servers, by their ids.
type Network interface {
	Dial(ctx context.Context, server string) (net.Conn, error)
}

// others holds one connection to each of the other servers that something was asked of.
type others struct {
	network Network

	mu     sync.Mutex
	closed bool
	conns  map[string]*grpc.ClientConn
	lines  map[string]*line
}

// conn returns the connection to a server once it is there. It gives up when ctx ends, or as soon as given is closed.
func (o *others) conn(ctx context.Context, id string, given <-chan struct{}) (wire.Conn, error) {
	c, err := o.dialled(id)
	if err != nil || c.GetState() == connectivity.Ready {
		return c, err
	}
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("give up", func() error {
		defer g.Stop()
		select {
		case <-given:
		case <-gctx.Done():
		}
		return nil
	})
	defer func() {
		g.Stop()
		_ = g.Wait() // it returns nil
	}()
	for {
		state := c.GetState()
		if state == connectivity.Ready {
			return c, nil
		}
		c.Connect()
		if !c.WaitForStateChange(gctx, state) {
			return nil, fault.Wrap(context.Cause(gctx), fault.Unavailable, "reach", "server "+id)
		}
	}
}

func (o *others) dialled(id string) (*grpc.ClientConn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.conns[id]; c != nil {
		return c, nil
	}
	if o.closed || o.network == nil {
		return nil, fault.New(fault.Unavailable, "reach", "server "+id, "this server reaches no others")
	}
	c, err := wire.Connect(func(ctx context.Context) (net.Conn, error) { return o.dial(ctx, id) })
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "reach", "server "+id)
	}
	if o.conns == nil {
		o.conns = map[string]*grpc.ClientConn{}
	}
	o.conns[id] = c
	return c, nil
}

// close ends all connections.
func (o *others) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	var errs []error
	for _, c := range o.conns {
		errs = append(errs, c.Close())
	}
	o.conns = nil
	return errors.Join(errs...)
}
