package bridge

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/model/network"
)

// maxElements is how many elements go into one message: its list is one attribute, of at most 64 KiB.
const maxElements = 400

// Names within the table.
const (
	portsMap4 = "ports"
	portsMap6 = "ports6"
)

// Apply makes the table say what is published and nothing else, in one transaction. Connections that there are go on.
func (b *Bridge) Apply(all []network.Published) error {
	return b.speak(func(conn *nftables.Conn) error {
		t := conn.AddTable(b.table())
		conn.DelTable(t) // an error if there is none: hence the line before
		conn.AddTable(t)
		w := &writer{conn: conn, table: t, bridge: b}
		w.all(all)
		return w.commit()
	})
}

// Update changes the maps of a table that is there, in one transaction.
func (b *Bridge) Update(gone, added []network.Published) error {
	return b.speak(func(conn *nftables.Conn) error {
		w := &writer{conn: conn, table: b.table(), bridge: b}
		for name, v6 := range map[string]bool{portsMap4: false, portsMap6: true} {
			if m := w.portsMap(name, v6); !v6 || b.IPv6.Valid() {
				if all := elements(gone, v6); len(all) > 0 {
					w.keep(conn.SetDeleteElements(m, all))
				}
				w.add(m, elements(added, v6))
			}
		}
		return w.commit()
	})
}

func (b *Bridge) table() *nftables.Table {
	return &nftables.Table{Name: network.Table(b.Name), Family: nftables.TableFamilyINet}
}

func (b *Bridge) tableSubject() string { return "nftables table inet " + network.Table(b.Name) }

// Applied reports whether the table is there: others may have flushed all tables.
func (b *Bridge) Applied() (there bool, err error) {
	err = b.speak(func(conn *nftables.Conn) error {
		tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
		there = slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == network.Table(b.Name) })
		return fault.Wrap(err, fault.Unavailable, "list", "nftables tables")
	})
	return there, err
}

func (b *Bridge) removeTable() error {
	there, err := b.Applied()
	if !there || err != nil {
		return err
	}
	return b.speak(func(conn *nftables.Conn) error {
		conn.DelTable(b.table())
		return fault.Wrap(conn.Flush(), fault.Internal, "remove", b.tableSubject())
	})
}

// Droppers lists chains of others that drop what is forwarded unless a rule of theirs accepts it. An accept of this
// table cannot overrule them: a packet has to pass every chain of a hook.
func (b *Bridge) Droppers() ([]string, error) {
	var chains []*nftables.Chain
	err := b.speak(func(conn *nftables.Conn) (err error) {
		chains, err = conn.ListChains()
		return fault.Wrap(err, fault.Unavailable, "list", "nftables chains")
	})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, c := range chains {
		if c.Hooknum == nil || *c.Hooknum != *nftables.ChainHookForward || c.Policy == nil ||
			*c.Policy != nftables.ChainPolicyDrop || c.Table.Name == network.Table(b.Name) {
			continue
		}
		out = append(out, fmt.Sprintf("%s %s %s", family(c.Table.Family), c.Table.Name, c.Name))
	}
	slices.Sort(out)
	return out, nil
}

func family(f nftables.TableFamily) string {
	switch f {
	case nftables.TableFamilyIPv4:
		return "ip"
	case nftables.TableFamilyIPv6:
		return "ip6"
	case nftables.TableFamilyINet:
		return "inet"
	}
	return fmt.Sprintf("family %d", f)
}

// Missing says why the node can make no networks; nil: it can.
func Missing() error {
	conn, err := nftables.New()
	if err == nil {
		_, err = conn.ListTablesOfFamily(nftables.TableFamilyINet)
	}
	return fault.Wrap(err, fault.Unsupported, "speak with", "nftables")
}

// writer fills the table.
type writer struct {
	conn   *nftables.Conn
	table  *nftables.Table
	bridge *Bridge
	err    error
}

