// Package nodeservers owns how the servers that an agent's node asks are changed over HTTP. Only httpapi and the agent
// import it.
package nodeservers

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"berth/internal/base/fault"
)

// Source knows which servers a node asks.
type Source interface {
	// Addresses are those that are asked, in their order.
	Addresses() []string
	// Use has these asked in place of those of the configuration, until the agent is started again.
	Use(addresses []string)
}

// most bounds how many servers are named.
const most = 100

// Use has a node ask other servers. nil is an agent that has a server.
func Use(of Source, addresses []string) error {
	refuse := func(k fault.Kind, why, hint string) error {
		return fault.WithHint(fault.New(k, "change", "the servers of the agent's node", why), hint)
	}
	const port = `give host:port of their TLS ports, as "berth server members" shows them`
	switch {
	case of == nil:
		return refuse(fault.Conflict, "this agent has a server, which is the one that it asks",
			"ask the agent of a node without a server")
	case len(addresses) == 0:
		return refuse(fault.Invalid, "no address is given", port)
	case len(addresses) > most:
		return refuse(fault.Invalid, fmt.Sprintf("there are %d addresses, at most %d are taken", len(addresses), most),
			port)
	}
	seen := map[string]bool{}
	for _, a := range addresses {
		if why := wrong(a); why != "" {
			return refuse(fault.Invalid, fmt.Sprintf("%q %s", a, why), port)
		}
		if seen[a] {
			return refuse(fault.Invalid, fmt.Sprintf("%q is named twice", a), port)
		}
		seen[a] = true
	}
	of.Use(addresses)
	return nil
}

// wrong says why an address is none of a server; empty: it may be one.
func wrong(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "is not host:port"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "has no port between 1 and 65535"
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.IsUnspecified() || ip.IsMulticast() {
			return "is the address of no machine"
		}
		return ""
	}
	if host == "" || len(host) > 253 || strings.ContainsFunc(host, foreign) {
		return "has no name of a host"
	}
	return ""
}

// foreign tells characters that no name of a host has.
func foreign(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r))
}
