package bridge_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/network"
	"berth/internal/port/bridge"
	"berth/internal/testkit/ownnetwork"
)

// TestMain runs the tests in a network namespace of their own: the machine's is not touched.
func TestMain(m *testing.M) { ownnetwork.Main(m) }

// rig is a node with a bridge, and another machine that is connected to it at 192.0.2.2.
type rig struct {
	t     *testing.T
	b     *bridge.Bridge
	dir   string
	other string // the machine's namespace
}

const nodeAddress, otherAddress = "192.0.2.1", "192.0.2.2"

func newRig(t *testing.T) *rig {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	v4, err := network.ParsePool("172.26.64.0/20", false)
	must(t, err)
	v6, err := network.ParsePool("fd00:be::/64", true)
	must(t, err)
	r := &rig{t: t, dir: t.TempDir()}
	r.b = &bridge.Bridge{
		Name:    "berth",
		Owner:   t.TempDir(),
		IPv4:    v4,
		IPv6:    v6,
		Hairpin: true,
	}
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, netlink.LinkSetUp(lo))
	r.other = r.namespace("other")
	r.cable()
	t.Cleanup(func() {
		must(t, r.b.Remove())
		r.nothingLeft()
	})
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cable connects the node with the other machine.
func (r *rig) cable() {
	t := r.t
	t.Helper()
	ns, err := os.Open(r.other)
	must(t, err)
	defer ns.Close()
	must(t, netlink.LinkAdd(&netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: "uplink", MTU: 1400, TxQLen: -1},
		PeerName:      "uplink",
		PeerNamespace: netlink.NsFd(ns.Fd()),
		PeerTxQLen:    -1,
	}))
	up := func(own, gateway string) error {
		link, err := netlink.LinkByName("uplink")
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(own + "/24")
		if err != nil {
			return err
		}
		if err := errors.Join(netlink.AddrAdd(link, addr), netlink.LinkSetUp(link)); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(gateway)})
	}
	must(t, up(nodeAddress, otherAddress))
	must(t, r.within(r.other, func() error { return up(otherAddress, nodeAddress) }))
	t.Cleanup(func() {
		link, err := netlink.LinkByName("uplink")
		must(t, err)
		must(t, netlink.LinkDel(link))
	})
}

func (r *rig) namespace(name string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	_, err := bridge.MakeNamespace(r.t.Context(), path)
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, bridge.RemoveNamespace(path)) })
	return path
}

// within calls fn on a thread in a namespace.
func (r *rig) within(path string, fn func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread is thrown away
		f, err := os.Open(path)
		if err == nil {
			err = errors.Join(unix.Setns(int(f.Fd()), unix.CLONE_NEWNET), f.Close())
		}
		if err == nil {
			err = fn()
		}
		done <- err
	}()
	return <-done
}

// alloc makes an alloc's network with what leads to it, beside those that there are.
func (r *rig) alloc(name, v4, v6 string) (m bridge.Member) {
	r.t.Helper()
	m = bridge.Member{
		Namespace: r.namespace(name),
		Link:      network.Link(ids.Alloc(name)),
		IPv4:      netip.MustParseAddr(v4),
		IPv6:      netip.MustParseAddr(v6),
	}
	must(r.t, r.b.Connect(m))
	r.t.Cleanup(func() { must(r.t, r.b.Disconnect(m.Link)) })
	return m
}

// serve answers connections in a namespace with the address of whoever has called.
func (r *rig) serve(path, at string) {
	r.t.Helper()
	var l net.Listener
	must(r.t, r.within(path, func() (err error) {
		l, err = new(net.ListenConfig).Listen(context.Background(), "tcp", at)
		return err
	}))
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String()) // it has this form
			_, _ = io.WriteString(c, host)                           // whoever hung up learns nothing
			_ = c.Close()
		}
	}()
	r.t.Cleanup(func() {
		must(r.t, l.Close())
		<-served
	})
}

const self = "/proc/self/ns/net"

// call connects from a namespace and returns what is answered.
func (r *rig) call(path, to string) (answer string, err error) {
	err = r.within(path, func() error {
		d := net.Dialer{Timeout: 2 * time.Second}
		c, err := d.Dial("tcp", to)
		if err != nil {
			return err
		}
		defer c.Close()
		b, err := io.ReadAll(c)
		answer = string(b)
		return err
	})
	return answer, err
}

