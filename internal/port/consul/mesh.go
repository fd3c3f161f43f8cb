package consul

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"

	"berth/internal/base/fault"
)

// Self is what an agent says of itself.
type Self struct {
	Node       string // its name in the catalog
	Datacenter string
	Version    string
	Server     bool   // it is one of those that hold the catalog
	GRPC       int    // the port at which it sends Envoy its configuration; 0: it does not
	Envoy      string // the newest version of Envoy that it knows; empty: it says none
}

// Self asks who the agent is.
func (a *Agent) Self(ctx context.Context) (Self, error) {
	var reply struct {
		Config struct {
			NodeName, Datacenter, Version string
			Server                        bool
		}
		XDS struct {
			SupportedProxies struct{ Envoy []string }
			Ports            struct{ Plaintext, TLS int }
		} `json:"xDS"`
	}
	_, err := a.call(ctx, request{path: "/v1/agent/self", into: &reply})
	out := Self{
		Node:       reply.Config.NodeName,
		Datacenter: reply.Config.Datacenter,
		Version:    reply.Config.Version,
		Server:     reply.Config.Server,
	}
	ports := reply.XDS.Ports
	out.GRPC = cmp.Or(max(ports.TLS, 0), max(ports.Plaintext, 0)) // -1: there is none
	if all := reply.XDS.SupportedProxies.Envoy; len(all) > 0 {
		out.Envoy = all[0]
	}
	return out, err
}

// way is how a connection is made.
type way struct {
	network, address string
	secured          *tls.Config // nil: without TLS
}

func (w way) dial(ctx context.Context) (net.Conn, error) {
	if w.secured == nil {
		c, err := (&net.Dialer{}).DialContext(ctx, w.network, w.address)
		return c, fault.Wrap(err, fault.Unavailable, "reach Consul at", w.address)
	}
	c, err := (&tls.Dialer{Config: w.secured}).DialContext(ctx, w.network, w.address)
	return c, fault.Wrap(err, fault.Unavailable, "reach Consul at", w.address)
}

// Dial connects with the agent, for one whose words are passed on.
func (a *Agent) Dial(ctx context.Context) (net.Conn, error) { return a.way.dial(ctx) }

// Mesh is where an agent sends Envoy its configuration.
type Mesh struct {
	Address string // host:port, or unix:///path
	CA      []byte // PEM: who has signed its certificate; nil: it speaks without TLS
}

// Dial connects with it, for an Envoy whose words are passed on.
func (m *Mesh) Dial(ctx context.Context) (net.Conn, error) {
	w := way{network: "tcp", address: m.Address}
	if path, unix := strings.CutPrefix(m.Address, "unix://"); unix {
		w = way{network: "unix", address: path}
	}
	if m.CA != nil {
		w.secured = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, RootCAs: x509.NewCertPool()}
		w.secured.RootCAs.AppendCertsFromPEM(m.CA)
	}
	return w.dial(ctx)
}
