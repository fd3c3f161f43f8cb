// Package consul owns how an agent of Consul is spoken to by its HTTP API: the dozen calls by which services are
// registered there, and are watched in the catalog. It decides nothing; what is to be said stands in
// internal/model/consul. Only the client's and the servers' keepers of such services and package agent import it.
package consul

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/consul"
)

// Config says where an agent is and as whom it is spoken to.
type Config struct {
	// Address is host:port, http://host:port, https://host:port or unix:///path; empty: DefaultAddress.
	Address string
	Token   redact.Secret
	TLS     bool // of addresses without scheme: HTTPS
	// SkipVerify takes any certificate; CAFile has who may have issued it (empty: the machine's own authorities).
	SkipVerify bool
	CAFile     string
	// CertFile and KeyFile are what the agent may ask for; empty: there is none.
	CertFile, KeyFile string
	// Timeout is how long the agent may take to answer; 0: CallTimeout.
	Timeout time.Duration
	// Mesh is where it sends Envoy its configuration; nil: no proxy of its mesh runs here.
	Mesh *Mesh
}

// DefaultAddress is where an agent of Consul is on its machine.
const DefaultAddress = "127.0.0.1:8500"

// CallTimeout is how long an agent may take to answer where nothing else is said.
const CallTimeout = 10 * time.Second

// most bounds an answer: what is longer is none.
const most = 64 << 20

// Agent is an agent of Consul.
type Agent struct {
	base   string
	shown  string // in errors
	secret redact.Secret
	http   *http.Client
	// timeout is that of a call which does not wait for news.
	timeout time.Duration
	way     way
}

// New returns an agent that was not spoken to yet.
func New(cfg Config) (*Agent, error) {
	text := cmp.Or(cfg.Address, DefaultAddress)
	if !strings.Contains(text, "://") {
		scheme := "http://"
		if cfg.TLS {
			scheme = "https://"
		}
		text = scheme + text
	}
	u, err := url.Parse(text)
	bad := err != nil || u.Scheme == "unix" && u.Path == "" || u.Scheme != "unix" && u.Host == ""
	if bad || u.User != nil {
		return nil, fault.WithHint(fault.New(fault.Invalid, "", "consul address",
			fmt.Sprintf("%q is no address of an agent of Consul", cfg.Address)), `write address = "127.0.0.1:8500"`)
	}
	secured, err := cfg.secured()
	if err != nil {
		return nil, err
	}
	timeout := cmp.Or(cfg.Timeout, CallTimeout)
	transport := &http.Transport{
		TLSClientConfig:     secured,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     time.Minute,
		TLSHandshakeTimeout: timeout,
	}
	a := &Agent{base: strings.TrimSuffix(u.String(), "/"), shown: text, secret: cfg.Token, timeout: timeout}
	a.way = way{network: "tcp", address: u.Host}
	switch u.Scheme {
	case "http":
	case "https":
		a.way.secured = secured
	case "unix":
		a.way = way{network: "unix", address: u.Path}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return a.Dial(ctx) }
		a.base = "http://consul"
	default:
		return nil, fault.WithHint(fault.New(fault.Invalid, "", "consul address",
			fmt.Sprintf("%q is neither http nor https nor unix", u.Scheme)), `write address = "127.0.0.1:8500"`)
	}
	// The client of Go would take the token along to wherever a redirect leads; agents of Consul send none.
	a.http = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return a, nil
}

// secured reads what HTTPS needs.
func (c Config) secured() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.SkipVerify}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fault.Wrap(err, fault.Invalid, "read", "consul ca_file "+c.CAFile)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, fault.New(fault.Invalid, "read", "consul ca_file "+c.CAFile, "it holds no certificate in PEM")
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fault.Wrap(err, fault.Invalid, "read", "consul cert_file "+c.CertFile)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// Services are those that the agent has, by id.
func (a *Agent) Services(ctx context.Context) (map[string]*consul.Service, error) {
	var reply map[string]*shape
	if _, err := a.call(ctx, request{path: "/v1/agent/services", into: &reply}); err != nil {
		return nil, err
	}
	out := make(map[string]*consul.Service, len(reply))
	for id, s := range reply {
		out[id] = s.service()
	}
	return out, nil
}

