// Package network owns an agent's ways over the network: the TLS port that its server has for nodes and servers
// elsewhere, and how a node reaches servers elsewhere. Only package agent imports it.
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
	Words       bool // the API is to believe somebody who shows no token of the cluster
	Node        bool
	LocalCSI    bool
	Address     string // of the server's TLS port, without it; empty: there is none
	Port        int
	Servers     []string // of a node without a server in its agent
	TokenFile   string
	Several
}

// Several is what a server says of its place among others.
type Several struct {
	Name      string
	Expect    int      // servers
	Join      []string // addresses of servers of the cluster that it joins; none: it begins one
	TokenFile string
	Advertise string // where others reach it; empty: where it listens
}

// refusals gathers what cannot work, each with the setting, the reason and the way out.
type refusals []error

func (r *refusals) add(applies bool, what, why, hint string) {
	if applies {
		*r = append(*r, refuse(what, why, hint))
	}
}

// check refuses what cannot work of a server with a TLS port at an address.
func (s Several) check(server bool, listens string) refusals {
	const listen = `write addresses { rpc = "10.0.0.1" }, with an address of this machine`
	joins := len(s.Join) > 0
	var r refusals
	if !server {
		r.add(joins || s.TokenFile != "" || s.Expect > 1 || s.Advertise != "",
			"server_join, join_token_file, bootstrap_expect and advertise", "this agent has no server",
			"leave them out, or write server { enabled = true }")
		return r
	}
	r.add(joins && listens == "", "server server_join", "the servers that it joins have to reach this one", listen)
	r.add(s.Expect > 1 && listens == "", "server bootstrap_expect "+strconv.Itoa(s.Expect),
		"other servers have to reach this one", listen)
	r.add(s.Advertise != "" && listens == "", "advertise rpc", "nothing listens there",
		`write addresses { rpc = "10.0.0.1" }, too`)
	r.add(joins && s.Advertise == "" && net.ParseIP(listens).IsUnspecified(), "addresses rpc "+listens,
		"other servers are told where this one is, and that is no address",
		`write advertise { rpc = "10.0.0.1" }, with an address of this machine`)
	r.add(listens != "" && !trust.IsName(s.Name), "name "+strconv.Quote(s.Name),
		"a server is named by letters, digits, dots, hyphens and underscores",
		"give the agent such a name, and the region")
	r.add(s.TokenFile != "" && !filepath.IsAbs(s.TokenFile), "server join_token_file "+s.TokenFile,
		"its path must be absolute", `write join_token_file = "/etc/berth/join-token"`)
	r.add(s.TokenFile != "" && !joins, "server join_token_file", "the server joins nobody",
		`write server_join { retry_join = ["10.0.0.1:4647"] }, or leave it out`)
	if s.Advertise != "" {
		if _, err := address(s.Advertise); err != nil {
			r.add(true, "advertise rpc "+strconv.Quote(s.Advertise), err.Error(), `write "10.0.0.1:4647"`)
		}
	}
	for _, j := range s.Join {
		if _, err := address(j); err != nil {
			r.add(true, "server server_join retry_join "+strconv.Quote(j), err.Error(),
				`write "10.0.0.1:4647", or a name of the DNS`)
		}
	}
	return r
}

func refuse(what, why, hint string) error {
	return fault.WithHint(fault.New(fault.Invalid, "configure", what, why), hint)
}

// Advertised is where others reach a TLS port that listens at an address; empty: nobody can tell.
func Advertised(listens string, port int, advertise string) string {
	switch ip := net.ParseIP(listens); {
	case listens == "":
		return ""
	case advertise != "":
		out, err := address(advertise)
		if err == nil && !strings.Contains(strings.TrimSuffix(advertise, "]"), ":") {
			out = net.JoinHostPort(strings.Trim(advertise, "[]"), strconv.Itoa(port))
		}
		return out
	case ip != nil && ip.IsUnspecified():
		return ""
	}
	return net.JoinHostPort(listens, strconv.Itoa(port))
}

// Addresses are those of TLS ports, each with its port, once they were checked.
func Addresses(in []string) []string {
	var out []string
	for _, s := range in {
		if a, err := address(s); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// Check refuses what cannot work, naming each setting, the reason and the way out. The servers have ports then.
func (w Ways) Check() error {
	var r refusals
	r.add(!w.Server && len(w.Servers) == 0, "client servers", "this agent has no server, and names none",
		`write client { servers = ["10.0.0.1:4647"] }, with the address of a server; or server { enabled = true }`)
	r.add(w.Server && (len(w.Servers) > 0 || w.TokenFile != ""), "client servers and join_token_file",
		"the node of this agent has a server in the agent itself",
		"leave them out, or write server { enabled = false }")
	r.add(!w.Server && w.Words, "api token_file and unsafe_open",
		"this agent has no server, and servers do not take a node's word for who somebody is",
		"leave them out: on this machine show a token of access control lists")
	r.add(!w.Server && w.LocalCSI, "client local_csi",
		"the bundled storage plugin runs beside a server only, for now",
		"leave it out on this node, or run a storage plugin as a job")
	r.add(!w.Node && w.LocalCSI, "client local_csi",
		"this agent has no node, and the bundled storage plugin runs on one",
		"leave it out, or write client { enabled = true }")
	r.add(!w.Server && w.Address != "", "addresses rpc", "an agent without a server listens for no nodes",
		"leave it out")
	r.add(w.Dev && w.Address != "", "addresses rpc", "an agent to try out is for one machine",
		"leave -dev out, or this")
	r.add(w.Address != "" && net.ParseIP(w.Address) == nil, "addresses rpc "+w.Address, "it is no IP address",
		`write rpc = "10.0.0.1", or "0.0.0.0" for all`)
	r.add(w.Port < 1 || w.Port > 65535, "ports rpc", strconv.Itoa(w.Port)+" is not between 1 and 65535", "use 4647")
	r.add(w.TokenFile != "" && !filepath.IsAbs(w.TokenFile), "client join_token_file "+w.TokenFile,
		"its path must be absolute", `write join_token_file = "/etc/berth/join-token"`)
	for i, s := range w.Servers {
		addr, err := address(s)
		if err != nil {
			r.add(true, "client servers "+strconv.Quote(s), err.Error(), `write "10.0.0.1:4647", or a name of the DNS`)
			continue
		}
		w.Servers[i] = addr
	}
	return errors.Join(append(r, w.check(w.Server, w.Address)...)...)
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

// Server is what the port serves.
type Server interface {
	Credentials() tlsport.Credentials
	// Admits says who may open a connection of which protocol.
	Admits() map[string]func(trust.Peer) error
}

// Listen opens the TLS port of a server at an address with its port.
func Listen(ctx context.Context, addr string, s Server, log *slog.Logger) (*Port, error) {
	raw, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr) // it does not wait
	if err != nil {
		return nil, fault.WithHint(fault.Wrap(err, fault.Internal, "listen for nodes and servers on", addr),
			"choose another address or port with addresses { rpc = … } and ports { rpc = … }")
	}
	return &Port{Port: tlsport.New(raw, tlsport.Config{
		Credentials: s.Credentials(),
		Admits:      s.Admits(),
		Log:         log,
	})}, nil
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
		Log:      p.Listener(tlsport.Raft),
	}
}