// nothingLeft says that no link and no table of Berth's is on the node.
func (r *rig) nothingLeft() {
	r.t.Helper()
	all, err := netlink.LinkList()
	must(r.t, err)
	for _, l := range all {
		if strings.HasPrefix(l.Attrs().Name, "berth") {
			r.t.Errorf("link %s is left", l.Attrs().Name)
		}
	}
	if there, err := r.b.Applied(); err != nil || there {
		r.t.Errorf("the table is left: %v, %v", there, err)
	}
}

// TestAPortLeadsToItsAllocFromEverywhere: from another machine, from the node at its own address and at 127.0.0.1, and
// from another alloc and the same one by the node's address; of each the alloc sees an address that it can answer.
func TestAPortLeadsToItsAllocFromEverywhere(t *testing.T) {
	r := newRig(t)
	must(t, r.b.Ensure())
	must(t, r.b.Apply(network.Order([]network.Published{
		{Host: netip.MustParseAddr(nodeAddress), Port: 8080, To: netip.MustParseAddr("172.26.64.10"), ToPort: 80},
		{Host: netip.MustParseAddr("127.0.0.1"), Port: 8080, To: netip.MustParseAddr("172.26.64.10"), ToPort: 80},
	})))
	web := r.alloc("web", "172.26.64.10", "fd00:be::10")
	peer := r.alloc("peer", "172.26.64.11", "fd00:be::11")
	r.serve(web.Namespace, ":80")
	for name, c := range map[string]struct{ from, to, sees string }{
		"another machine":        {r.other, nodeAddress + ":8080", otherAddress},
		"the node":               {self, nodeAddress + ":8080", ""},
		"the node's loopback":    {self, "127.0.0.1:8080", "172.26.64.1"},
		"another alloc":          {peer.Namespace, nodeAddress + ":8080", "172.26.64.1"},
		"itself":                 {web.Namespace, nodeAddress + ":8080", "172.26.64.1"},
		"another alloc, bridged": {peer.Namespace, "172.26.64.10:80", "172.26.64.11"},
		"by IPv6":                {peer.Namespace, "[fd00:be::10]:80", "fd00:be::11"},
		"its own loopback":       {web.Namespace, "127.0.0.1:80", "127.0.0.1"},
	} {
		got, err := r.call(c.from, c.to)
		if err != nil || c.sees != "" && strings.TrimPrefix(got, "::ffff:") != c.sees {
			t.Errorf("%s: the alloc sees %q, %v; want %q", name, got, err, c.sees)
		}
	}
}

// TestWhatNoPortLeadsToIsNotReached: an alloc's own address from another machine, and what listens on the node's
// 127.0.0.1 from an alloc.
func TestWhatNoPortLeadsToIsNotReached(t *testing.T) {
	r := newRig(t)
	must(t, r.b.Ensure())
	must(t, r.b.Apply(nil))
	web := r.alloc("web", "172.26.64.10", "fd00:be::10")
	r.serve(web.Namespace, ":80")
	if got, err := r.call(r.other, "172.26.64.10:80"); err == nil {
		t.Errorf("another machine reaches an alloc past its ports: %q", got)
	}
	r.serve(self, "127.0.0.1:9000")
	r.leadLoopback(web.Namespace, "172.26.64.1") // a task with the right to it could do so
	if got, err := r.call(web.Namespace, "127.0.0.1:9000"); err == nil {
		t.Errorf("an alloc reaches the node's loopback: %q", got)
	}
	if _, err := r.call(self, "127.0.0.1:9000"); err != nil {
		t.Errorf("the node itself does not: %v", err)
	}
}

