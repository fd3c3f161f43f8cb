package functions

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

var cidrHostFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "prefix", Type: cty.String}, {Name: "hostnum", Type: cty.Number}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := parsePrefix(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		num, err := wholeNumber(args[1])
		if err != nil {
			return cty.NilVal, err
		}
		room := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
		if num.Sign() < 0 { // counted from the end
			num = new(big.Int).Add(room, num)
		}
		if num.Sign() < 0 || num.Cmp(room) >= 0 {
			return cty.NilVal, fmt.Errorf("the prefix %s has no host %s", p, num)
		}
		return cty.StringVal(addTo(p.Addr(), num).String()), nil
	},
})

var cidrNetmaskFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "prefix", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := parsePrefix(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		if p.Addr().Is6() {
			return cty.NilVal, errors.New("IPv6 networks have no netmask")
		}
		ones, err := netip.AddrFrom4([4]byte{255, 255, 255, 255}).Prefix(p.Bits())
		if err != nil {
			return cty.NilVal, fmt.Errorf("netmask of %s: %w", p, err)
		}
		return cty.StringVal(ones.Addr().String()), nil
	},
})

var cidrSubnetFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "prefix", Type: cty.String}, {Name: "newbits", Type: cty.Number},
		{Name: "netnum", Type: cty.Number}},
	Type: function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := parsePrefix(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		bits, err := newBits(p, args[1])
		if err != nil {
			return cty.NilVal, err
		}
		num, err := wholeNumber(args[2])
		if err != nil {
			return cty.NilVal, err
		}
		if num.Sign() < 0 || num.BitLen() > bits {
			return cty.NilVal, fmt.Errorf("%d more bits have no network %s", bits, num)
		}
		length := p.Bits() + bits
		addr := addTo(p.Addr(), new(big.Int).Lsh(num, uint(p.Addr().BitLen()-length)))
		return cty.StringVal(netip.PrefixFrom(addr, length).String()), nil
	},
})

var cidrSubnetsFunc = function.New(&function.Spec{
	Params:   []function.Parameter{{Name: "prefix", Type: cty.String}},
	VarParam: &function.Parameter{Name: "newbits", Type: cty.Number},
	Type:     function.StaticReturnType(cty.List(cty.String)),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := parsePrefix(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		if len(args) == 1 {
			return cty.ListValEmpty(cty.String), nil
		}
		next := new(big.Int)
		room := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
		var out []cty.Value
		for _, a := range args[1:] {
			bits, err := newBits(p, a)
			if err != nil {
				return cty.NilVal, err
			}
			length := p.Bits() + bits
			size := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-length))
			// A network starts at a multiple of its own size.
			start := new(big.Int).Add(next, new(big.Int).Sub(size, big.NewInt(1)))
			start.Div(start, size).Mul(start, size)
			next = new(big.Int).Add(start, size)
			if next.Cmp(room) > 0 {
				return cty.NilVal,
					fmt.Errorf("the prefix %s has no room for a network of /%d after the ones before", p, length)
			}
			out = append(out, cty.StringVal(netip.PrefixFrom(addTo(p.Addr(), start), length).String()))
		}
		return cty.ListVal(out), nil
	},
})

func parsePrefix(v cty.Value) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(v.AsString())
	if err != nil {
		return p, function.NewArgErrorf(0, "%q is not a network like 10.0.0.0/8", v.AsString())
	}
	return p.Masked(), nil
}

func wholeNumber(v cty.Value) (*big.Int, error) {
	i, accuracy := v.AsBigFloat().Int(nil)
	if i == nil || accuracy != big.Exact || i.BitLen() > 128 {
		return nil, errors.New("the number must be whole and not larger than an address")
	}
	return i, nil
}

func newBits(p netip.Prefix, v cty.Value) (int, error) {
	n, err := wholeNumber(v)
	if err != nil {
		return 0, err
	}
	left := p.Addr().BitLen() - p.Bits()
	if n.Sign() < 0 || n.Cmp(big.NewInt(int64(left))) > 0 {
		return 0, fmt.Errorf("the prefix %s can be extended by 0 to %d bits, not by %s", p, left, n)
	}
	return int(n.Int64()), nil
}

func addTo(a netip.Addr, n *big.Int) netip.Addr {
	sum := new(big.Int).Add(new(big.Int).SetBytes(a.AsSlice()), n)
	raw := sum.FillBytes(make([]byte, a.BitLen()/8))
	out, _ := netip.AddrFromSlice(raw)
	return out
}
