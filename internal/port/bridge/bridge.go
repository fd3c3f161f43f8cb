package bridge

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/model/network"
)

// Bridge is the node's bridge and all that belongs to it. Its methods are called one at a time.
type Bridge struct {
	Name string
	// Owner is the agent's directory. The hardware addresses of the bridge and of every link on the node follow from
	// it: they tell, from the moment that the kernel makes a link, whose it is, also where several agents run.
	Owner string
	IPv4  network.Pool
	IPv6  network.Pool // not valid: none
	// Hairpin lets a link have its own packets back from the bridge.
	Hairpin bool
	// Note hears of each setting of the kernel that is changed for the node as a whole; nil: nobody needs to.
	Note func(setting, from, to string)

	nft *nftables.Conn // nil: not open
}

// ownerPrefix begins what is written on links, for people.
const ownerPrefix = "berth:"

// maxAlias is how much can be written on a link, in bytes (IFALIASZ, without the final NUL).
const maxAlias = 255

// sign writes on a link whose it is.
func (b *Bridge) sign(link netlink.Link) error {
	text := ownerPrefix + b.Owner
	text = text[:min(len(text), maxAlias)]
	if link.Attrs().Alias == text {
		return nil
	}
	return fault.Wrap(netlink.LinkSetAlias(link, text), fault.Internal, "write on",
		fmt.Sprintf("link %q", link.Attrs().Name))
}

// mark is the hardware address by which a link of this name is known as this agent's.
func (b *Bridge) mark(name string) net.HardwareAddr {
	sum := sha256.Sum256([]byte(b.Owner + "\x00" + name))
	return append(net.HardwareAddr{0x02, 0xbe}, sum[:4]...)
}

func (b *Bridge) marked(link netlink.Link) bool {
	return bytes.Equal(link.Attrs().HardwareAddr, b.mark(link.Attrs().Name))
}

// Ensure makes the bridge, its addresses and what the kernel has to be set to for them, and finds what is there. An
// error of kind Conflict names what is in the way.
func (b *Bridge) Ensure() error {
	link, err := b.find()
	if err != nil {
		return err
	}
	if link == nil {
		if err := b.apart(); err != nil {
			return err
		}
		mtu, err := mtu()
		if err != nil {
			return err
		}
		link = &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{
			Name:         b.Name,
			MTU:          mtu,
			HardwareAddr: b.mark(b.Name),
			TxQLen:       -1,
		}}
		if err := netlink.LinkAdd(link); err != nil {
			return fault.Wrap(err, fault.Internal, "make", b.subject())
		}
	}
	if err := b.sign(link); err != nil {
		return err
	}
	for _, p := range b.pools() {
		addr := address(p.Gateway(), p.Prefix().Bits())
		if err := netlink.AddrReplace(link, addr); err != nil {
			return fault.Wrap(err, fault.Internal, "give", p.Gateway().String()+" to "+b.subject())
		}
	}
	if err := b.atOnce(); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fault.Wrap(err, fault.Internal, "bring up", b.subject())
	}
	return b.forwarding()
}

func (b *Bridge) subject() string { return fmt.Sprintf("bridge %q", b.Name) }

func (b *Bridge) pools() []network.Pool {
	if b.IPv6.Valid() {
		return []network.Pool{b.IPv4, b.IPv6}
	}
	return []network.Pool{b.IPv4}
}

// find returns the bridge, or nil. A link of its name that is somebody else's is a conflict.
func (b *Bridge) find() (netlink.Link, error) {
	link, err := byName(b.Name)
	if link == nil || err != nil {
		return nil, err
	}
	if link.Type() != "bridge" || !b.marked(link) {
		whose := "it is not Berth's"
		if owner, is := strings.CutPrefix(link.Attrs().Alias, ownerPrefix); is {
			whose = "it belongs to the agent with data_dir " + owner
		}
		return nil, fault.WithHint(
			fault.New(fault.Conflict, "use", fmt.Sprintf("link %q as bridge of the allocations", b.Name), whose),
			"set bridge_network_name and bridge_network_subnet in the client block; or, if nobody needs that link, "+
				"ip link delete "+b.Name)
	}
	return link, nil
}

