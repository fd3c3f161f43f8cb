package tlsport

import (
	"fmt"
	"net"

	"berth/internal/base/fault"
)

// places are those of connections of who has no certificate: they join, or renew theirs, within milliseconds. Where all
// are taken, the oldest of the address that has the most gives way to another address, so that whoever takes places and
// does nothing with them keeps no member from its next certificate. Who has the most is refused: of many that join from
// behind one address, those that are being answered are not ended by those that come.
type places struct{ crowd }

// take takes a place until leave is called; end ends the connection, if another one is to have the place.
func (p *places) take(from net.Addr, end func()) (leave func(), err error) {
	one := &stranger{end: end, host: networkOf(from)}
	leave, loser, err := p.admit(one)
	if loser != nil {
		loser.end()
	}
	return leave, err
}

// admit counts one in, and returns who gives way to it.
func (p *places) admit(one *stranger) (leave func(), loser *stranger, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) >= maxOpen {
		of, most := p.counted(one.host)
		if of[most] <= of[one.host] {
			return nil, nil, fault.New(fault.Exhausted, "admit", one.host,
				fmt.Sprintf("%d others are joining", maxOpen))
		}
		loser = p.leaves(most)
	}
	return p.joins(one), loser, nil
}
