package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json" // half the time of encoding/json for long lists
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Client speaks the HTTP API of one agent. It is made by NewClient and safe for concurrent use.
type Client struct {
	config    Config
	base      *url.URL
	http      *http.Client
	upgrading *http.Client // for WebSockets
	dialer    *net.Dialer
	socket    string // of a unix address
}

// decoding reads replies as encoding/json does, but for what is not JSON: that is found on the way, not by a pass over
// the whole reply before the first field.
var decoding = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false))

// encoding writes requests as encoding/json does. What is known of a type serves replies, too: to look at all that a
// job is made of takes a command as long as its call.
var encoding = jsonv1.DefaultOptionsV1()

// handshakeTime bounds the opening of a WebSocket.
const handshakeTime = 30 * time.Second

// NewClient makes a client. It reads certificates, but does not connect.
func NewClient(config Config) (*Client, error) {
	if config.Address == "" {
		config.Address = DefaultAddress
	}
	c := &Client{config: config, dialer: &net.Dialer{Timeout: 10 * time.Second}}
	var err error
	if c.base, c.socket, err = parseAddress(config.Address); err != nil {
		return nil, err
	}
	certificates, err := config.TLS.load()
	if err != nil {
		return nil, err
	}
	// HTTP/2 is left out: exec needs the connection itself.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	direct := &http.Transport{
		TLSClientConfig:     certificates,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 8,
		Protocols:           protocols,
		DialContext:         c.dial,
		// On one machine, packing and unpacking takes longer than what it saves.
		DisableCompression: c.socket != "" || loopback(c.base.Hostname()),
	}
	// No agent points elsewhere. The next request would show the token to whoever it is, and may read instead of write.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.upgrading = &http.Client{Transport: direct, Timeout: handshakeTime, CheckRedirect: stay}
	transport := direct.Clone()
	if c.socket == "" {
		transport.Proxy = http.ProxyFromEnvironment
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: stay}
	return c, nil
}

// Config returns what the client was made of.
func (c *Client) Config() Config { return c.config }

// CloseIdle closes connections that are not in use.
func (c *Client) CloseIdle() {
	c.http.CloseIdleConnections()
	c.upgrading.CloseIdleConnections()
}

func parseAddress(address string) (*url.URL, string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return nil, "",
			fmt.Errorf("the address %q is not a URL; write http://host:port, https://host:port or unix:///path",
				address)
	}
	switch u.Scheme {
	case "http", "https":
		if u.Host == "" {
			return nil, "", fmt.Errorf("the address %q names no host; write %s://host:port", address, u.Scheme)
		}
		return &url.URL{Scheme: u.Scheme, Host: u.Host}, "", nil
	case "unix":
		if u.Host != "" || u.Path == "" {
			return nil, "", fmt.Errorf("the address %q is not the path of a socket; write unix:///path", address)
		}
		return &url.URL{Scheme: "http", Host: "localhost"}, u.Path, nil
	}
	return nil, "", fmt.Errorf("the address %q has the scheme %s; there are http, https and unix", address, u.Scheme)
}

