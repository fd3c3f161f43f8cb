// Package dockerapi owns the conversation with a Docker daemon: the few calls of its public HTTP API that a task driver
// makes, over the daemon's unix socket. The driver docker imports it, and tests.
package dockerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"berth/internal/base/fault"
)

// Version is the version of the API that is spoken, unless the daemon has given it up: that of Docker 20.10.
const Version = "1.41"

// Client calls one daemon. It is safe for concurrent use; the zero value is not.
type Client struct {
	socket string
	http   *http.Client

	mu      sync.Mutex
	version string
}

// New returns a client of the daemon that listens at a socket.
func New(socket string) *Client {
	c := &Client{socket: socket, version: Version}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: 8,
	}}
	return c
}

// Socket is where the daemon listens.
func (c *Client) Socket() string { return c.socket }

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", c.socket)
}

// Spoken is the version of the API that this client speaks with its daemon.
func (c *Client) Spoken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// Daemon is what a daemon says of itself.
type Daemon struct {
	Version       string
	APIVersion    string `json:"ApiVersion"`
	MinAPIVersion string
}

// Agree asks the daemon who it is, and settles which version of the API is spoken with it.
func (c *Client) Agree(ctx context.Context) (*Daemon, error) {
	var d Daemon
	if err := c.call(ctx, http.MethodGet, "!/version", nil, nil, &d); err != nil {
		return nil, err
	}
	spoken := Version
	if Older(spoken, d.MinAPIVersion) {
		spoken = d.MinAPIVersion
	}
	if Older(d.APIVersion, spoken) {
		return nil, fault.New(fault.Unsupported, "", "Docker "+d.Version,
			"it speaks version "+d.APIVersion+" of the API, and the least that is needed is "+Version)
	}
	c.mu.Lock()
	c.version = spoken
	c.mu.Unlock()
	return &d, nil
}

// Older reports whether a version, of numbers with a point, comes before another.
func Older(a, b string) bool {
	aMajor, aMinor := numbers(a)
	bMajor, bMinor := numbers(b)
	return aMajor < bMajor || aMajor == bMajor && aMinor < bMinor
}

func numbers(v string) (major, minor int) {
	first, second, _ := strings.Cut(v, ".")
	major, _ = strconv.Atoi(first)  // what is no number comes before all that are
	minor, _ = strconv.Atoi(second) // as above
	return major, minor
}

// call makes one call and reads its answer into out, if there is somewhere to.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	res, err := c.open(ctx, method, path, query, in, nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	if out == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	} else {
		err = json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out)
	}
	return fault.Wrap(err, fault.Unavailable, "read the answer of", "Docker")
}

// maxAnswer bounds what is read of one answer; bytes.
const maxAnswer = 64 << 20

// open makes one call and leaves its answer to be read. A path that begins with ! has no version.
func (c *Client) open(
	ctx context.Context, method, path string, query url.Values, in any, header http.Header,
) (*http.Response, error) {
	var body io.Reader
	switch v := in.(type) {
	case nil:
	case io.Reader:
		body = v
	default:
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.address(path, query), body)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		defer func() { _ = res.Body.Close() }() // it was read
		return nil, refusal(res)
	}
	return res, nil
}

func (c *Client) address(path string, query url.Values) string {
	if bare, ok := strings.CutPrefix(path, "!"); ok {
		path = bare
	} else {
		path = "/v" + c.Spoken() + path
	}
	u := url.URL{Scheme: "http", Host: "docker", Path: path, RawQuery: query.Encode()}
	return u.String()
}

// unreachable is the error of a call that the daemon did not answer.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fault.Wrap(cut{err}, fault.Unavailable, "ask", "Docker at "+c.socket)
}

// cut is the error of a call that was not answered.
type cut struct{ error }

func (c cut) Unwrap() error { return c.error }

// Cut reports whether an error is that of a call which the daemon did not answer: what it was to do may be done.
func Cut(err error) bool {
	var c cut
	return errors.As(err, &c)
}

// refusal is the error that a daemon answers.
func refusal(res *http.Response) error {
	var said struct{ Message string }
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err == nil && json.Unmarshal(text, &said) != nil || said.Message == "" {
		said.Message = strings.TrimSpace(string(text))
	}
	if said.Message == "" {
		said.Message = "it answers " + res.Status
	}
	kind := kindOf(res.StatusCode)
	if kind == fault.Internal {
		kind = saidKind(said.Message, kind) // that of a registry, which the daemon passes on
	}
	return fault.New(kind, "", "Docker", said.Message)
}

func kindOf(status int) fault.Kind {
	switch status {
	case http.StatusBadRequest:
		return fault.Invalid
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Denied
	case http.StatusNotFound:
		return fault.NotFound
	case http.StatusConflict, http.StatusNotAcceptable:
		return fault.Conflict
	case http.StatusNotImplemented:
		return fault.Unsupported
	case http.StatusServiceUnavailable:
		return fault.Unavailable
	}
	return fault.Internal
}
