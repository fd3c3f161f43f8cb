package bridge_test

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"

	"berth/internal/model/network"
)

const theirGateway, theirAddress = "10.9.0.1", "10.9.0.2"

// neighbour is a container that another program has made on the node, beside Berth's bridge, with its own rules: its
// address is hidden behind the node's, and what is forwarded is theirs to say, as Docker and firewalld have it.
func (r *rig) neighbour() (namespace string, rules *nftables.Conn) {
	t := r.t
	t.Helper()
	namespace = r.namespace("theirs")
	ns, err := os.Open(namespace)
	must(t, err)
	defer ns.Close()
	must(t, netlink.LinkAdd(&netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: "docker0", TxQLen: -1},
		PeerName:      "eth0",
		PeerNamespace: netlink.NsFd(ns.Fd()),
		PeerTxQLen:    -1,
	}))
	up := func(link, own string) error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(own + "/24")
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(l, addr); err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	}
	must(t, up("docker0", theirGateway))
	must(t, r.within(namespace, func() error {
		if err := up("eth0", theirAddress); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(theirGateway)})
	}))
	t.Cleanup(func() {
		link, err := netlink.LinkByName("docker0")
		must(t, err)
		must(t, netlink.LinkDel(link))
	})
	rules, err = nftables.New()
	must(t, err)
	table := rules.AddTable(&nftables.Table{Name: "nat", Family: nftables.TableFamilyIPv4})
	post := rules.AddChain(&nftables.Chain{
		Name:     "POSTROUTING",
		Table:    table,
		Type:     nftables.ChainTypeNAT,
		Hooknum:  nftables.ChainHookPostrouting,
		Priority: nftables.ChainPriorityNATSource,
	})
	from := append([]byte("docker0"), make([]byte, 9)...)
	rules.AddRule(&nftables.Rule{Table: table, Chain: post, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: from},
		&expr.Masq{},
	}})
	must(t, rules.Flush())
	t.Cleanup(func() {
		rules.DelTable(table)
		must(t, rules.Flush())
	})
	return namespace, rules
}

// TestWhatOthersForwardPasses: given a container of another program on the node, whose table was there first, when the
// bridge is made, filled and removed, then the container is reached and reaches others as before, its rules are all
// there, and allocs are reached by their ports; neither reaches the other past those.
func TestWhatOthersForwardPasses(t *testing.T) {
	r := newRig(t)
	must(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
	theirs, rules := r.neighbour()
	r.serve(theirs, ":5000")
	r.serve(r.other, ":7000")
	must(t, r.within(r.other, func() error {
		_, to, err := net.ParseCIDR("10.9.0.0/24")
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Dst: to, Gw: net.ParseIP(nodeAddress)})
	}))
	asBefore := func(when string) {
		t.Helper()
		if got, err := r.call(r.other, theirAddress+":5000"); err != nil || strings.TrimPrefix(got, "::ffff:") != otherAddress {
			t.Errorf("%s their container is reached as %q, %v", when, got, err)
		}
		if got, err := r.call(theirs, otherAddress+":7000"); err != nil || strings.TrimPrefix(got, "::ffff:") != nodeAddress {
			t.Errorf("%s their container reaches others as %q, %v", when, got, err)
		}
		chains, err := rules.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
		if err != nil || len(chains) != 1 {
			t.Errorf("%s their chains are %v, %v", when, chains, err)
			return
		}
		if all, err := rules.GetRules(chains[0].Table, chains[0]); err != nil || len(all) != 1 {
			t.Errorf("%s their rules are %v, %v", when, all, err)
		}
	}
	asBefore("before")
	must(t, r.b.Ensure())
	web := r.alloc("web", "172.26.64.10", "fd00:be::10")
	r.serve(web.Namespace, ":80")
	must(t, r.b.Apply(network.Order([]network.Published{{
		Host:   netip.MustParseAddr(nodeAddress),
		Port:   8080,
		To:     web.IPv4,
		ToPort: 80,
	}})))
	asBefore("beside the bridge")
	if got, err := r.call(theirs, nodeAddress+":8080"); err != nil {
		t.Errorf("their container does not reach an alloc by its port: %q, %v", got, err)
	}
	if got, err := r.call(theirs, "172.26.64.10:80"); err == nil {
		t.Errorf("their container reaches an alloc past its ports: %q", got)
	}
	must(t, r.b.Apply(nil))
	asBefore("with no port left")
	must(t, r.b.Disconnect(web.Link))
	must(t, r.b.Remove())
	asBefore("without the bridge")
}
