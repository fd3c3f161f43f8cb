package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"berth/api"
	"berth/internal/agent/apisocket"
	"berth/internal/agent/apitls"
	"berth/internal/agent/overlay"
	"berth/internal/base/fault"
	"berth/internal/httpapi"
	"berth/internal/httpapi/access"
)

// APIBlock says where the HTTP API is, and who may use it there. Without it an agent in service has a unix socket, and
// a port where access control lists say who may do what; and a -dev agent an open port on the loopback and no socket.
type APIBlock struct {
	Socket string `hcl:"socket"` // path of the unix socket
	// TokenFile makes the port: whoever shows the token that is in the file may do everything there. Without access
	// control lists every request must show it.
	TokenFile string `hcl:"token_file"`
	// UnsafeOpen makes the port for everybody who reaches it.
	UnsafeOpen *bool `hcl:"unsafe_open"`
	// AllowedHosts are names by which clients may call the port, beside those of the loopback.
	AllowedHosts []string `hcl:"allowed_hosts"`
}

func (p *APIBlock) override(f *APIBlock) {
	overlay.Pick(&p.Socket, f.Socket)
	overlay.Pick(&p.TokenFile, f.TokenFile)
	overlay.Pick(&p.UnsafeOpen, f.UnsafeOpen)
	if f.AllowedHosts != nil {
		p.AllowedHosts = f.AllowedHosts
	}
}

func (p *APIBlock) unsafeOpen() bool { return p.UnsafeOpen != nil && *p.UnsafeOpen }

// maxSocketPath is the kernel's limit of a socket's path in bytes.
const maxSocketPath = 107

// checkAPI refuses what cannot work, and reads the token.
func (c *Config) checkAPI() error {
	p := c.API
	var errs []error
	if p.Socket != "" {
		p.Socket = filepath.Clean(p.Socket)
		if !filepath.IsAbs(p.Socket) {
			errs = append(errs, bad("api socket "+p.Socket, "its path must be absolute",
				"write socket = \""+api.DefaultSocket+"\""))
		}
		if len(p.Socket) > maxSocketPath {
			why := fmt.Sprintf("its path has %d bytes, and the kernel takes %d", len(p.Socket), maxSocketPath)
			errs = append(errs, bad("api socket "+p.Socket, why, "choose a shorter path"))
		}
	}
	for _, h := range p.AllowedHosts {
		errs = append(errs, fault.Note(access.CheckHost(h), "configure", "api allowed_hosts "+strconv.Quote(h)))
	}
	if p.TokenFile == "" {
		return errors.Join(errs...)
	}
	what := "api token_file " + p.TokenFile
	if p.unsafeOpen() {
		const why = "they contradict each other: one asks for a token, the other for none"
		errs = append(errs, bad("api token_file and unsafe_open", why, "keep token_file and leave unsafe_open out"))
	}
	if !filepath.IsAbs(p.TokenFile) {
		errs = append(errs, bad(what, "its path must be absolute", "write token_file = \"/etc/berth/token\""))
		return errors.Join(errs...)
	}
	token, err := access.ReadToken(p.TokenFile, os.Geteuid())
	c.token = token
	return errors.Join(append(errs, fault.Note(err, "configure", what))...)
}

// servesPort tells whether the API has a port: for trying out, with access control lists, or with somebody's word on
// who may use it.
func (c *Config) servesPort() bool {
	return c.lists() || c.dev || c.API.TokenFile != "" || c.API.unsafeOpen()
}

// lists tells whether requests to the port are judged by access control lists.
func (c *Config) lists() bool { return *c.ACL.Enabled && !c.API.unsafeOpen() }

// listen opens every way to the API that the configuration asks for, and says in the log where it is.
func (a *Agent) listen(ctx context.Context) ([]httpapi.Entry, error) {
	c := a.cfg
	var entries []httpapi.Entry
	where := []any{"version", a.version, "data_dir", c.DataDir, "dev", c.dev}
	if c.API.Socket != "" {
		s, err := apisocket.Listen(ctx, c.API.Socket)
		if err != nil {
			return nil, err
		}
		entries = append(entries, httpapi.Entry{Listener: s, Guard: c.socketGuard()})
		where = append(where, "socket", c.API.Socket)
	}
	if c.servesPort() {
		l, err := net.Listen("tcp", c.port())
		if err != nil {
			err = fault.WithHint(fault.Wrap(err, fault.Conflict, "listen", "for the HTTP API"),
				"choose another port with -http-port or ports { http = … }")
			return nil, errors.Join(err, shut(entries))
		}
		scheme := "http://"
		if c.certs != nil {
			l, scheme = c.certs.Listener(l), "https://"
		}
		entries = append(entries, httpapi.Entry{Listener: l, Guard: c.guard()})
		where = append(where, "http", scheme+l.Addr().String())
	}
	a.log.Info("berth starts", where...)
	warnOfPort(a.log, c)
	return entries, nil
}

// socketGuard decides who may use the socket. Root of a machine without a server is not the cluster's.
func (c *Config) socketGuard() access.Socket {
	return access.Socket{UID: os.Geteuid(), Agent: c.Name, Lists: !c.Server.Enabled}
}

// guard decides who may use the port.
func (c *Config) guard() access.Network {
	n := access.Network{
		Hosts:     c.API.AllowedHosts,
		Token:     c.token,
		Lists:     c.lists(),
		Bootstrap: c.ACL.Open(),
		Agent:     c.Name,
	}
	if c.certs != nil {
		n.Named = c.certs.Named
	}
	return n
}

// warnOfPort says what its operator may not expect of the port.
func warnOfPort(log *slog.Logger, c *Config) {
	warnOfEnd(log, c.certs)
	switch {
	case c.API.unsafeOpen():
		log.Warn("api { unsafe_open = true }: every user and every task that reaches the port can run anything as "+
			"root on this node; use api { token_file = … } instead", "http", c.port())
	case !c.servesPort() && (c.portAsked || len(c.API.AllowedHosts) > 0):
		log.Warn("the port of the HTTP API is configured and not served, because nothing says who may use it; "+
			"set acl { enabled = true } or api { token_file = … }, or leave the port out and use the socket",
			"http", c.port(), "socket", c.API.Socket)
	}
}

// port is where the API listens on the network, if it does.
func (c *Config) port() string { return net.JoinHostPort(c.BindAddr, strconv.Itoa(c.Ports.HTTP)) }

// describeAPI is what the agent says of its API; the token is not in it.
func (c *Config) describeAPI() map[string]any {
	return map[string]any{
		"Socket":       c.API.Socket,
		"Port":         c.servesPort(),
		"Token":        !c.token.Empty(),
		"AllowedHosts": c.API.AllowedHosts,
	}
}

// shut closes the entries.
func shut(entries []httpapi.Entry) error {
	var errs []error
	for _, e := range entries {
		errs = append(errs, e.Listener.Close())
	}
	return errors.Join(errs...)
}

// soon is how long before its end the certificate of the port is warned of.
const soon = 7 * 24 * time.Hour

// warnOfEnd says that clients are about to be kept out, or are already.
func warnOfEnd(log *slog.Logger, certs *apitls.Certificates) {
	if certs == nil || time.Until(certs.Ends()) > soon {
		return
	}
	log.Warn("the certificate of the API's port ends soon, and clients stay out then: put another one into its file, "+
		"and send the agent SIGHUP", "ends", certs.Ends())
}