// apart refuses a subnet that the node has addresses of already: what is there would not be reached any more.
func (b *Bridge) apart() error {
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "list", "the node's addresses")
	}
	for _, a := range all {
		ip, ok := netip.AddrFromSlice(a.IP)
		ones, _ := a.Mask.Size()
		if !ok {
			continue
		}
		theirs := netip.PrefixFrom(ip.Unmap(), ones)
		for _, p := range b.pools() {
			if p.Prefix().Overlaps(theirs) {
				return fault.WithHint(
					fault.New(fault.Conflict, "use", "subnet "+p.String(),
						fmt.Sprintf("the node's own address %s of link %q lies in the same range", theirs,
							linkName(a.LinkIndex))),
					"set bridge_network_subnet in the client block to a range that nobody uses")
			}
		}
	}
	return nil
}

func linkName(index int) string {
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return fmt.Sprint(index)
	}
	return link.Attrs().Name
}

// byName returns a link of the node, or nil.
func byName(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	return link, fault.Wrap(err, fault.Internal, "look for", fmt.Sprintf("link %q", name))
}

// mtu is that of the link of the default route; without one 1500.
func mtu() (int, error) {
	const usual = 1500
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_MAIN},
		netlink.RT_FILTER_TABLE)
	if err != nil {
		return 0, fault.Wrap(err, fault.Internal, "list", "the node's routes")
	}
	for _, r := range routes {
		if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
			continue
		}
		link, err := netlink.LinkByIndex(r.LinkIndex)
		if err == nil && link.Attrs().MTU > 0 {
			return link.Attrs().MTU, nil
		}
	}
	return usual, nil
}

func address(a netip.Addr, bits int) *netlink.Addr {
	out := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}}
	if a.Is6() {
		out.Flags = unix.IFA_F_NODAD // nobody else makes addresses here
	}
	return out
}

// Member is an alloc's end of the bridge.
type Member struct {
	Namespace string // path
	Link      string // on the node
	IPv4      netip.Addr
	IPv6      netip.Addr // not valid: none
}

// Connect gives a namespace a link to the bridge, addresses and routes, and finds what is there of them.
func (b *Bridge) Connect(m Member) error {
	bridge, err := b.find()
	if err != nil {
		return err
	}
	if bridge == nil {
		return fault.New(fault.NotReady, "use", b.subject(), "it is gone")
	}
	ns, err := open(m.Namespace)
	if err != nil {
		return err
	}
	defer ns.Close()
	inside, err := handle(ns)
	if err != nil {
		return err
	}
	defer inside.Close()
	outer, err := b.pair(bridge, m, int(ns.Fd()), inside)
	if err != nil {
		return err
	}
	if err := b.sign(outer); err != nil {
		return err
	}
	if err := netlink.LinkSetMaster(outer, bridge); err != nil {
		return fault.Wrap(err, fault.Internal, "connect", fmt.Sprintf("link %q to %s", m.Link, b.subject()))
	}
	if err := netlink.LinkSetHairpin(outer, b.Hairpin); err != nil {
		return fault.Wrap(err, fault.Internal, "set hairpin mode of", fmt.Sprintf("link %q", m.Link))
	}
	if err := netlink.LinkSetUp(outer); err != nil {
		return fault.Wrap(err, fault.Internal, "bring up", fmt.Sprintf("link %q", m.Link))
	}
	return b.configure(inside, m)
}

// pair makes both ends of a link, or finds them. An end without the other inside is half of an earlier try.
func (b *Bridge) pair(bridge netlink.Link, m Member, ns int, inside *netlink.Handle) (netlink.Link, error) {
	outer, err := byName(m.Link)
	if err != nil {
		return nil, err
	}
	if outer != nil {
		if _, err := inside.LinkByName(network.Interface); err == nil {
			return outer, nil
		}
		if err := b.Disconnect(m.Link); err != nil {
			return nil, err
		}
	}
	veth := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{
			Name:         m.Link,
			MTU:          bridge.Attrs().MTU,
			HardwareAddr: b.mark(m.Link),
			TxQLen:       -1,
		},
		PeerName:         network.Interface,
		PeerHardwareAddr: network.MAC(m.IPv4),
		PeerNamespace:    netlink.NsFd(ns),
		PeerTxQLen:       -1,
	}
	if err := netlink.LinkAdd(veth); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", fmt.Sprintf("link %q", m.Link))
	}
	return veth, nil
}

