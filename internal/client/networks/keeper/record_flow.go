package keeper

import (
	"net/netip"

	"berth/internal/base/fault"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/network"
)

// bridged reports whether the alloc has a link to the bridge.
func (r *Record) bridged() bool { return r.Mode == network.ModeBridge }

// plugged reports whether CNI plugins make the alloc's network.
func (r *Record) plugged() bool {
	_, is := network.CNI(r.Mode)
	return is
}

// isolated reports whether the alloc has a network namespace.
func (r *Record) isolated() bool { return r.bridged() || r.plugged() || r.Mode == network.ModeNone }

// connected reports whether it leads out of that.
func (r *Record) connected() bool { return r.bridged() || r.plugged() }

// address reads an address of the record; not valid: it has none.
func address(text string) netip.Addr {
	a, _ := netip.ParseAddr(text) // it was written by this package, or is empty
	return a
}

// addresses are those of the alloc.
func (r *Record) addresses() (v4, v6 netip.Addr) { return address(r.IPv4), address(r.IPv6) }

// taken are the addresses that allocs have, those included that are being released.
func taken(all map[string]*Record) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, r := range all {
		for _, text := range []string{r.IPv4, r.IPv6} {
			if a := address(text); a.IsValid() && !r.plugged() { // the addresses of plugins are theirs
				out[a] = true
			}
		}
	}
	return out
}

// published is all that leads to allocs which are not being released. Where an end is not complete and a port was given
// again, the alloc that comes has it.
func published(all map[string]*Record) []network.Published {
	var out []network.Published
	for _, r := range all { // the order does not show: all is sorted below
		if v4, v6 := r.addresses(); r.bridged() && !r.Ending {
			out = append(out, network.Publish(r.Ports, v4, v6)...)
		}
	}
	return network.Order(out)
}

// anyBridged reports whether an alloc has a link to the bridge, or may have.
func anyBridged(all map[string]*Record) bool {
	for _, r := range all {
		if r.bridged() {
			return true
		}
	}
	return false
}

// choose gives a record the addresses of its mode, as far as it has none from these pools.
func (r *Record) choose(v4, v6 network.Pool, taken map[netip.Addr]bool) error {
	if !r.bridged() {
		return nil
	}
	for _, a := range []struct {
		pool network.Pool
		at   *string
	}{{v4, &r.IPv4}, {v6, &r.IPv6}} {
		has := address(*a.at)
		switch {
		case !a.pool.Valid():
			*a.at = ""
		case has.IsValid() && a.pool.Prefix().Contains(has):
		default:
			got, err := a.pool.Pick(string(r.Alloc), taken)
			if err != nil {
				return err
			}
			*a.at = got.String()
		}
	}
	return nil
}

// merge takes over what an alloc wants of what there is: mode and addresses stay for as long as the alloc.
func (r *Record) merge(mode string, ports []alloc.PortMapping) error {
	if r.Mode != mode {
		return fault.New(fault.Invalid, "make", "the network of allocation "+string(r.Alloc),
			"it has one of mode "+r.Mode+" and asks for "+mode)
	}
	if r.Ending {
		return fault.New(fault.NotReady, "make", "the network of allocation "+string(r.Alloc), "it is being released")
	}
	r.Ports = ports
	return nil
}

// status is what the servers hear of it; nil: nothing worth telling.
func (r *Record) status(dns *job.DNS) *alloc.NetworkStatus {
	if !r.isolated() {
		return nil
	}
	s := &alloc.NetworkStatus{Address: r.IPv4, IPv6: r.IPv6, DNS: dns}
	if r.connected() {
		s.Interface = network.Interface
	}
	return s
}
