package wire

import (
	"context"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	"berth/internal/base/lifecycle"
)

func serveAll(ctx context.Context, gs *grpc.Server, listeners []net.Listener) error {
	g, gctx := lifecycle.NewGroup(ctx)
	for _, l := range listeners {
		g.Go("serve "+l.Addr().String(), func() error {
			if err := gs.Serve(l); err != nil && gctx.Err() == nil && !errors.Is(err, grpc.ErrServerStopped) {
				return err
			}
			return nil
		})
	}
	g.Go("stop", func() error {
		<-gctx.Done()
		gs.Stop()
		return nil
	})
	return g.Wait()
}

// Pipe is the in-process transport: a listener for one half and a dialer for the other, without a port.
type Pipe struct{ l *bufconn.Listener }

// NewPipe returns a pipe.
func NewPipe() *Pipe { return &Pipe{l: bufconn.Listen(256 << 10)} }

// Listener is the serving end.
func (p *Pipe) Listener() net.Listener { return p.l }

// Dial opens a raw connection to the serving end.
func (p *Pipe) Dial(ctx context.Context) (net.Conn, error) { return p.l.DialContext(ctx) }

// reconnect bounds the pauses between tries to reach the other side: a server that is back is found within seconds.
var reconnect = backoff.Config{
	BaseDelay:  100 * time.Millisecond,
	Multiplier: 1.6,
	Jitter:     0.2,
	MaxDelay:   3 * time.Second,
}

// Bounds of silence on a connection: the other end is asked whether it is there, and given up if it does not answer.
// Whoever is gone without a word, or stands still, is noticed within seconds.
const (
	quiet    = 10 * time.Second // the least that gRPC lets a client wait
	patience = 5 * time.Second
)

// Connect returns a client connection over connections that dial makes. While something is called on it, it ends when
// the other end falls silent. Close it when done.
func Connect(dial func(context.Context) (net.Conn, error)) (*grpc.ClientConn, error) {
	return connect(dial, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: quiet, Timeout: patience}))
}

func connect(dial func(context.Context) (net.Conn, error), more ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///berth", append(more,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 5 * time.Second}),
		grpc.WithDisableServiceConfig())...)
}

// attentive are the options of a server by which it notices clients that fell silent, and lets clients ask it.
func attentive() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: quiet, Timeout: patience}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: quiet / 2, PermitWithoutStream: true}),
	}
}

// OneConn is a listener that yields exactly one connection: how an agent serves on the connection that it dialled, so
// that servers can call agents behind address translation.
type OneConn struct {
	conns chan net.Conn
	addr  net.Addr
	done  chan struct{}
}

// NewOneConn wraps a dialled connection.
func NewOneConn(c net.Conn) *OneConn {
	l := &OneConn{conns: make(chan net.Conn, 1), addr: c.LocalAddr(), done: make(chan struct{})}
	l.conns <- c
	return l
}

// Accept yields the connection once, then waits for Close.
func (l *OneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept; the connection itself belongs to the server that accepted it.
func (l *OneConn) Close() error {
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	return nil
}

// Addr is the connection's local address.
func (l *OneConn) Addr() net.Addr { return l.addr }