// configure sets up the end in the namespace.
func (b *Bridge) configure(inside *netlink.Handle, m Member) error {
	fail := func(err error, op string) error {
		return fault.Wrap(err, fault.Internal, op,
			fmt.Sprintf("%q in network namespace %s", network.Interface, m.Namespace))
	}
	inner, err := inside.LinkByName(network.Interface)
	if err != nil {
		return fail(err, "find")
	}
	if err := inside.AddrReplace(inner, address(m.IPv4, b.IPv4.Prefix().Bits())); err != nil {
		return fail(err, "give an address to")
	}
	if m.IPv6.IsValid() {
		if err := inside.AddrReplace(inner, address(m.IPv6, b.IPv6.Prefix().Bits())); err != nil {
			return fail(err, "give an IPv6 address to")
		}
	}
	if err := inside.LinkSetUp(inner); err != nil {
		return fail(err, "bring up")
	}
	for _, p := range b.pools() {
		if p.Gateway().Is6() && !m.IPv6.IsValid() {
			continue
		}
		route := &netlink.Route{LinkIndex: inner.Attrs().Index, Gw: p.Gateway().AsSlice(), Dst: everywhere(p.Gateway())}
		if err := inside.RouteReplace(route); err != nil {
			return fail(err, "route by")
		}
	}
	return nil
}

// everywhere is the destination of a default route.
func everywhere(like netip.Addr) *net.IPNet {
	bits := like.BitLen()
	return &net.IPNet{IP: make(net.IP, bits/8), Mask: net.CIDRMask(0, bits)}
}

// handle speaks with the kernel about a namespace.
func handle(ns *os.File) (*netlink.Handle, error) {
	h, err := netlink.NewHandleAt(nsHandle(ns), unix.NETLINK_ROUTE)
	return h, fault.Wrap(err, fault.Internal, "enter", "network namespace "+ns.Name())
}

// Disconnect removes the link of an alloc, and with it the other end. One of the name that is not this agent's is left.
func (b *Bridge) Disconnect(name string) error {
	link, err := byName(name)
	if link == nil || err != nil {
		return err
	}
	if !b.owns(link) {
		return fault.New(fault.Conflict, "remove", fmt.Sprintf("link %q", name), "it is not this agent's")
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fault.Wrap(err, fault.Internal, "remove", fmt.Sprintf("link %q", name))
	}
	return nil
}

// owns reports whether a link is proven to be one that this agent made for an alloc.
func (b *Bridge) owns(link netlink.Link) bool {
	return link.Type() == "veth" && network.IsLink(link.Attrs().Name) && b.marked(link)
}

// Links are the names of all links that this agent made for allocs.
func (b *Bridge) Links() ([]string, error) {
	all, err := netlink.LinkList()
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "list", "the node's links")
	}
	var out []string
	for _, link := range all {
		if b.owns(link) {
			out = append(out, link.Attrs().Name)
		}
	}
	return out, nil
}

// Addresses are those that a namespace has on its link to the bridge; none where it has no such link.
func Addresses(namespace string) (all []netip.Addr, err error) {
	ns, err := open(namespace)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	inside, err := handle(ns)
	if err != nil {
		return nil, err
	}
	defer inside.Close()
	link, err := inside.LinkByName(network.Interface)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "look into", "network namespace "+namespace)
	}
	addrs, err := inside.AddrList(link, netlink.FAMILY_ALL)
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP); ok && !ip.Unmap().IsLinkLocalUnicast() {
			all = append(all, ip.Unmap())
		}
	}
	return all, fault.Wrap(err, fault.Internal, "look into", "network namespace "+namespace)
}

// Whole reports whether bridge and table are there.
func (b *Bridge) Whole() (bool, error) {
	link, err := b.find()
	if link == nil || err != nil {
		return false, err
	}
	return b.Applied()
}

// Remove takes down the bridge and the table, unless the bridge is somebody else's: then the table is, too.
func (b *Bridge) Remove() error {
	link, err := byName(b.Name)
	if err != nil || link != nil && (link.Type() != "bridge" || !b.marked(link)) {
		return err
	}
	if err := b.removeTable(); err != nil || link == nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fault.Wrap(err, fault.Internal, "remove", b.subject())
	}
	return nil
}

// RemoveOwn is Remove where a bridge of this agent's is there: without one, no table is looked for.
func (b *Bridge) RemoveOwn() error {
	if link, err := byName(b.Name); link == nil || err != nil {
		return err
	}
	return b.Remove()
}
