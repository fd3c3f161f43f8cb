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

	"berth/internal/base/fault"
	"berth/internal/model/trust"
	"berth/internal/port/tlsport"
	"berth/internal/wire"
)

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
	req, err := c.request(root, token)
	if err != nil {
		return err
	}
	reply, err := wire.TrustCertify.Call(ctx, rpc, req)
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
			"make a token where a server is, "+c.cfg.Role.Create()+", and write it to a file that is named here: "+
				blocks[c.cfg.Role]+` { join_token_file = "/etc/berth/join-token" }`)
	}
	return wire.SealToken(t), []trust.KeyID{t.CA}, nil
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

func (c *Credentials) request(root *x509.Certificate, token wire.Secrets) (*wire.CertifyRequest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	der, err := trust.NewRequest(
		trust.Principal{Cluster: trust.ClusterOf(root), Role: c.cfg.Role, ID: c.self.ID}, c.key)
	return &wire.CertifyRequest{
		Request: der,
		Token:   token,
		Address: c.self.Address,
		Seal:    c.self.Seal,
	}, err
}

// take keeps what a server has issued, once it is on disk.
func (c *Credentials) take(reply *wire.CertifyReply, addr string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.file
	first := c.leaf == nil
	c.file.Certificate, c.file.Roots = reply.Certificate, reply.Roots
	if len(reply.Servers) > 0 {
		c.file.Servers = reply.Servers
	}
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
		c.cfg.Log.Info("the "+string(c.cfg.Role)+" has joined the cluster", "id", c.self.ID,
			"cluster", trust.ClusterOf(c.roots[0]), "server", addr)
	}
	c.changed.Notify()
	return nil
}