// Service is one that the agent has; nil: it has none of this id.
func (a *Agent) Service(ctx context.Context, id string) (*consul.Service, error) {
	var reply shape
	_, err := a.call(ctx, request{path: "/v1/agent/service/" + url.PathEscape(id), into: &reply})
	if fault.Has(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return reply.service(), nil
}

// State is what a check has found.
type State struct {
	Service string // its id
	Status  string
	Output  string
}

// Checks are those that the agent has, by id; of one service, if it is given.
func (a *Agent) Checks(ctx context.Context, service string) (map[string]State, error) {
	r := request{path: "/v1/agent/checks"}
	if service != "" {
		r.query = url.Values{"filter": {"ServiceID == " + strconv.Quote(service)}}
	}
	var reply map[string]struct{ ServiceID, Status, Output string }
	r.into = &reply
	if _, err := a.call(ctx, r); err != nil {
		return nil, err
	}
	out := make(map[string]State, len(reply))
	for id, c := range reply {
		out[id] = State{Service: c.ServiceID, Status: c.Status, Output: c.Output}
	}
	return out, nil
}

// Register registers a service, or changes it. The checks are those that come with it in the same moment: those that it
// has already are left alone, with what they have found.
func (a *Agent) Register(ctx context.Context, s *consul.Service, checks []consul.Check) error {
	body := registered(s)
	for _, c := range checks {
		shaped := checkOf(c)
		shaped.CheckID = c.ID
		body.Checks = append(body.Checks, shaped)
	}
	_, err := a.call(ctx, request{method: http.MethodPut, path: "/v1/agent/service/register", body: body})
	return fault.Note(err, "register", "service "+s.ID)
}

// Deregister takes a service away with its checks; one that is not there is no error.
func (a *Agent) Deregister(ctx context.Context, id string) error {
	_, err := a.call(ctx, request{method: http.MethodPut, path: "/v1/agent/service/deregister/" + url.PathEscape(id)})
	return ignoreMissing(err)
}

// AddCheck gives a service one more check.
func (a *Agent) AddCheck(ctx context.Context, service string, c consul.Check) error {
	body := checkOf(c)
	body.ID, body.ServiceID = c.ID, service
	_, err := a.call(ctx, request{method: http.MethodPut, path: "/v1/agent/check/register", body: body})
	return err
}

// RemoveCheck takes a check away; one that is not there is no error.
func (a *Agent) RemoveCheck(ctx context.Context, id string) error {
	_, err := a.call(ctx, request{method: http.MethodPut, path: "/v1/agent/check/deregister/" + url.PathEscape(id)})
	return ignoreMissing(err)
}

// Tell says what a check with a TTL has found.
func (a *Agent) Tell(ctx context.Context, check, status, output string) error {
	_, err := a.call(ctx, request{
		method: http.MethodPut,
		path:   "/v1/agent/check/update/" + url.PathEscape(check),
		body:   struct{ Status, Output string }{status, output},
	})
	return err
}

type request struct {
	method  string // empty: GET
	path    string
	query   url.Values
	body    any // nil: none
	into    any // nil: the answer is not read
	timeout time.Duration
}

// call sends a request. A refusal has a header, too: it says at which index something is not there.
func (a *Agent) call(ctx context.Context, r request) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.timeout, a.timeout))
	defer cancel()
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, fault.Wrap(err, fault.Internal, "encode", r.path)
		}
		body = bytes.NewReader(text)
	}
	at := a.base + r.path
	if len(r.query) > 0 {
		at += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(r.method, http.MethodGet), at, body)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "ask Consul for", r.path)
	}
	if !a.secret.Empty() {
		req.Header.Set("X-Consul-Token", a.secret.Reveal())
	}
	reply, err := a.http.Do(req)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "reach Consul at", a.shown)
	}
	defer func() { _ = reply.Body.Close() }() // it was read, or is not wanted
	text, err := io.ReadAll(io.LimitReader(reply.Body, most))
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "read the answer of Consul at", a.shown)
	}
	if reply.StatusCode != http.StatusOK {
		return reply.Header, a.refused(reply.StatusCode, r.path, text)
	}
	if r.into == nil {
		return reply.Header, nil
	}
	if err := json.Unmarshal(text, r.into); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read "+r.path+" of Consul at", a.shown)
	}
	return reply.Header, nil
}

// refused is what another status than 200 means.
func (a *Agent) refused(status int, path string, text []byte) error {
	said := strings.TrimSpace(string(text[:min(len(text), 300)]))
	kinds := map[int]fault.Kind{
		http.StatusBadRequest:   fault.Invalid,
		http.StatusForbidden:    fault.Denied,
		http.StatusUnauthorized: fault.Unsupported, // so it says that it has no access lists
		http.StatusNotFound:     fault.NotFound,
		http.StatusConflict:     fault.Conflict,
	}
	kind, known := kinds[status]
	if !known {
		kind = fault.Unavailable
	}
	err := fault.New(kind, "ask", "Consul at "+a.shown, fmt.Sprintf("%s answers %d: %s", path, status, said))
	switch kind {
	case fault.Unsupported:
		return fault.WithHint(err, `switch its access lists on: acl { enabled = true default_policy = "deny" }`)
	case fault.Denied:
		return fault.WithHint(err, "name a token with service:write, node:read and agent:read: consul { "+
			"token_file = \"…\" }")
	}
	return err
}

func ignoreMissing(err error) error {
	if fault.Has(err, fault.NotFound) {
		return nil
	}
	return err
}
