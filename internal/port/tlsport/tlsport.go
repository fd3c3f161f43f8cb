// Package tlsport owns the one port of the servers that others reach, and the connections to it: mutual TLS, on which
// the protocol is agreed by ALPN (RFC 7301), so that calls, the log and the connections that nodes serve on share a
// port. Whoever takes a connection from it knows who is at the other end.
package tlsport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/base/seldom"
	"berth/internal/model/trust"
)

// Protocols, as ALPN names them.
const (
	Calls   = "h2"              // of methods: gRPC runs over HTTP/2
	Raft    = "berth-raft/1"    // the log's streams between servers
	Reverse = "berth-reverse/1" // a node dials, and serves
	Join    = "berth-join/1"    // of the methods for those who have no certificate
)

// Credentials are what one end shows, and what it believes. They are asked at each connection: both change while the
// program runs.
type Credentials interface {
	Certificate() (*tls.Certificate, error)
	// Rules judge who is at the other end of a connection of a protocol.
	Rules(protocol string) trust.Rules
}

// Bounds of handshakes.
const (
	handshakeTimeout = 10 * time.Second
	maxHandshakes    = 256 // at once
	maxOfAddress     = 32  // of them, of one address
	// Connections of those who have no certificate are few, and end by themselves.
	maxOpen     = 64
	openTimeout = 30 * time.Second
	acceptPause = 100 * time.Millisecond // after an error: descriptors are short
)

// Config says what a port serves.
type Config struct {
	Credentials Credentials
	// Admits says who may open a connection of a protocol; a protocol without an entry is not served.
	Admits map[string]func(trust.Peer) error
	Log    *slog.Logger
}

// Port splits what a listener accepts by protocol.
type Port struct {
	cfg     Config
	raw     net.Listener
	open    places
	refused seldom.Log
	served  map[string]*listener

	greeted pending
}

// New returns a port that accepts nothing before Run.
func New(raw net.Listener, cfg Config) *Port {
	p := &Port{
		cfg:    cfg,
		raw:    raw,
		served: map[string]*listener{},
	}
	for name := range cfg.Admits {
		p.served[name] = &listener{addr: raw.Addr(), conns: make(chan net.Conn), done: make(chan struct{})}
	}
	return p
}

// Listener yields the connections of a protocol, each a *Conn. It is closed when Run ends.
func (p *Port) Listener(protocol string) net.Listener { return p.served[protocol] }

// Run accepts until ctx ends. End it after those who serve its listeners: to them a listener that closes is an error
// for as long as they have not been ended themselves.
func (p *Port) Run(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("accept", func() error { return p.accept(gctx, g) })
	g.Go("close", func() error {
		<-gctx.Done()
		_ = p.raw.Close() // Accept returns; nothing else depends on it
		for _, l := range p.served {
			_ = l.Close() // it returns nil
		}
		return nil
	})
	return g.Wait()
}

func (p *Port) accept(ctx context.Context, g *lifecycle.Group) error {
	for {
		raw, err := p.raw.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			p.say("a connection could not be accepted; it is tried again", p.raw.Addr(), err)
			retry.Sleep(ctx, acceptPause)
			continue
		}
		done := p.greeted.begin(raw)
		g.Go("connection", lifecycle.Isolated("connection", func() error {
			c, l, err := p.greet(ctx, raw)
			done()
			if err != nil {
				return errors.Join(err, closed(raw.Close()))
			}
			if c.peer.Role == trust.Stranger {
				if err := p.admitOpen(c); err != nil {
					return errors.Join(err, closed(c.Close()))
				}
			}
			wait, cancel := context.WithTimeout(ctx, handshakeTimeout) // who serves the protocol is busy, or has ended
			defer cancel()
			if !l.put(wait, c) {
				return closed(c.Close())
			}
			return nil
		}, func(err error) {
			p.say("a connection was refused", raw.RemoteAddr(), err)
		}))
	}
}

// say logs what others bring about as often as they like.
func (p *Port) say(what string, addr net.Addr, err error) {
	if missed, say := p.refused.Say(); say {
		p.cfg.Log.Warn(what, "address", addr.String(), "not_said_before", missed, logkey.Error, err)
	}
}

// admitOpen gives a connection of who has no certificate its place and its end.
func (p *Port) admitOpen(c *Conn) error {
	leave, err := p.open.take(c.RemoteAddr(), func() { _ = c.NetConn().Close() })
	if err != nil {
		return err
	}
	// No deadline of the connection: who serves it sets its own.
	end := time.AfterFunc(openTimeout, func() { _ = c.Close() })
	c.closing = sync.OnceFunc(func() {
		end.Stop()
		leave()
	})
	return nil
}

// closed leaves out that a connection was closed already.
func closed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// greet makes the handshake and finds out who is there, and for what.
func (p *Port) greet(ctx context.Context, raw net.Conn) (*Conn, *listener, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := attend(raw); err != nil {
		return nil, nil, err
	}
	c := tls.Server(raw, p.config())
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, nil, fault.Wrap(err, fault.Denied, "admit", raw.RemoteAddr().String())
	}
	state := c.ConnectionState()
	peer, err := p.judge(state)
	if err != nil {
		return nil, nil, err
	}
	return &Conn{Conn: c, peer: peer}, p.served[state.NegotiatedProtocol], nil
}

