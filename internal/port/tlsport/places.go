package tlsport

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"berth/internal/base/fault"
)

// places are those of connections of who has no certificate: they join, or renew theirs, within milliseconds. Where all
// are taken, the oldest of the address that has the most gives way to another address, so that whoever takes places and
// does nothing with them keeps no member from its next certificate. Who has the most is refused: of many that join from
// behind one address, those that are being answered are not ended by those that come.
type places struct {
	mu  sync.Mutex
	all []*place // the oldest first
}

type place struct {
	end  func() // of the connection
	host string
}

// take takes a place until leave is called; end ends the connection, if another one is to have the place.
func (p *places) take(from net.Addr, end func()) (leave func(), err error) {
	one := &place{end: end, host: networkOf(from)}
	loser, err := p.admit(one)
	if err != nil {
		return nil, err
	}
	if loser != nil {
		loser.end()
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all = slices.DeleteFunc(p.all, func(other *place) bool { return other == one })
	}, nil
}

// admit counts one in, and returns who gives way to it.
func (p *places) admit(one *place) (loser *place, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) >= maxOpen {
		of, most := map[string]int{}, one.host
		for _, other := range p.all {
			if of[other.host]++; of[other.host] > of[most] {
				most = other.host
			}
		}
		if of[most] <= of[one.host] {
			return nil, fault.New(fault.Exhausted, "admit", one.host, fmt.Sprintf("%d others are joining", maxOpen))
		}
		i := slices.IndexFunc(p.all, func(other *place) bool { return other.host == most })
		loser = p.all[i]
		p.all = slices.Delete(p.all, i, i+1)
	}
	p.all = append(p.all, one)
	return loser, nil
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
