// Package credentials owns what a node or a server shows to servers on other machines, and what it believes of
// them: its key, its certificate, the roots of its cluster and where its servers are, in a file of the data
// directory. Who has none joins with a token.
package credentials

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/model/trust"
)

// fileName is that of the file in the directory.
const fileName = "credentials.json"

// Timing of tries to reach a server.
const (
	dialTimeout    = 5 * time.Second
	certifyTimeout = 20 * time.Second // with the passing on to the leader
)

// Pause is between tries to join or to renew, if no other is asked for.
var Pause = retry.Backoff{Min: 500 * time.Millisecond, Max: 30 * time.Second}

// stored is the file.
type stored struct {
	Key         []byte   // PKCS #8
	Certificate []byte   // DER; empty: it has not joined
	Roots       [][]byte // DER
	// RootsAsOf is the index of the servers' state at which Roots were theirs; 0: they did not say.
	RootsAsOf uint64 `json:",omitempty"`
	// Untold: the servers have not been shown yet that the first of Roots is here.
	Untold bool `json:",omitempty"`
	// Newest is the latest time that a server has told: a clock that was set back lets nothing live again.
	Newest time.Time
	// Servers are those of the cluster as they were last told, as of an index of the servers' state; 0: not known.
	Servers []trust.ServerAt `json:",omitempty"`
	AsOf    uint64           `json:",omitempty"`
	// Begun: the server has had a log. Without it, it must not come back.
	Begun bool `json:",omitempty"`
}

// Config says whose credentials these are and where servers are.
type Config struct {
	Dir  string // of the node's store, or the server's
	Role trust.Role
	// Servers are addresses of the TLS ports of servers by which to join; none: it begins a cluster. Those that the
	// cluster has told are asked, too.
	Servers []string
	// TokenFile holds the token to join with. It is read at each try until the node has joined, so that it may come
	// later, and go then. Empty: the node has joined.
	TokenFile string
	// Pause is between tries; zero: Pause. Tries is how many there are until it has joined; 0: no end.
	Pause retry.Backoff
	Tries int
	Log   *slog.Logger
}

// Self is who asks for a certificate.
type Self struct {
	ID      string
	Address string // of a server's TLS port, for others
	Seal    []byte // of a server: its public key for what is sealed for it alone
}

// Credentials are those of one node or server. They implement tlsport.Credentials.
type Credentials struct {
	cfg  Config
	path string
	// spread is from 0 to 1: nodes that joined together renew one after another.
	spread float64

	mu    sync.Mutex
	self  Self
	key   crypto.Signer
	file  stored
	leaf  *x509.Certificate // nil: there is none
	roots []*x509.Certificate
	next  int    // of the servers
	heard uint64 // the index of the servers' state at which their roots last changed, as far as they said
	// untrusting: a server has shown what no root that is known here has issued.
	untrusting bool
	changed    lifecycle.Signal
	wake       lifecycle.Signal // a certificate may be due now
}

// New returns credentials; Open them before Run.
func New(cfg Config) *Credentials {
	if cfg.Pause == (retry.Backoff{}) {
		cfg.Pause = Pause
	}
	return &Credentials{cfg: cfg, path: filepath.Join(cfg.Dir, fileName), spread: rand.Float64()}
}

// Open reads what there is, and makes a key if there is none.
func (c *Credentials) Open() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	there, err := c.read()
	if err == nil && !there {
		return c.begin()
	}
	return err
}

// Check reads the credentials in a directory, as Open does, and makes none. It returns the path of their file.
func Check(dir string, role trust.Role) (path string, there bool, err error) {
	c := New(Config{Dir: dir, Role: role})
	there, err = c.read()
	return c.path, there, err
}

// read takes over what is in the file, if it is there. The caller holds the lock.
func (c *Credentials) read() (there bool, err error) {
	data, err := os.ReadFile(c.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return true, fault.Wrap(err, fault.Internal, "read", c.path)
	}
	err = json.Unmarshal(data, &c.file)
	if err == nil {
		err = c.use()
	}
	if err != nil {
		err = c.damaged(err)
	}
	return true, err
}

func (c *Credentials) damaged(err error) error {
	return fault.WithHint(fault.Wrap(err, fault.Invalid, "read", c.path),
		"restore it from a copy; without it this "+string(c.cfg.Role)+" cannot come back to its cluster")
}

