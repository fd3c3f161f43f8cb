package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// StatusError is a reply that is not a success. Its text is the agent's.
type StatusError struct {
	Code   int    // HTTP status
	Body   string // the agent's sentence; may be empty
	Method string
	Path   string
}

func (e *StatusError) Error() string {
	if e.Body != "" {
		return e.Body
	}
	if e.Code == http.StatusNotFound {
		return fmt.Sprintf("the agent knows no %s %s", e.Method, e.Path)
	}
	return fmt.Sprintf("the agent answered %d %s to %s %s", e.Code, http.StatusText(e.Code), e.Method, e.Path)
}

// IsNotFound reports whether an agent answered that something does not exist.
func IsNotFound(err error) bool {
	var e *StatusError
	return errors.As(err, &e) && e.Code == http.StatusNotFound
}

// UnreachableError means that no agent could be asked.
type UnreachableError struct {
	Address string
	Err     error

	socket string // its path; of one that refuses with its mode
}

func (e *UnreachableError) Error() string {
	switch {
	case e.Refused():
		return fmt.Sprintf(
			"no agent listens at %s; start it (\"systemctl start berth\" where it is a service, \"berth agent -dev\" to "+
				"try one), or name another with -address or BERTH_ADDR", e.Address)
	case e.Denied():
		return fmt.Sprintf("permission denied: the socket %s admits its owner and root; use sudo, or give the agent "+
			"a port with api { token_file = … } and name that with -address and -token", e.socket)
	}
	return fmt.Sprintf("the agent at %s cannot be reached: %s%s", e.Address, e.Err, e.wayOut())
}

// noAgent is the way out where somebody answers who does not speak as an agent does.
const noAgent = "; what listens there may be no agent: name one with -address or BERTH_ADDR"

func (e *UnreachableError) wayOut() string {
	var other tls.RecordHeaderError
	var untrusted *tls.CertificateVerificationError
	var nowhere *net.DNSError
	var wire net.Error
	switch {
	case errors.Is(e.Err, http.ErrSchemeMismatch), errors.As(e.Err, &other):
		return "; it speaks no TLS: write http:// in its address"
	case errors.Is(e.Err, errSpeaksTLS):
		return ": write https:// in its address"
	case errors.As(e.Err, &untrusted):
		return "; name who has issued it with -ca-cert or BERTH_CACERT, and what it is issued for with -tls-server-name"
	case byProxy(e.Err):
		return "; the proxy is that of HTTP_PROXY or HTTPS_PROXY: name the agent's host in NO_PROXY to go past it"
	case errors.As(e.Err, &nowhere):
		return "; name another with -address or BERTH_ADDR"
	case errors.Is(e.Err, io.EOF), !errors.As(e.Err, &wire): // it hung up, or what it says is no HTTP
		return noAgent
	}
	return ""
}

// byProxy reports whether the way to a proxy failed, not that to the agent.
func byProxy(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "proxyconnect"
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Refused reports whether nobody listens at the address.
func (e *UnreachableError) Refused() bool {
	return !byProxy(e.Err) && (errors.Is(e.Err, syscall.ECONNREFUSED) || errors.Is(e.Err, os.ErrNotExist))
}

// Denied reports whether the address is a socket that this user may not connect to.
func (e *UnreachableError) Denied() bool { return e.socket != "" && errors.Is(e.Err, os.ErrPermission) }

// away tells why an agent could not be asked.
func (c *Client) away(err error) *UnreachableError {
	out := &UnreachableError{Address: c.config.Address, Err: err, socket: c.socket}
	if out.Denied() {
		if st, err := os.Stat(c.socket); err == nil { // else its directory is closed, too
			out.socket += fmt.Sprintf(" (mode %04o)", st.Mode().Perm())
		}
	}
	return out
}

// unreachable gives errors of the transport their identity; the end of a context keeps its own.
func (c *Client) unreachable(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the call was given up: %w", err)
	}
	var broken *url.Error // its text would repeat verb and address
	if errors.As(err, &broken) {
		err = broken.Err
	}
	return c.away(err)
}

// maxErrorText bounds what is read of a reply that is an error: it may be a whole variable, which a write has met.
const maxErrorText = 512 << 10

// refused makes an error of a reply that is no success: what an agent says, or that no agent says such a thing. A
// *StatusError of somebody else would answer questions that an agent was asked: whether a volume is there.
func (c *Client) refused(r *call, resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorText))
	text := strings.TrimSpace(string(data))
	answered := fmt.Sprintf("it answered %s to %s %s", resp.Status, r.method, r.path)
	switch {
	case resp.StatusCode/100 == 3:
		return c.away(fmt.Errorf("%s and points to %q", answered, resp.Header.Get("Location")))
	case strings.Contains(text, "HTTP request to an HTTPS server"), // Go's words, and agents are made with it
		strings.Contains(text, "HTTP request was sent to HTTPS port"): // those of proxies
		return c.away(errSpeaksTLS)
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"), text == "404 page not found":
		return c.away(errors.New(answered + ", and not as agents do"))
	case err != nil && text == "":
		text = fmt.Sprintf("the agent answered %d and broke off", resp.StatusCode)
	}
	return &StatusError{Code: resp.StatusCode, Body: text, Method: r.method, Path: r.path}
}

// errSpeaksTLS is the answer of a server that was asked without.
var errSpeaksTLS = errors.New("it speaks TLS")