// leadLoopback has a namespace send what is for 127.0.0.0/8 to a gateway, by its link eth0 or the only one that it has.
func (r *rig) leadLoopback(namespace, gateway string) {
	r.t.Helper()
	must(r.t, r.within(namespace, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		routes, err := netlink.RouteGet(net.ParseIP(gateway))
		if err != nil {
			return err
		}
		link, err := netlink.LinkByIndex(routes[0].LinkIndex)
		if err != nil {
			return err
		}
		file := "/proc/sys/net/ipv4/conf/" + link.Attrs().Name + "/route_localnet"
		if err := os.WriteFile(file, []byte("1"), 0); err != nil {
			return err
		}
		local, err := netlink.ParseAddr("127.0.0.1/8")
		if err != nil {
			return err
		}
		return errors.Join(netlink.AddrDel(lo, local), netlink.RouteAdd(&netlink.Route{
			LinkIndex: link.Attrs().Index,
			Gw:        net.ParseIP(gateway),
			Dst:       &net.IPNet{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)},
		}))
	}))
}

// TestAPortOfTheLoopbackIsTheNodesAlone: given a port at the node's 127.0.0.1, when a machine on the same link sends
// what is for that address to the node, then it does not reach the alloc; the node itself does.
func TestAPortOfTheLoopbackIsTheNodesAlone(t *testing.T) {
	r := newRig(t)
	must(t, r.b.Ensure())
	must(t, r.b.Apply(network.Order([]network.Published{
		{Host: netip.MustParseAddr("127.0.0.1"), Port: 8080, To: netip.MustParseAddr("172.26.64.10"), ToPort: 80},
	})))
	web := r.alloc("web", "172.26.64.10", "fd00:be::10")
	r.serve(web.Namespace, ":80")
	r.leadLoopback(r.other, nodeAddress)
	if got, err := r.call(r.other, "127.0.0.1:8080"); err == nil {
		t.Errorf("another machine reaches it: %q", got)
	}
	if _, err := r.call(self, "127.0.0.1:8080"); err != nil {
		t.Errorf("the node itself does not: %v", err)
	}
}

// TestAllocsReachOtherMachinesWithTheNodesAddress: what leaves the node is masqueraded.
func TestAllocsReachOtherMachinesWithTheNodesAddress(t *testing.T) {
	r := newRig(t)
	must(t, r.b.Ensure())
	must(t, r.b.Apply(nil))
	web := r.alloc("web", "172.26.64.10", "fd00:be::10")
	r.serve(r.other, ":7000")
	got, err := r.call(web.Namespace, otherAddress+":7000")
	if err != nil || strings.TrimPrefix(got, "::ffff:") != nodeAddress {
		t.Errorf("it sees %q, %v", got, err)
	}
}

// TestEverythingMayBeRepeated, and half of an earlier try is completed.
func TestEverythingMayBeRepeated(t *testing.T) {
	r := newRig(t)
	for range 2 {
		must(t, r.b.Ensure())
		must(t, r.b.Apply(nil))
	}
	link, err := netlink.LinkByName("berth")
	must(t, err)
	if link.Attrs().MTU != 1400 {
		t.Errorf("the bridge's MTU is %d, and not that of the link of the default route", link.Attrs().MTU)
	}
	m := r.alloc("web", "172.26.64.10", "fd00:be::10")
	must(t, r.b.Connect(m))
	mtu := 0
	must(t, r.within(m.Namespace, func() error {
		inside, err := netlink.LinkByName(network.Interface)
		if err == nil {
			mtu = inside.Attrs().MTU
		}
		return err
	}))
	if mtu != 1400 {
		t.Errorf("the alloc's MTU is %d: packets that the node cannot pass on would be lost", mtu)
	}
	if all, err := r.b.Links(); err != nil || len(all) != 1 || all[0] != m.Link {
		t.Errorf("links: %v, %v", all, err)
	}
	if all, err := bridge.Addresses(m.Namespace); err != nil || len(all) != 2 {
		t.Errorf("addresses: %v, %v", all, err)
	}
	// The namespace is another one, the link that of before.
	must(t, r.b.Disconnect(m.Link))
	must(t, r.b.Connect(m))
	must(t, bridge.RemoveNamespace(m.Namespace))
	made, err := bridge.MakeNamespace(t.Context(), m.Namespace)
	if err != nil || !made {
		t.Fatalf("made %v, %v", made, err)
	}
	must(t, r.b.Connect(m))
	if _, err := r.call(self, "172.26.64.10:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the new namespace does not answer: %v", err)
	}
	for range 2 {
		must(t, r.b.Disconnect(m.Link))
	}
}

