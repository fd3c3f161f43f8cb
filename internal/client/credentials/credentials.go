// Package credentials owns what a node shows to servers on other machines, and what it believes of them: its key, its
// certificate, and the roots of its cluster, in a file of the data directory. A node that has none joins with a token.
package credentials

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/model/trust"
	"berth/internal/port/tlsport"
	"berth/internal/wire"
)

// fileName is that of the file in the directory of the node's store.
const fileName = "credentials.json"

// Timing of tries to reach a server.
const (
	dialTimeout    = 5 * time.Second
	certifyTimeout = 20 * time.Second // with the passing on to the leader
)

// pause is between tries to join or to renew.
var pause = retry.Backoff{Min: 500 * time.Millisecond, Max: 30 * time.Second}

// stored is the file.
type stored struct {
	Key         []byte   // PKCS #8
	Certificate []byte   // DER; empty: the node has not joined
	Roots       [][]byte // DER
	// Newest is the latest time that a server has told: a clock that was set back lets nothing live again.
	Newest time.Time
}

// Config says whose credentials these are and where servers are.
type Config struct {
	Dir     string   // of the node's store
	Servers []string // addresses of their TLS ports; at least one
	// TokenFile holds the token to join with. It is read at each try until the node has joined, so that it may come
	// later, and go then. Empty: the node has joined.
	TokenFile string
	Log       *slog.Logger
}

// Credentials are those of one node. They implement tlsport.Credentials.
type Credentials struct {
	cfg  Config
	path string
	// spread is from 0 to 1: nodes that joined together renew one after another.
	spread float64

	mu      sync.Mutex
	node    ids.Node
	key     crypto.Signer
	file    stored
	leaf    *x509.Certificate // nil: there is none
	roots   []*x509.Certificate
	next    int // of the servers
	changed lifecycle.Signal
}

// New returns credentials; Open them before Run.
func New(cfg Config) *Credentials {
	return &Credentials{cfg: cfg, path: filepath.Join(cfg.Dir, fileName), spread: rand.Float64()}
}

// Open reads what the node has, and makes its key if it has none.
func (c *Credentials) Open() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	data, err := os.ReadFile(c.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.begin()
	case err != nil:
		return fault.Wrap(err, fault.Internal, "read", c.path)
	}
	err = json.Unmarshal(data, &c.file)
	if err == nil {
		err = c.use()
	}
	if err != nil {
		return c.damaged(err)
	}
	return nil
}

func (c *Credentials) damaged(err error) error {
	return fault.WithHint(fault.Wrap(err, fault.Invalid, "read", c.path),
		"restore it from a copy; without it this node, with what runs on it, cannot come back to its cluster")
}

// begin makes a key. It is on disk before anybody hears of it: a node is believed by it for good.
func (c *Credentials) begin() error {
	key, err := trust.NewKey()
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "make", "the node's key")
	}
	c.file = stored{Key: der}
	if err := c.save(); err != nil {
		return err
	}
	return c.use()
}

func (c *Credentials) save() error {
	data, err := json.Marshal(c.file)
	if err == nil {
		err = durable.WriteFile(c.path, data, 0o600)
	}
	return fault.Wrap(err, fault.Internal, "write", c.path)
}

// use takes over what the file says.
func (c *Credentials) use() error {
	key, err := x509.ParsePKCS8PrivateKey(c.file.Key)
	if err != nil {
		return err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return errors.New("its key signs nothing")
	}
	var leaf *x509.Certificate
	if len(c.file.Certificate) > 0 {
		if leaf, err = x509.ParseCertificate(c.file.Certificate); err != nil {
			return err
		}
	}
	roots := make([]*x509.Certificate, 0, len(c.file.Roots))
	for _, der := range c.file.Roots {
		root, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		roots = append(roots, root)
	}
	c.key, c.leaf = signer, leaf
	c.roots = roots
	return nil
}

// now is the time to judge certificates by.
func (c *Credentials) now() time.Time {
	now := time.Now()
	if c.file.Newest.After(now) {
		return c.file.Newest
	}
	return now
}

// Certificate implements tlsport.Credentials.
func (c *Credentials) Certificate() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaf == nil {
		return nil, fault.New(fault.Unavailable, "show", "the node's certificate", "it has not joined the cluster yet")
	}
	return &tls.Certificate{Certificate: [][]byte{c.leaf.Raw}, PrivateKey: c.key, Leaf: c.leaf}, nil
}

// Rules implements tlsport.Credentials.
func (c *Credentials) Rules(string) trust.Rules {
	c.mu.Lock()
	defer c.mu.Unlock()
	return trust.Rules{Roots: c.roots, Now: c.now()}
}

// Run joins the cluster as a node if that is still to be done, and renews the certificate until ctx ends.
func (c *Credentials) Run(ctx context.Context, node ids.Node) error {
	c.mu.Lock()
	c.node = node
	c.mu.Unlock()
	said := ""
	for tries := 0; ctx.Err() == nil; {
		if wait := c.due(); wait > 0 {
			tries = 0
			retry.Sleep(ctx, wait)
			continue
		}
		text := ""
		err := c.certify(ctx)
		if err != nil {
			text = err.Error()
		}
		if text != "" && text != said && ctx.Err() == nil {
			c.cfg.Log.Warn("the node gets no certificate from a server; what runs here goes on, and it is tried again",
				logkey.Error, err)
		}
		said = text
		if c.due() > 0 {
			continue
		}
		tries++ // also where it has got one that is due at once: the clocks differ by hours
		pause.Sleep(ctx, tries)
	}
	return nil
}

