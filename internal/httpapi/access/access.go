// Package access owns who may use the HTTP API by way of a listener: host names and a token on a port, peers on a unix
// socket. It decides about requests and listens to nothing. The HTTP surface and the agent import it.
package access

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/wire"
)

// Guard decides who may use the API through a listener.
type Guard interface {
	// Admit says for whom a request is that may go on; what he may do the servers judge. A refusal is fault.Denied;
	// its text is for the client.
	Admit(r *http.Request) (wire.Person, error)
}

// Network guards a port.
type Network struct {
	// Hosts are the names by which clients may call, beside localhost and the addresses of the loopback.
	Hosts []string
	// Named tells the hosts of the certificate that the port shows; nil: it shows none.
	Named func(host string) bool
	// Token is the agent's own, whose holder may do everything. Without lists every request must show it.
	Token redact.Secret
	// Lists: other tokens are judged by access control lists, and requests without one, too. With neither lists nor a
	// token whoever reaches the port may do everything.
	Lists bool
	// Bootstrap: with lists, whoever reaches the port may make the first token of all.
	Bootstrap bool
	Agent     string // its name, for what is recorded
}

// Admit implements Guard. Names come first: a web page that was lured here learns nothing of tokens.
func (n Network) Admit(r *http.Request) (wire.Person, error) {
	var nobody wire.Person
	if r.Host == "" && r.ProtoAtLeast(1, 1) {
		return nobody, fault.WithHint(fault.New(fault.Invalid, "", "", "the request names no host"),
			"send the header Host, such as localhost")
	}
	host := hostOf(r.Host)
	if !n.known(host) {
		return nobody, fault.WithHint(fault.New(fault.Denied, "", "", "the host name "+host+" is not this agent's"),
			`call it by its address on the loopback, or let its configuration name it: api { allowed_hosts = ["…"] }`)
	}
	if err := local(r); err != nil {
		return wire.Person{}, err
	}
	shown := Token(r)
	switch own := !n.Token.Empty(); {
	case own && shown.Equal(n.Token):
		r.Header.Del("X-Nomad-Token") // it is none of the lists
		r.Header.Del("Authorization")
		return wire.Person{Local: true, Name: "the agent's token of " + n.Agent}, nil
	case n.Lists && !n.Bootstrap && makesFirst(r):
		return wire.Person{}, first("every program of the machine reaches the port")
	case n.Lists:
		return shows(shown)
	case own && shown.Empty():
		return wire.Person{}, denied("the request shows no token",
			"give the agent's token with -token, BERTH_TOKEN or NOMAD_TOKEN")
	case own:
		return wire.Person{}, denied("the token is not this agent's", "give the one that is in the agent's token_file")
	}
	if what := reserved(r); what != "" {
		return wire.Person{}, denied("this request "+what+", and whoever reaches the port may send it",
			"send it over the unix socket, or let the configuration have api { token_file = … }")
	}
	return wire.Person{Local: true, Name: "somebody at " + r.RemoteAddr + " of " + n.Agent}, nil
}

// local refuses what a page of another site has a browser send. What changes something is refused elsewhere by its
// origin; a read costs, and its failure tells. The pages for people may be linked to.
func local(r *http.Request) error {
	switch from := r.Header.Get("Sec-Fetch-Site"); {
	case from == "" || from == "none" || from == "same-origin" || !strings.HasPrefix(r.URL.Path, "/v1/"):
		return nil
	default:
		return denied("a page of another site sent this request (Sec-Fetch-Site: "+from+")",
			"open the address in a window of its own")
	}
}

// reserved says what a read does that not everybody may who reaches an open port; empty: nothing. Clients of this API
// have a node collect garbage by GET. Who holds the store of a node can be that node.
func reserved(r *http.Request) string {
	switch p := r.URL.Path; {
	case p == "/v1/client/gc", strings.HasPrefix(p, "/v1/client/allocation/") && strings.HasSuffix(p, "/gc"):
		return "collects garbage"
	case p == "/v1/operator/node-store":
		return "hands out the secret of the node"
	}
	return ""
}

// makesFirst tells requests for the first token, whose holder may do everything.
func makesFirst(r *http.Request) bool { return r.URL.Path == "/v1/acl/bootstrap" }

// first refuses who asks for the first token elsewhere than where root of a server does.
func first(why string) error {
	return denied("the first token is made over the unix socket of a server: "+why,
		"run as root on a server: berth acl bootstrap; or let its configuration have "+
			"acl { bootstrap_over_http = true }")
}

// denied is a refusal that begins with the words by which clients of this API know it.
func denied(why, hint string) error {
	return fault.WithHint(fault.New(fault.Denied, "", "Permission denied", why), hint)
}

// known tells the names of this agent, so that a web page cannot reach it by rebinding a name of its own to the
// loopback. No browser leaves the name out.
func (n Network) known(host string) bool {
	return host == "" || strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback() ||
		n.Named != nil && n.Named(host) ||
		slices.ContainsFunc(n.Hosts, func(h string) bool { return strings.EqualFold(hostOf(h), host) })
}

// hostOf is the name or address alone: without port, and without the brackets of an address with colons.
func hostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// Token is the token that a request shows: its own header first, as clients of this API send it.
func Token(r *http.Request) redact.Secret {
	if t := strings.TrimSpace(r.Header.Get("X-Nomad-Token")); t != "" {
		return redact.New(t)
	}
	scheme, t, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return redact.Secret{}
	}
	return redact.New(strings.TrimSpace(t))
}

// CheckHost refuses what is no name or address to call an agent by.
func CheckHost(host string) error {
	if net.ParseIP(strings.Trim(host, "[]")) != nil {
		return nil
	}
	ok := host != "" && len(host) <= 253
	for label := range strings.SplitSeq(host, ".") {
		ok = ok && label != "" && !strings.ContainsFunc(label, func(c rune) bool {
			return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
		})
	}
	if !ok {
		return refused("it is no name and no address of a host", `write "nomad.example.com", without scheme, port or *`)
	}
	return nil
}

// shows is who shows a token that access control lists judge; empty: he shows none.
func shows(token redact.Secret) (wire.Person, error) {
	if len(token.Reveal()) > maxToken {
		return wire.Person{}, denied(fmt.Sprintf("the token has more than %d characters", maxToken), "show another one")
	}
	return wire.Person{Token: token}, nil
}