// TestWhatIsOthersIsLeft: a link of the bridge's name, a subnet that the node is in, and another agent's links.
func TestWhatIsOthersIsLeft(t *testing.T) {
	r := newRig(t)
	must(t, r.b.Ensure())
	must(t, r.b.Apply(nil))
	r.alloc("web", "172.26.64.10", "fd00:be::10")
	other := *r.b
	other.Owner = "/elsewhere"
	for what, err := range map[string]error{
		"the bridge": other.Ensure(),
		"a link":     other.Disconnect(network.Link("web")),
	} {
		if !fault.Has(err, fault.Conflict) {
			t.Errorf("%s of another agent is taken: %v", what, err)
		}
	}
	if err := other.Ensure(); !strings.Contains(err.Error(), r.b.Owner) {
		t.Errorf("the refusal does not name whose it is: %v", err)
	}
	must(t, other.Remove())
	if there, err := r.b.Applied(); err != nil || !there {
		t.Errorf("the table of another agent's bridge is removed: %v", err)
	}
	if _, err := netlink.LinkByName("berth"); err != nil {
		t.Error(err)
	}
	near := *r.b
	near.Name = "near"
	near.IPv4, _ = network.ParsePool("192.0.2.0/25", false)
	err := near.Ensure()
	if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), nodeAddress) {
		t.Errorf("a subnet that the node is in is taken: %v", err)
	}
}

// TestPortsComeAndGo without the table being written anew: many, and one that leads elsewhere than before.
func TestPortsComeAndGo(t *testing.T) {
	r := newRig(t)
	must(t, r.b.Ensure())
	must(t, r.b.Apply(nil))
	web := r.alloc("web", "172.26.64.10", "fd00:be::10")
	r.serve(web.Namespace, ":80")
	at := func(port, to uint16) network.Published {
		return network.Published{
			Host:   netip.MustParseAddr(nodeAddress),
			Port:   port,
			To:     web.IPv4,
			ToPort: to,
		}
	}
	var many []network.Published
	for port := range uint16(1000) {
		many = append(many, at(20000+port, 81))
	}
	must(t, r.b.Update(nil, many))
	if got, err := r.call(r.other, nodeAddress+":20999"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("at a port at which nothing listens: %q, %v", got, err)
	}
	must(t, r.b.Update(many[999:], []network.Published{at(20999, 80)}))
	if _, err := r.call(r.other, nodeAddress+":20999"); err != nil {
		t.Errorf("a port that leads elsewhere than before: %v", err)
	}
	must(t, r.b.Update([]network.Published{at(20999, 80)}, nil))
	r.serve(self, nodeAddress+":20999")
	if got, err := r.call(r.other, nodeAddress+":20999"); err != nil || got != otherAddress {
		t.Errorf("a port that was taken away does not lead to the node itself: %q, %v", got, err)
	}
	must(t, r.b.Remove())
	if err := r.b.Update(nil, many[:1]); err == nil {
		t.Error("a table that is not there was changed")
	}
}

// TestChainsOfOthersThatDropAreNamed and left as they are.
func TestChainsOfOthersThatDropAreNamed(t *testing.T) {
	r := newRig(t)
	must(t, r.b.Ensure())
	must(t, r.b.Apply(nil))
	conn, err := nftables.New()
	must(t, err)
	drop := nftables.ChainPolicyDrop
	theirs := conn.AddTable(&nftables.Table{Name: "filter", Family: nftables.TableFamilyIPv4})
	conn.AddChain(&nftables.Chain{
		Name:     "FORWARD",
		Table:    theirs,
		Type:     nftables.ChainTypeFilter,
		Hooknum:  nftables.ChainHookForward,
		Priority: nftables.ChainPriorityFilter,
		Policy:   &drop,
	})
	must(t, conn.Flush())
	t.Cleanup(func() {
		conn.DelTable(theirs)
		must(t, conn.Flush())
	})
	got, err := r.b.Droppers()
	if err != nil || len(got) != 1 || got[0] != "ip filter FORWARD" {
		t.Errorf("droppers: %v, %v", got, err)
	}
	must(t, r.b.Apply(nil))
	must(t, r.b.Remove())
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
	if err != nil || len(chains) != 1 {
		t.Errorf("chains of others: %v, %v", chains, err)
	}
}
