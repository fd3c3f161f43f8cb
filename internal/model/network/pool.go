package network

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"

	"berth/internal/base/fault"
)

// Pool are the addresses of a bridge's subnet. The zero value has none.
type Pool struct{ prefix netip.Prefix }

// Bounds of a subnet, in bits of its prefix: it holds the bridge and at least one alloc, and is no more than half of
// all addresses of its kind.
const (
	leastBits  = 1
	mostBits4  = 30
	mostBits6  = 126
	maxPool6   = 1 << 32 // addresses of a pool that are counted
	nextToHost = 2       // the network's own address, and the bridge's
)

// ParsePool reads a subnet as "172.26.64.0/20"; v6 says of which kind it has to be. An error is of kind Invalid.
func ParsePool(text string, v6 bool) (Pool, error) {
	bad := func(why string) (Pool, error) {
		return Pool{}, fault.New(fault.Invalid, "use", fmt.Sprintf("subnet %.60q", text), why)
	}
	p, err := netip.ParsePrefix(text)
	most, kind := mostBits4, "IPv4"
	if v6 {
		most, kind = mostBits6, "IPv6"
	}
	switch {
	case err != nil:
		return bad("it is no subnet; write it as an address, a slash and the length of the prefix")
	case p.Addr().Is4() == v6 || p.Addr().Is4In6():
		return bad("it is no subnet of " + kind)
	case p.Bits() < leastBits || p.Bits() > most:
		return bad(fmt.Sprintf("its prefix has %d bits, and may have %d to %d", p.Bits(), leastBits, most))
	case p != p.Masked():
		return bad("bits are set behind its prefix: it begins at " + p.Masked().String())
	case p.Addr().IsMulticast() || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast():
		return bad("its addresses are for another purpose")
	}
	return Pool{prefix: p}, nil
}

// Valid reports whether there are addresses at all.
func (p Pool) Valid() bool { return p.prefix.IsValid() }

// Bits is the length of the subnet's prefix.
func (p Pool) Bits() int { return p.prefix.Bits() }

// Prefix is the subnet.
func (p Pool) Prefix() netip.Prefix { return p.prefix }

// String is the subnet as people write it.
func (p Pool) String() string {
	if !p.Valid() {
		return "none"
	}
	return p.prefix.String()
}

// Gateway is the bridge's address, the first of the subnet.
func (p Pool) Gateway() netip.Addr { return p.at(0) }

// Size is how many allocs can have an address.
func (p Pool) Size() uint64 {
	free := p.prefix.Addr().BitLen() - p.prefix.Bits()
	if free > 32 {
		return maxPool6
	}
	size := uint64(1)<<free - nextToHost
	if p.prefix.Addr().Is4() {
		size-- // the broadcast address
	}
	return size
}

// at is the n-th address of the subnet, from the bridge's on.
func (p Pool) at(n uint64) netip.Addr {
	b := p.prefix.Addr().As16()
	low := binary.BigEndian.Uint64(b[8:]) + n + 1
	binary.BigEndian.PutUint64(b[8:], low)
	a := netip.AddrFrom16(b)
	if p.prefix.Addr().Is4() {
		return a.Unmap()
	}
	return a
}

// Pick gives an alloc an address that is not taken: the same as long as that is free, so that nothing else has to be
// remembered of how it was chosen. An error is of kind Exhausted and has the figures.
func (p Pool) Pick(key string, taken map[netip.Addr]bool) (netip.Addr, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // a hash never fails
	size := p.Size()
	start := h.Sum64() % size
	for i := range min(size, uint64(len(taken))+1) {
		if a := p.at(1 + (start+i)%size); !taken[a] {
			return a, nil
		}
	}
	return netip.Addr{}, fault.WithHint(
		fault.New(fault.Exhausted, "take an address of", "subnet "+p.String(),
			fmt.Sprintf("allocations of this node have all of its %d addresses", size)),
		"stop allocations of mode bridge, or give the node's agent a larger bridge_network_subnet")
}
