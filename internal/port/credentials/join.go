package credentials

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
	"berth/internal/port/tlsport"
	"berth/internal/wire"
)

// certify asks the next of the servers for a certificate. again: it gets one when it asks again after that time.
func (c *Credentials) certify(ctx context.Context) (again time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, certifyTimeout)
	defer cancel()
	raw, addr, err := c.dial(ctx)
	if err != nil {
		return 0, err
	}
	has, known, err := c.known()
	if err != nil {
		return 0, errors.Join(err, raw.Close())
	}
	conn, root, err := tlsport.Enter(ctx, raw, c.Rules("").Now, known...)
	if err != nil {
		if tlsport.IsOtherRoot(err) && c.Joined() {
			err = fault.WithHint(err, "if the cluster's root was replaced while this "+string(c.cfg.Role)+
				" was away, let it learn the present one: "+c.bringToken())
		} else if tlsport.IsOtherRoot(err) {
			err = fault.WithHint(err, "or the token is older than the cluster's root, if that was replaced since: "+
				c.bringToken())
		}
		return 0, err
	}
	req, err := c.request(root, has)
	if err != nil {
		return 0, errors.Join(err, conn.Close())
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
		return 0, errors.Join(err, conn.Close())
	}
	defer func() { _ = rpc.Close() }() // it ends the connection, too
	reply, err := wire.TrustCertify.Call(ctx, rpc, req)
	if err != nil {
		return 0, err
	}
	if reply.Again > 0 {
		return min(reply.Again, maxAgain), nil
	}
	return 0, c.take(req, reply, addr)
}

// maxAgain bounds what a server may ask a member to wait.
const maxAgain = 5 * time.Minute

// known is by what the cluster is known: by the roots that are here, and by a token.
func (c *Credentials) known() (has *trust.JoinToken, roots []trust.KeyID, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	roots = c.rootIDs()
	t, err := c.token()
	switch {
	case err == nil && !slices.Contains(roots, t.CA):
		// A person vouches for this root: the cluster may have replaced those that are known here.
		return &t, append(roots, t.CA), nil
	case err == nil:
		return &t, roots, nil
	case len(roots) > 0: // the key is enough
		return nil, roots, nil
	}
	return nil, nil, fault.WithHint(fault.Wrap(err, fault.Denied, "join", "the cluster"), c.bringToken())
}

func (c *Credentials) rootIDs() []trust.KeyID {
	var out []trust.KeyID
	for _, root := range c.roots {
		out = append(out, trust.KeyOf(root))
	}
	return out
}

// bringToken says how this one gets a token.
func (c *Credentials) bringToken() string {
	return "make a token where a server is, " + c.cfg.Role.Create() + ", and write it to a file that is named here: " +
		blocks[c.cfg.Role] + ` { join_token_file = "/etc/berth/join-token" }`
}

// blocks are those of the configuration in which each is told how it joins.
var blocks = map[trust.Role]string{trust.Node: "client", trust.Server: "server"}

// maxTokenFile bounds what is read of a token's file, in bytes.
const maxTokenFile = 4096

func (c *Credentials) token() (trust.JoinToken, error) {
	if c.cfg.TokenFile == "" {
		return trust.JoinToken{}, fmt.Errorf("this %s has not joined, and no token is named", c.cfg.Role)
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

// request asks who is known by a root. The token that there is goes to the cluster that it is of alone.
func (c *Credentials) request(root *x509.Certificate, has *trust.JoinToken) (*wire.CertifyRequest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.roots) > 0 && trust.ClusterOf(root) != trust.ClusterOf(c.roots[0]) {
		return nil, fault.WithHint(
			fault.New(fault.Denied, "join", "cluster "+trust.ClusterOf(root), fmt.Sprintf(
				"the token is of that cluster, and this %s has joined cluster %s", c.cfg.Role,
				trust.ClusterOf(c.roots[0]))),
			"make the token where a server of its own cluster is; or, to move it, give it an empty data_dir")
	}
	known := c.rootIDs()
	req := &wire.CertifyRequest{Address: c.self.Address, Seal: c.self.Seal, Roots: known, Patient: true}
	if has != nil && (has.CA == trust.KeyOf(root) || slices.Contains(known, has.CA)) {
		req.Token = wire.SealToken(*has)
	}
	var err error
	req.Request, err = trust.NewRequest(
		trust.Principal{Cluster: trust.ClusterOf(root), Role: c.cfg.Role, ID: c.self.ID}, c.key)
	return req, err
}

// take keeps what a server has issued, once it is on disk.
func (c *Credentials) take(req *wire.CertifyRequest, reply *wire.CertifyReply, addr string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.file
	first := c.leaf == nil
	c.file.Certificate, c.file.Roots = reply.Certificate, reply.Roots
	c.file.RootsAsOf = reply.RootsAsOf
	if len(reply.Servers) > 0 {
		c.file.Servers = reply.Servers
	}
	if reply.Now.After(c.file.Newest) {
		c.file.Newest = reply.Now
	}
	err := c.use()
	if err == nil {
		err = c.believed()
	}
	if err == nil {
		// Who joins is given the root by the answer; who has joined shows that it is on its disk.
		c.file.Untold = len(req.Roots) > 0 && !slices.Contains(req.Roots, trust.KeyOf(c.roots[0])) &&
			c.cfg.Role == trust.Node
		err = c.save()
	}
	if err != nil {
		c.file = before
		return errors.Join(fault.Wrap(err, fault.Invalid, "take the certificate of", "server at "+addr), c.use())
	}
	if first {
		c.cfg.Log.Info("the "+string(c.cfg.Role)+" has joined the cluster", "id", c.self.ID,
			"cluster", trust.ClusterOf(c.roots[0]), "server", addr)
	}
	if c.file.Untold {
		c.cfg.Log.Info("the "+string(c.cfg.Role)+" has learned another root of the cluster", "root",
			trust.KeyOf(c.roots[0]))
	}
	c.untrusting, c.heard = false, 0 // the next heartbeat says it again, if it was not of a state that is lost
	c.changed.Notify()
	return nil
}

// believed makes sure that what was issued is a certificate that the roots speak for.
func (c *Credentials) believed() error {
	if c.leaf == nil || len(c.roots) == 0 {
		return fault.New(fault.Invalid, "read", "the answer", "it has no certificate, or no root")
	}
	_, err := trust.Rules{Roots: c.roots, Now: c.now()}.Verify([]*x509.Certificate{c.leaf})
	return err
}
