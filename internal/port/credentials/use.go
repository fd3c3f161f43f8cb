package credentials

import "slices"

// Addresses are those of the servers that are asked, in their order: those that are configured, or that a person has
// named, and those that the cluster has told.
func (c *Credentials) Addresses() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addresses()
}

func (c *Credentials) addresses() []string {
	all := slices.Clone(c.cfg.Servers)
	for _, s := range c.file.Servers {
		if s.Address != "" && s.Name != c.self.ID && !slices.Contains(all, s.Address) {
			all = append(all, s.Address)
		}
	}
	return all
}

// Use has these servers asked first, in place of those that are configured, until the agent is started again. The
// cluster tells of its servers to whoever reaches one of them, and that is remembered.
func (c *Credentials) Use(addresses []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg.Servers = slices.Clone(addresses)
	c.next = 0
}