// all writes every chain:
//
//	raw          what comes from elsewhere to or from 127.0.0.0/8 is dropped, before a port of the loopback makes it an
//	             alloc's: from allocs, whose answers are not at that address yet, and from machines on the same link
//	prerouting   ports of the node lead to allocs
//	output       so for the node's own programs
//	postrouting  what leaves the bridge has the node's address; what comes back to it by a port has the bridge's
//	forward      allocs are reached from elsewhere by ports and in answers alone
func (w *writer) all(published []network.Published) {
	maps := map[bool]*nftables.Set{false: w.ports(portsMap4, false, published)}
	if w.bridge.IPv6.Valid() {
		maps[true] = w.ports(portsMap6, true, published)
	}
	raw := w.chain("raw", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
	loopbackNet := netip.MustParsePrefix("127.0.0.0/8")
	elsewhere := link(expr.MetaKeyIIFNAME, expr.CmpOpNeq, "lo")
	w.rule(raw, elsewhere, ip(loopbackNet, dst), verdict(expr.VerdictDrop))
	w.rule(raw, elsewhere, ip(loopbackNet, src), verdict(expr.VerdictDrop))

	pre := w.chain("prerouting", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
	out := w.chain("output", nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
	for _, v6 := range []bool{false, true} {
		if m := maps[v6]; m != nil {
			w.rule(pre, lookup(m, v6))
			w.rule(out, lookup(m, v6))
		}
	}
	post := w.chain("postrouting", nftables.ChainTypeNAT, nftables.ChainHookPostrouting,
		nftables.ChainPriorityNATSource)
	w.rule(post, w.to(), ip(loopbackNet, src), dnat(), masquerade())
	for _, p := range w.bridge.pools() {
		w.rule(post, w.to(), ip(p.Prefix(), src), dnat(), masquerade())
		w.rule(post, w.notTo(), ip(p.Prefix(), src), masquerade())
	}
	fwd := w.chain("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	w.rule(fwd, w.from(), verdict(expr.VerdictAccept))
	w.rule(fwd, w.to(), known(), verdict(expr.VerdictAccept))
	w.rule(fwd, w.to(), dnat(), verdict(expr.VerdictAccept))
	w.rule(fwd, w.to(), verdict(expr.VerdictDrop))
}

// ports writes the map from the node's ports to those of allocs.
func (w *writer) ports(name string, v6 bool, published []network.Published) *nftables.Set {
	m := w.portsMap(name, v6)
	w.keep(w.conn.AddSet(m, nil))
	w.add(m, elements(published, v6))
	return m
}

func (w *writer) add(m *nftables.Set, all []nftables.SetElement) {
	for part := range slices.Chunk(all, maxElements) {
		w.keep(w.conn.SetAddElements(m, part))
	}
}

func (w *writer) portsMap(name string, v6 bool) *nftables.Set {
	addr := nftables.TypeIPAddr
	if v6 {
		addr = nftables.TypeIP6Addr
	}
	return &nftables.Set{
		Table:         w.table,
		Name:          name,
		IsMap:         true,
		Concatenation: true,
		KeyType:       nftables.MustConcatSetType(addr, nftables.TypeInetProto, nftables.TypeInetService),
		DataType:      nftables.MustConcatSetType(addr, nftables.TypeInetService),
	}
}

// elements are those of the map of one kind of addresses.
func elements(published []network.Published, v6 bool) (all []nftables.SetElement) {
	for _, p := range published {
		if p.Host.Is6() != v6 {
			continue
		}
		for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			all = append(all, nftables.SetElement{
				Key: slices.Concat(p.Host.AsSlice(), []byte{protocol, 0, 0, 0}, port(p.Port)),
				Val: slices.Concat(p.To.AsSlice(), port(p.ToPort)),
			})
		}
	}
	return all
}

// commit sends all of it as one transaction.
func (w *writer) commit() error {
	if w.err == nil {
		w.err = w.conn.Flush()
	}
	return fault.Wrap(w.err, fault.Internal, "write", w.bridge.tableSubject())
}

func (w *writer) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

// port is a number as it stands in a packet, filled up to a register.
func port(n uint16) []byte { return append(binary.BigEndian.AppendUint16(nil, n), 0, 0) }

func (w *writer) chain(
	name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority,
) *nftables.Chain {
	accept := nftables.ChainPolicyAccept
	return w.conn.AddChain(&nftables.Chain{
		Name:     name,
		Table:    w.table,
		Type:     kind,
		Hooknum:  hook,
		Priority: priority,
		Policy:   &accept,
	})
}

func (w *writer) rule(c *nftables.Chain, parts ...[]expr.Any) {
	w.conn.AddRule(&nftables.Rule{Table: w.table, Chain: c, Exprs: slices.Concat(parts...)})
}

func (w *writer) from() []expr.Any { return link(expr.MetaKeyIIFNAME, expr.CmpOpEq, w.bridge.Name) }

func (w *writer) to() []expr.Any { return link(expr.MetaKeyOIFNAME, expr.CmpOpEq, w.bridge.Name) }

func (w *writer) notTo() []expr.Any { return link(expr.MetaKeyOIFNAME, expr.CmpOpNeq, w.bridge.Name) }

func link(key expr.MetaKey, op expr.CmpOp, name string) []expr.Any {
	padded := name + strings.Repeat("\x00", unix.IFNAMSIZ-len(name))
	return []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: op, Register: 1, Data: []byte(padded)},
	}
}

// side is which address of a packet is meant.
type side bool

const (
	src side = false
	dst side = true
)

// field is where a header has an address.
func (s side) field(v6 bool) (offset, size uint32) {
	switch {
	case v6 && s == dst:
		return 24, 16
	case v6:
		return 8, 16
	case s == dst:
		return 16, 4
	}
	return 12, 4
}

func protocol(v6 bool) []expr.Any {
	kind := byte(unix.NFPROTO_IPV4)
	if v6 {
		kind = unix.NFPROTO_IPV6
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{kind}},
	}
}