// load reads the certificates.
func (t TLSConfig) load() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.SkipVerify}
	var files []string
	if t.CAPath != "" {
		found, err := filepath.Glob(filepath.Join(t.CAPath, "*.pem"))
		if err != nil {
			return nil, fmt.Errorf("the directory of certificate authorities %q cannot be read: %w", t.CAPath, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("the directory %q holds no certificate authorities; it needs files named *.pem",
				t.CAPath)
		}
		files = found
	}
	if t.CACert != "" {
		files = append(files, t.CACert)
	}
	for _, name := range files {
		pem, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("the certificate authority cannot be read: %w", err)
		}
		if out.RootCAs == nil {
			out.RootCAs = x509.NewCertPool()
		}
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the file %q holds no certificate in PEM form", name)
		}
	}
	if (t.ClientCert == "") != (t.ClientKey == "") {
		return nil, errors.New("a client certificate and its key go together; give both or none")
	}
	if t.ClientCert != "" {
		pair, err := tls.LoadX509KeyPair(t.ClientCert, t.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("the client certificate cannot be read: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// call is one request as it is built up.
type call struct {
	method string
	path   string // escaped, with the leading /v1
	query  url.Values
	header http.Header
	body   io.Reader
	also   int // a status whose reply is decoded, too, if it is JSON
	err    error
}

// newCall starts a request: path segments are escaped one by one.
func newCall(method string, segments ...string) *call {
	var b strings.Builder
	b.WriteString("/v1")
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return &call{method: method, path: b.String(), query: url.Values{}, header: http.Header{}}
}

func (r *call) set(name, value string) *call {
	if value != "" {
		r.query.Set(name, value)
	}
	return r
}

func (r *call) setBool(name string, value bool) *call {
	r.query.Set(name, strconv.FormatBool(value))
	return r
}

func (r *call) json(body any) *call {
	data, err := jsonv2.Marshal(body, encoding)
	if err != nil {
		r.err = fmt.Errorf("the request cannot be encoded: %w", err)
		return r
	}
	r.body = bytes.NewReader(data)
	r.header.Set("Content-Type", "application/json")
	return r
}

// url is where a call goes.
func (c *Client) url(r *call) (*url.URL, error) {
	u := *c.base
	path, err := url.PathUnescape(r.path)
	if err != nil {
		return nil, fmt.Errorf("the path %q is not valid: %w", r.path, err)
	}
	u.Path, u.RawPath = path, r.path
	query := r.query
	for name, value := range map[string]string{"region": c.config.Region, "namespace": c.config.Namespace} {
		if value != "" && !query.Has(name) {
			query.Set(name, value)
		}
	}
	u.RawQuery = query.Encode()
	return &u, nil
}

func (c *Client) authorize(h http.Header) {
	for name, values := range c.config.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	if c.config.Token != "" {
		h.Set("X-Nomad-Token", c.config.Token.Reveal())
	}
	if user, password, ok := strings.Cut(c.config.HTTPAuth.Reveal(), ":"); ok {
		probe := &http.Request{Header: h}
		probe.SetBasicAuth(user, password)
	}
}

// send makes the request and returns a reply of status 200; the caller closes its body. Other statuses are
// StatusErrors.
func (c *Client) send(ctx context.Context, r *call) (*http.Response, error) {
	if r.err != nil {
		return nil, r.err
	}
	u, err := c.url(r)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), r.body)
	if err != nil {
		return nil, fmt.Errorf("the request cannot be built: %w", err)
	}
	req.Header = r.header
	c.authorize(req.Header)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	kind := resp.Header.Get("Content-Type")
	if resp.StatusCode/100 == 2 || resp.StatusCode == r.also && strings.HasPrefix(kind, "application/json") {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.refused(r, resp)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// maxReply bounds a reply that is decoded as a whole.
const maxReply = 256 << 20

// do makes the request and decodes the reply into out, which may be nil.
func (c *Client) do(ctx context.Context, r *call, out any) (*QueryMeta, error) {
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	meta := readMeta(resp.Header)
	body := io.LimitReader(resp.Body, maxReply)
	if out == nil {
		_, err := io.Copy(io.Discard, body)
		return meta, c.unreachable(err)
	}
	if err := jsonv2.UnmarshalRead(body, out, decoding); err != nil {
		if ctx.Err() != nil {
			return meta, fmt.Errorf("the call was given up: %w", ctx.Err())
		}
		err = fmt.Errorf("the agent's reply to %s %s cannot be read: %w", r.method, r.path, err)
		if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
			err = fmt.Errorf("%w; it is of type %q and comes from %s%s", err, kind, c.config.Address, noAgent)
		}
		return meta, err
	}
	return meta, nil
}

func readMeta(h http.Header) *QueryMeta {
	index, _ := strconv.ParseUint(h.Get("X-Nomad-Index"), 10, 64) // without it, there is no index
	contact, _ := strconv.ParseInt(h.Get("X-Nomad-LastContact"), 10, 64)
	return &QueryMeta{
		Index:       index,
		LastContact: contact * int64(time.Millisecond),
		KnownLeader: h.Get("X-Nomad-KnownLeader") == "true",
		NextToken:   h.Get("X-Nomad-NextToken"),
	}
}
