// Package network owns an agent's ways over the network: the TLS port that its server has for nodes on other machines,
// and how a node reaches servers elsewhere. Only package agent imports it.
package network

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
	"berth/internal/port/tlsport"
	"berth/internal/server"
)

// DefaultPort is that of the servers' TLS port.
const DefaultPort = 4647

// Ways are those between agents, as a configuration has them.
type Ways struct {
	Dev, Server bool // the agent is one to try out; it has a server
	API         bool // an API is asked for
	LocalCSI    bool
	Address     string // of the server's TLS port, without it; empty: there is none
	Port        int
	Servers     []string // of a node without a server in its agent
	TokenFile   string
}

// Check refuses what cannot work, naming the setting, the reason and the way out. The servers have ports then.
func (w Ways) Check() error {
	refuse := func(what, why, hint string) error {
		return fault.WithHint(fault.New(fault.Invalid, "configure", what, why), hint)
	}
	switch {
	case !w.Server && len(w.Servers) == 0:
		return refuse("client servers", "this agent has no server, and names none",
			`write client { servers = ["10.0.0.1:4647"] }, with the address of a server; or server { enabled = true }`)
	case w.Server && (len(w.Servers) > 0 || w.TokenFile != ""):
		return refuse("client servers and join_token_file", "the node of this agent has a server in the agent itself",
			"leave them out, or write server { enabled = false }")
	case !w.Server && w.API:
		return refuse("api", "an agent without a server has no API yet",
			"leave it out, and ask an agent with a server")
	case !w.Server && w.LocalCSI:
		return refuse("client local_csi", "the bundled storage plugin runs beside a server only, for now",
			"leave it out on this node, or run a storage plugin as a job")
	case !w.Server && w.Address != "":
		return refuse("addresses rpc", "an agent without a server listens for no nodes", "leave it out")
	case w.Dev && w.Address != "":
		return refuse("addresses rpc", "an agent to try out is for one machine", "leave -dev out, or this")
	case w.Address != "" && net.ParseIP(w.Address) == nil:
		return refuse("addresses rpc "+w.Address, "it is no IP address", `write rpc = "10.0.0.1", or "0.0.0.0" for all`)
	case w.Port < 1 || w.Port > 65535:
		return refuse("ports rpc", strconv.Itoa(w.Port)+" is not between 1 and 65535", "use 4647")
	case w.TokenFile != "" && !filepath.IsAbs(w.TokenFile):
		return refuse("client join_token_file "+w.TokenFile, "its path must be absolute",
			`write join_token_file = "/etc/berth/join-token"`)
	}
	for i, s := range w.Servers {
		addr, err := address(s)
		if err != nil {
			return refuse("client servers "+strconv.Quote(s), err.Error(),
				`write "10.0.0.1:4647", or a name of the DNS`)
		}
		w.Servers[i] = addr
	}
	return nil
}

// address is that of a server's TLS port, with its port.
func address(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil { // there is no port
		host, port = strings.Trim(s, "[]"), strconv.Itoa(DefaultPort)
		if strings.ContainsAny(host, ":/ ") && net.ParseIP(host) == nil {
			return "", errors.New("it is no address")
		}
	}
	n, err := strconv.Atoi(port)
	if host == "" || err != nil || n < 1 || n > 65535 {
		return "", errors.New("it is no address with a port")
	}
	return net.JoinHostPort(host, port), nil
}

// Listen opens the TLS port of a server at an address with its port.
func Listen(ctx context.Context, addr string, cred tlsport.Credentials, log *slog.Logger) (*Port, error) {
	raw, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr) // it does not wait
	if err != nil {
		return nil, fault.WithHint(fault.Wrap(err, fault.Internal, "listen for nodes on", addr),
			"choose another address or port with addresses { rpc = … } and ports { rpc = … }")
	}
	any := func(trust.Peer) error { return nil }
	return &Port{Port: tlsport.New(raw, tlsport.Config{
		Credentials: cred,
		Admits: map[string]func(trust.Peer) error{
			tlsport.Calls:   node,
			tlsport.Reverse: node,
			tlsport.Join:    any,
		},
		Log: log,
	})}, nil
}

// node admits nodes: there are no other servers yet.
func node(p trust.Peer) error {
	if p.Role != trust.Node {
		return fault.New(fault.Denied, "admit", p.String(), "this is for nodes")
	}
	return nil
}

// Port is an open TLS port.
type Port struct {
	*tlsport.Port
}

// Listeners are for the server to serve.
func (p *Port) Listeners() server.Listeners {
	if p == nil {
		return server.Listeners{}
	}
	return server.Listeners{
		Calls:    []net.Listener{p.Listener(tlsport.Calls)},
		Reversed: []net.Listener{p.Listener(tlsport.Reverse)},
		Open:     []net.Listener{p.Listener(tlsport.Join)},
	}
}
