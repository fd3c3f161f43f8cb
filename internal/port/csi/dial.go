// Package csi owns the conversation with CSI plugins (specification 1.13.0): one connection per run of a plugin's
// process, the negotiation of what that process offers, the building of every request from one record, the checking of
// every answer, and the meaning of every error. Calls of groups of snapshots, ControllerModifyVolume and whatever is
// alpha are not made. No CSI protobuf type leaves it. Server and client may import it; nothing on a lower floor does.
//
// A Client is bound to one run of its plugin: when the connection ends, Lost is closed and the client refuses every
// further call. Whoever wants to go on dials again and negotiates again, so no call is ever made on the strength of
// what an earlier process advertised.
package csi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"berth/internal/base/bootclock"
	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/port/csi/echo"
	"berth/internal/port/hostfs"
)

// Bounds of a connection.
const (
	// MaxSocketPath is the longest path of a socket.
	MaxSocketPath = hostfs.MaxSocketPath
	// DefaultMaxAnswer bounds one answer of a plugin, in bytes.
	DefaultMaxAnswer = 4 << 20

	dialTimeout = 20 * time.Second
)

// Options of a connection. The zero value works.
type Options struct {
	Plugin string       // the plugin id, for errors and logs
	Log    *slog.Logger // nil logs nothing
	// overrides of RPC.DefaultTimeout; a call ends at this or at its context, whichever is first
	Timeouts  map[RPC]time.Duration
	Clock     *bootclock.Clock // that they are counted by, suspends included; nil: Go's alone
	MaxAnswer int              // bytes of one answer; 0 means DefaultMaxAnswer
}

// Client is one connection to one run of a plugin process. It is safe for concurrent use; keeping at most one call
// per volume in flight is its callers' duty.
type Client struct {
	conn *grpc.ClientConn
	opts Options
	end  *ending
	inst atomic.Pointer[Instance]
	sent echo.Sent
}

// ending is the one-way news that the connection is gone.
type ending struct {
	once sync.Once
	ch   chan struct{}
}

func (e *ending) signal() { e.once.Do(func() { close(e.ch) }) }

// watchedConn tells the end of the connection, by whichever side.
type watchedConn struct {
	net.Conn
	end *ending
}

func (w watchedConn) Close() error {
	w.end.signal()
	return w.Conn.Close()
}

func (w watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		w.end.signal()
	}
	return n, err
}

// Dial connects to the socket of a plugin and waits until the connection stands. It makes no CSI call; Negotiate comes
// next. A socket that is missing, refuses, or does not speak HTTP/2 is fault.Unavailable. The caller must Close.
func Dial(ctx context.Context, socketPath string, opts Options) (*Client, error) {
	subject := pluginSubject(opts.Plugin)
	if !filepath.IsAbs(socketPath) {
		return nil, fault.New(fault.Invalid, "connect to", subject,
			"the socket path is not absolute: "+strconv.Quote(socketPath))
	}
	if len(socketPath) > MaxSocketPath {
		return nil, fault.WithHint(
			fault.New(fault.Invalid, "connect to", subject, "the socket path has "+strconv.Itoa(len(socketPath))+
				" bytes, more than the "+strconv.Itoa(MaxSocketPath)+" that Linux allows"), "use a shorter data_dir")
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.MaxAnswer <= 0 {
		opts.MaxAnswer = DefaultMaxAnswer
	}
	opts.Log = opts.Log.With(logkey.Plugin, opts.Plugin)

	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := hostfs.DialSocket(ctx, socketPath)
	if err != nil {
		return nil, fault.WithHint(fault.Wrap(err, fault.Unavailable, "connect to", subject),
			"the plugin is not listening; see the logs of its task")
	}
	c := &Client{opts: opts, end: &ending{ch: make(chan struct{})}}
	if err := c.handshake(ctx, raw); err != nil {
		return nil, fault.WithHint(fault.Wrap(err, fault.Unavailable, "connect to", subject),
			"something listens on the socket but does not speak gRPC")
	}
	return c, nil
}

var errOnlyOnce = errors.New("the connection to the plugin has ended")

// handshake hands raw to gRPC and waits for the first settings frame. gRPC gets exactly one connection: a second
// attempt would speak to another run of the plugin without a negotiation.
func (c *Client) handshake(ctx context.Context, raw net.Conn) error {
	var taken atomic.Bool
	conn, err := grpc.NewClient("passthrough:///localhost",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"), // strict servers refuse the socket path as an authority
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if taken.Swap(true) {
				c.end.signal()
				return nil, errOnlyOnce
			}
			return watchedConn{raw, c.end}, nil
		}),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithDisableHealthCheck(),
		grpc.WithIdleTimeout(0), // an idle connection is the normal state of a plugin
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.opts.MaxAnswer)),
	)
	if err != nil {
		return errors.Join(err, raw.Close())
	}
	c.conn = conn
	conn.Connect()
	for {
		switch s := conn.GetState(); s {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			return errors.Join(errors.New("the plugin closed the connection at its start"), conn.Close(), closed(raw))
		default:
			if !conn.WaitForStateChange(ctx, s) {
				return errors.Join(ctx.Err(), conn.Close(), closed(raw))
			}
		}
	}
}

// closed closes a connection that its owner may have closed already.
func closed(c net.Conn) error {
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Lost is closed when the connection has ended.
func (c *Client) Lost() <-chan struct{} { return c.end.ch }

// Close ends the connection. It may be called more than once.
func (c *Client) Close() error {
	c.end.signal()
	// Canceled is gRPC's word for a second Close.
	if err := c.conn.Close(); err != nil && status.Code(err) != codes.Canceled {
		return fault.Wrap(err, fault.Internal, "close the connection to", pluginSubject(c.opts.Plugin))
	}
	return nil
}

func pluginSubject(id string) string {
	if id == "" {
		return "the plugin"
	}
	return "plugin " + strconv.Quote(id)
}
