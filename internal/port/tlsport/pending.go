package tlsport

import (
	"net"
	"slices"
	"sync"
)

// pending are the connections whose handshakes are under way. They are bounded, and the oldest gives way to the next:
// an honest handshake takes milliseconds, and who only opens connections keeps nobody out.
type pending struct {
	mu  sync.Mutex
	all []*greeting // the oldest first
}

type greeting struct {
	raw  net.Conn
	host string
}

// begin counts a handshake until done is called. The oldest of its address ends if those are too many; else, if all
// are, the oldest of the address that has the most.
func (p *pending) begin(raw net.Conn) (done func()) {
	g := &greeting{raw: raw, host: networkOf(raw.RemoteAddr())}
	p.mu.Lock()
	defer p.mu.Unlock()
	of, most := map[string]int{}, g.host
	for _, other := range p.all {
		of[other.host]++
	}
	for host, n := range of { // of equals any
		if n > of[most] {
			most = host
		}
	}
	switch {
	case of[g.host] >= maxOfAddress:
		p.end(g.host)
	case len(p.all) >= maxHandshakes:
		p.end(most)
	}
	p.all = append(p.all, g)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all = slices.DeleteFunc(p.all, func(other *greeting) bool { return other == g })
	}
}

// end ends the oldest of an address.
func (p *pending) end(host string) {
	i := slices.IndexFunc(p.all, func(g *greeting) bool { return g.host == host })
	if i < 0 {
		return
	}
	_ = p.all[i].raw.Close() // its handshake says how it ended
	p.all = slices.Delete(p.all, i, i+1)
}
