package tlsport

import "net"

// pending are the connections whose handshakes are under way. They are bounded, and the oldest gives way to the next:
// an honest handshake takes milliseconds, and who only opens connections keeps nobody out.
type pending struct{ crowd }

// begin counts a handshake until done is called. The oldest of its address ends if those are too many; else, if all
// are, the oldest of the address that has the most.
func (p *pending) begin(raw net.Conn) (done func()) {
	one := &stranger{
		end:  func() { _ = raw.Close() }, // its handshake says how it ended
		host: networkOf(raw.RemoteAddr()),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var loser *stranger
	switch of, most := p.counted(one.host); {
	case of[one.host] >= maxOfAddress:
		loser = p.leaves(one.host)
	case len(p.all) >= maxHandshakes:
		loser = p.leaves(most)
	}
	if loser != nil {
		loser.end()
	}
	return p.joins(one)
}