// due is how long it is until a certificate is to be asked for.
func (c *Credentials) due() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaf == nil {
		return 0
	}
	span := c.leaf.NotAfter.Sub(c.leaf.NotBefore)
	early := time.Duration(c.spread * float64(span) / 12)
	return c.leaf.NotAfter.Add(-span/3 - early).Sub(c.now())
}

// certify asks the next of the servers for a certificate.
func (c *Credentials) certify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, certifyTimeout)
	defer cancel()
	raw, addr, err := c.dial(ctx)
	if err != nil {
		return err
	}
	token, known, err := c.known()
	if err != nil {
		return errors.Join(err, raw.Close())
	}
	conn, root, err := tlsport.Enter(ctx, raw, c.Rules("").Now, known...)
	if err != nil {
		return err
	}
	taken := false
	rpc, err := wire.Connect(func(context.Context) (net.Conn, error) {
		if taken { // one call, one connection
			return nil, fault.New(fault.Unavailable, "ask", "server at "+addr, "the connection ended")
		}
		taken = true
		return conn, nil
	})
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	defer func() { _ = rpc.Close() }() // it ends the connection, too
	req, err := c.request(root)
	if err != nil {
		return err
	}
	reply, err := wire.TrustCertify.Call(ctx, rpc, &wire.CertifyRequest{Request: req, Token: token})
	if err != nil {
		return err
	}
	return c.take(reply, addr)
}

// known is by what the cluster is known: by the roots that the node has, or else by its token.
func (c *Credentials) known() (secret wire.Secrets, roots []trust.KeyID, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, root := range c.roots {
		roots = append(roots, trust.KeyOf(root))
	}
	t, err := c.token()
	if len(roots) > 0 {
		// The key is enough, unless the servers do not know it any more: then a token of this cluster is what helps.
		if err == nil && slices.Contains(roots, t.CA) {
			secret = wire.SealToken(t)
		}
		return secret, roots, nil
	}
	if err != nil {
		return wire.Secrets{}, nil, fault.WithHint(
			fault.Wrap(err, fault.Denied, "join", "the cluster"),
			"make a token where a server is, berth operator join-token create, and write it to a file that is named here: "+
				`client { join_token_file = "/etc/berth/join-token" }`)
	}
	return wire.SealToken(t), []trust.KeyID{t.CA}, nil
}

// maxTokenFile bounds what is read of a token's file, in bytes.
const maxTokenFile = 4096

func (c *Credentials) token() (trust.JoinToken, error) {
	if c.cfg.TokenFile == "" {
		return trust.JoinToken{}, errors.New("this node has not joined, and no token is named")
	}
	f, err := os.OpenFile(c.cfg.TokenFile, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return trust.JoinToken{}, err
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return trust.JoinToken{}, err
	case info.Mode().Perm()&0o077 != 0:
		return trust.JoinToken{}, fault.New(fault.Denied, "read", c.cfg.TokenFile,
			fmt.Sprintf("others may use it (mode %04o); chmod 600 it", info.Mode().Perm()))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile))
	if err != nil {
		return trust.JoinToken{}, err
	}
	t, err := trust.ParseJoinToken(string(text))
	return t, fault.Note(err, "read", c.cfg.TokenFile)
}

func (c *Credentials) request(root *x509.Certificate) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return trust.NewRequest(
		trust.Principal{Cluster: trust.ClusterOf(root), Role: trust.Node, ID: string(c.node)}, c.key)
}

// take keeps what a server has issued, once it is on disk.
func (c *Credentials) take(reply *wire.CertifyReply, addr string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.file
	first := c.leaf == nil
	c.file.Certificate, c.file.Roots = reply.Certificate, reply.Roots
	if reply.Now.After(c.file.Newest) {
		c.file.Newest = reply.Now
	}
	err := c.use()
	if err == nil {
		_, err = trust.Rules{Roots: c.roots, Now: c.now()}.Verify([]*x509.Certificate{c.leaf})
	}
	if err == nil {
		err = c.save()
	}
	if err != nil {
		c.file = before
		return errors.Join(fault.Wrap(err, fault.Invalid, "take the certificate of", "server at "+addr), c.use())
	}
	if first {
		c.cfg.Log.Info("the node has joined the cluster", logkey.Node, c.node,
			"cluster", trust.ClusterOf(c.roots[0]), "server", addr)
	}
	c.changed.Notify()
	return nil
}

// dial reaches the server whose turn it is; the next call tries the next one if it fails.
func (c *Credentials) dial(ctx context.Context) (net.Conn, string, error) {
	c.mu.Lock()
	addr := c.cfg.Servers[c.next%len(c.cfg.Servers)]
	c.mu.Unlock()
	raw, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		c.fail(addr)
		return nil, addr, fault.Wrap(err, fault.Unavailable, "reach", "server at "+addr)
	}
	return raw, addr, nil
}

// fail lets the next server have its turn, if it is still that of the one that failed.
func (c *Credentials) fail(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cfg.Servers[c.next%len(c.cfg.Servers)] == addr {
		c.next++
	}
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
		return nil, fault.Wrap(err, fault.Unavailable, "connect to", fmt.Sprintf("server at %s", addr))
	}
	return conn, nil
}

// joined waits until there is a certificate.
func (c *Credentials) joined(ctx context.Context) error {
	for {
		changed := c.changed.C()
		c.mu.Lock()
		there := c.leaf != nil
		c.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "reach", "the servers", "this node has not joined their cluster yet")
		case <-changed:
		}
	}
}