func (p *Port) config() *tls.Config {
	var protocols []string
	for name := range p.served {
		if name != Join {
			protocols = append(protocols, name)
		}
	}
	mutual := &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return p.cfg.Credentials.Certificate()
		},
		ClientAuth: tls.RequireAnyClientCert, // judged below: dates and names by the cluster's own rules
		VerifyConnection: func(s tls.ConnectionState) error {
			_, err := p.judge(s)
			return err
		},
		SessionTicketsDisabled: true, // who was denied since is judged anew
	}
	if p.served[Join] != nil {
		open := mutual.Clone()
		open.NextProtos = []string{Join}
		open.ClientAuth = tls.NoClientCert
		mutual.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if slices.Equal(hello.SupportedProtos, open.NextProtos) {
				return open, nil
			}
			return nil, nil // mutual
		}
	}
	return mutual
}

func (p *Port) judge(s tls.ConnectionState) (trust.Peer, error) {
	admits := p.cfg.Admits[s.NegotiatedProtocol]
	if admits == nil {
		return trust.Peer{}, fault.New(fault.Denied, "admit", "peer", fmt.Sprintf("it asks for protocol %q, which is "+
			"not served here", s.NegotiatedProtocol))
	}
	if s.NegotiatedProtocol == Join {
		peer := trust.Peer{Principal: trust.Principal{Role: trust.Stranger}}
		return peer, admits(peer)
	}
	peer, err := p.cfg.Credentials.Rules(s.NegotiatedProtocol).Verify(s.PeerCertificates)
	if err != nil {
		return peer, err
	}
	return peer, admits(peer)
}

// Over makes a connection of a protocol over one that was dialled, to a server: any of the cluster if name is empty.
func Over(ctx context.Context, raw net.Conn, protocol, name string, cred Credentials) (*Conn, error) {
	config := &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return cred.Certificate()
	}}
	return dialled(ctx, raw, config, protocol, name, func([]*x509.Certificate) (trust.Rules, error) {
		return cred.Rules(protocol), nil
	})
}

// Enter makes a connection of protocol Join over one that was dialled, to any server of the cluster whose root has one
// of the keys: a join token names it, and whoever joins has nothing else to know the cluster by. It shows nothing. now
// is the time to judge the server's certificate by. It returns the root besides.
func Enter(ctx context.Context, raw net.Conn, now time.Time, roots ...trust.KeyID) (*Conn, *x509.Certificate, error) {
	var root *x509.Certificate
	conn, err := dialled(ctx, raw, &tls.Config{}, Join, "", func(chain []*x509.Certificate) (trust.Rules, error) {
		i := slices.IndexFunc(chain, func(c *x509.Certificate) bool {
			return c.IsCA && slices.Contains(roots, trust.KeyOf(c))
		})
		if i < 0 {
			return trust.Rules{}, fault.Wrap(errOtherRoot, fault.Denied, "join", "cluster")
		}
		root = chain[i]
		return trust.Rules{Roots: []*x509.Certificate{root}, Now: now}, nil
	})
	return conn, root, err
}

var errOtherRoot = errors.New("the server presents another root than is known here: it is of another cluster, or " +
	"somebody stands between")

// IsOtherRoot tells whether Enter was refused because the server presents no root that is known.
func IsOtherRoot(err error) bool { return errors.Is(err, errOtherRoot) }

// dialled makes the handshake with a server. rules are those for the certificates that it presents.
func dialled(
	ctx context.Context, raw net.Conn, config *tls.Config, protocol, name string,
	rules func([]*x509.Certificate) (trust.Rules, error),
) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	var peer trust.Peer
	config.MinVersion = tls.VersionTLS13
	config.NextProtos = []string{protocol}
	config.InsecureSkipVerify = true // not by host names: judged below, by the cluster's own rules
	config.VerifyConnection = func(s tls.ConnectionState) error {
		judge, err := rules(s.PeerCertificates)
		if err != nil {
			return err
		}
		peer, err = judge.Verify(s.PeerCertificates)
		switch {
		case err != nil:
			return err
		case s.NegotiatedProtocol != protocol:
			return fault.New(fault.Unsupported, "connect", peer.String(), "it does not serve "+protocol)
		case peer.Role != trust.Server || name != "" && peer.ID != name:
			return fault.New(fault.Denied, "connect", raw.RemoteAddr().String(), "this is "+peer.String())
		}
		return nil
	}
	c := tls.Client(raw, config)
	err := attend(raw)
	if err == nil {
		err = c.HandshakeContext(ctx)
	}
	if err != nil {
		return nil, errors.Join(fault.Wrap(err, fault.Unavailable, "connect", raw.RemoteAddr().String()),
			closed(raw.Close()))
	}
	return &Conn{Conn: c, peer: peer}, nil
}

// Conn is a connection whose other end is known.
type Conn struct {
	*tls.Conn
	peer    trust.Peer
	closing func() // nil: nothing is given back
}

// Close ends the connection.
func (c *Conn) Close() error {
	if c.closing != nil {
		c.closing()
	}
	return c.Conn.Close()
}

// Peer is who is at the other end.
func (c *Conn) Peer() trust.Peer { return c.peer }