// ip matches packets from or to a subnet.
func ip(p netip.Prefix, s side) []expr.Any {
	v6 := p.Addr().Is6()
	offset, size := s.field(v6)
	mask := make([]byte, size)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return append(protocol(v6),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{
			SourceRegister: 1,
			DestRegister:   1,
			Len:            size,
			Mask:           mask,
			Xor:            make([]byte, size),
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()},
	)
}

// firstWord is the number of the first register of four bytes (NFT_REG32_00); register 1 begins there too.
const firstWord = 8

// lookup sends a packet to where the map says that its port of the node leads. An address, a protocol and a port stand
// one after the other in registers of four bytes; so do what is found, an address and a port.
func lookup(m *nftables.Set, v6 bool) []expr.Any {
	offset, size := dst.field(v6)
	after := firstWord + size/4
	kind := uint32(unix.NFPROTO_IPV4)
	if v6 {
		kind = unix.NFPROTO_IPV6
	}
	return append(protocol(v6),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: after},
		&expr.Payload{DestRegister: after + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Lookup{
			SourceRegister: 1,
			DestRegister:   1,
			IsDestRegSet:   true,
			SetID:          m.ID,
			SetName:        m.Name,
		},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: kind, RegAddrMin: 1, RegProtoMin: after},
	)
}

// ipsDstNAT is the bit of a connection whose destination was changed (IPS_DST_NAT).
const ipsDstNAT = 1 << 5

func dnat() []expr.Any { return bits(expr.CtKeySTATUS, ipsDstNAT) }

func known() []expr.Any {
	return bits(expr.CtKeySTATE, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED)
}

// bits matches connections of which one of the bits is set.
func bits(key expr.CtKey, mask uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: key, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1,
			DestRegister:   1,
			Len:            4,
			Mask:           binaryutil.NativeEndian.PutUint32(mask),
			Xor:            make([]byte, 4),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

func masquerade() []expr.Any { return []expr.Any{&expr.Masq{}} }

func verdict(v expr.VerdictKind) []expr.Any { return []expr.Any{&expr.Verdict{Kind: v}} }