// begin makes a key. It is on disk before anybody hears of it: a node is believed by it for good.
func (c *Credentials) begin() error {
	key, err := trust.NewKey()
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "make", "the "+string(c.cfg.Role)+"'s key")
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
		return nil, fault.New(fault.Unavailable, "show", "the "+string(c.cfg.Role)+"'s certificate",
			"it has not joined the cluster yet")
	}
	chain := [][]byte{c.leaf.Raw}
	if c.cfg.Role == trust.Server { // who joins knows the root by its hash
		chain = append(chain, c.file.Roots...)
	}
	return &tls.Certificate{Certificate: chain, PrivateKey: c.key, Leaf: c.leaf}, nil
}

// Rules implements tlsport.Credentials.
func (c *Credentials) Rules(string) trust.Rules {
	c.mu.Lock()
	defer c.mu.Unlock()
	return trust.Rules{Roots: c.roots, Now: c.now()}
}

// maxNap bounds a sleep: timers stand still while the machine is suspended, and certificates end by the clock.
const maxNap = time.Minute

// Run joins the cluster if that is still to be done, and renews the certificate until ctx ends.
func (c *Credentials) Run(ctx context.Context, self Self) error {
	c.are(self)
	for ctx.Err() == nil {
		wake := c.wake.C()
		if wait := c.due(); wait > 0 {
			retry.SleepOr(ctx, min(wait, maxNap), wake)
			continue
		}
		if err := c.until(ctx, func() bool { return c.due() > 0 }, 0); err != nil {
			return err
		}
	}
	return nil
}

// Join joins the cluster if that is still to be done. It ends with ctx, or with an error when it is not tried again.
func (c *Credentials) Join(ctx context.Context, self Self) error {
	c.are(self)
	return c.until(ctx, c.Joined, c.cfg.Tries)
}

// Ask asks a server for a certificate once: whether it is a member yet, and which servers there are, it learns by that.
// A server that has joined before is who it says here: it did not join anew.
func (c *Credentials) Ask(ctx context.Context, self Self) error {
	c.are(self)
	again, err := c.certify(ctx)
	if err == nil && again > 0 {
		err = fault.New(fault.Exhausted, "get", "a certificate", "the servers say to ask again in "+again.String())
	}
	return err
}

func (c *Credentials) are(self Self) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.self = self
}

// until asks for a certificate until it is done; most: how often, 0: without end.
func (c *Credentials) until(ctx context.Context, done func() bool, most int) error {
	said := ""
	for tries := 0; ctx.Err() == nil && !done(); {
		text := ""
		again, err := c.certify(ctx)
		if err != nil {
			text = err.Error()
		}
		switch {
		case done() || ctx.Err() != nil:
			return nil
		case err == nil && again > 0: // many ask, and it knows when its time is
			retry.Sleep(ctx, again+rand.N(again/10+time.Millisecond))
			continue
		case trust.IsRemoved(err):
			return err
		case text != "" && text != said:
			c.cfg.Log.Warn("the "+string(c.cfg.Role)+
				" gets no certificate from a server; what runs here goes on, and it is tried again", logkey.Error, err)
		}
		said = text
		tries++ // also where it has got one that is due at once: the clocks differ by hours
		if most > 0 && tries >= most {
			return fault.Wrap(err, fault.Unavailable, "join the cluster", fmt.Sprintf("after %d tries", tries))
		}
		c.cfg.Pause.Sleep(ctx, tries)
	}
	return nil
}

// Joined reports whether there is a certificate.
func (c *Credentials) Joined() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leaf != nil
}

// usable tells whether there is a certificate to show, and it is not over.
func (c *Credentials) usable() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch who := "this " + string(c.cfg.Role); {
	case c.leaf == nil:
		return false, fault.New(fault.Unavailable, "reach", "the servers", who+" has not joined their cluster yet")
	case c.now().After(c.leaf.NotAfter):
		return false, fault.New(fault.Unavailable, "reach", "the servers", who+"'s certificate was good until "+
			c.leaf.NotAfter.Format(time.RFC3339)+", and it has got no other one yet")
	}
	return true, nil
}

// due is how long it is until a certificate is to be asked for.
func (c *Credentials) due() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaf == nil || c.untrusting || c.file.Untold || c.heard > c.file.RootsAsOf {
		return 0
	}
	return trust.RenewAt(c.leaf, c.spread).Sub(c.now())
}

// Heard takes in what the servers say at a heartbeat: where they are, and the index of their state at which the roots
// of the cluster last changed. If that is news, a certificate is asked for, which brings the roots.
func (c *Credentials) Heard(servers []trust.ServerAt, rootsAsOf uint64) error {
	c.mu.Lock()
	news := rootsAsOf > max(c.heard, c.file.RootsAsOf)
	c.heard = max(c.heard, rootsAsOf)
	c.mu.Unlock()
	if news {
		c.wake.Notify()
	}
	if len(servers) == 0 {
		return nil
	}
	return c.Learn(servers, 0)
}
