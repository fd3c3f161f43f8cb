package credentials

import (
	"crypto"
	"crypto/x509"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
)

// Key is that by which the cluster believes.
func (c *Credentials) Key() crypto.Signer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.key
}

// KeyID is the id of the key.
func (c *Credentials) KeyID() (trust.KeyID, error) { return trust.KeyIDOf(c.Key().Public()) }

// Roots are those of the cluster as they were last told.
func (c *Credentials) Roots() []*x509.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.roots
}

// Keep remembers a certificate that the server has issued for itself, with the roots of the cluster.
func (c *Credentials) Keep(der []byte, roots []*x509.Certificate) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.file
	c.file.Certificate, c.file.Roots = der, nil
	for _, root := range roots {
		c.file.Roots = append(c.file.Roots, root.Raw)
	}
	err := c.use()
	if err == nil {
		err = c.save()
	}
	if err != nil {
		c.file = before
		return err
	}
	c.changed.Notify()
	return nil
}

// Servers are those of the cluster as they were last told.
func (c *Credentials) Servers() []trust.ServerAt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.file.Servers
}

// Learn remembers the servers of the cluster as of an index of their state, so that they are found again by whoever was
// off; 0: as they are now. What is older than what is known is left.
func (c *Credentials) Learn(servers []trust.ServerAt, asOf uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if asOf > 0 && asOf < c.file.AsOf || slices.Equal(servers, c.file.Servers) {
		return nil
	}
	before := c.file
	c.file.Servers, c.file.AsOf = servers, asOf
	if err := c.save(); err != nil {
		c.file = before
		return err
	}
	return nil
}

// Begin notes that the server has a log, if it is there. One that had a log and has it no more is refused: it has
// forgotten what it has voted and acknowledged.
func (c *Credentials) Begin(there bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.file.Begun && !there:
		return fault.WithHint(
			fault.New(fault.Conflict, "start", "server", "its log is gone, and "+c.path+" says that it had one: "+
				"what it has voted and acknowledged is forgotten"),
			"put the directory back from a copy; or remove this server where another one is, "+
				"\"berth server force-leave NAME\", give it another name, move the directory server of "+
				"its data_dir away, and let it join with a token")
	case c.file.Begun || !there:
		return nil
	}
	c.file.Begun = true
	return c.save()
}

// Begins reports whether a server is to begin a cluster: it is to join none, and has joined none.
func (c *Credentials) Begins() bool { return len(c.cfg.Servers) == 0 && !c.Joined() }

// Founder reports whether a server is to join none: it began its cluster.
func (c *Credentials) Founder() bool { return len(c.cfg.Servers) == 0 }
