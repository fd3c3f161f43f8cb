package tlsport

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// crowd are connections of whom nothing is known yet, the oldest first, and which of them gives way where they are too
// many: the oldest of an address. The caller of all but leave holds its lock.
type crowd struct {
	mu  sync.Mutex
	all []*stranger
}

// stranger is one of them.
type stranger struct {
	end  func() // of the connection
	host string // what is counted as its address
}

// counted is how many there are of each address, and which has the most: host where no other has more.
func (c *crowd) counted(host string) (of map[string]int, most string) {
	of, most = map[string]int{}, host
	for _, s := range c.all {
		if of[s.host]++; of[s.host] > of[most] {
			most = s.host
		}
	}
	return of, most
}

// leaves takes the oldest of an address out; nil: there is none.
func (c *crowd) leaves(host string) *stranger {
	i := slices.IndexFunc(c.all, func(s *stranger) bool { return s.host == host })
	if i < 0 {
		return nil
	}
	loser := c.all[i]
	c.all = slices.Delete(c.all, i, i+1)
	return loser
}

// joins takes one in, until leave is called.
func (c *crowd) joins(one *stranger) (leave func()) {
	c.all = append(c.all, one)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = slices.DeleteFunc(c.all, func(other *stranger) bool { return other == one })
	}
}

// networkOf is what is counted as one address: of IPv6 the network of 64 bits, of which a machine has as many addresses
// as it likes.
func networkOf(a net.Addr) string {
	host, _, _ := net.SplitHostPort(a.String()) // empty: no address of the network
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Unmap().Is4() {
		return host
	}
	net, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return host
	}
	return net.String()
}
