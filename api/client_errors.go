package api

import (
	"context"
	"errors"
	"fmt"
	"io"
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
			"no agent listens at %s; start one with \"berth agent -dev\", or name another with -address or BERTH_ADDR",
			e.Address)
	case e.Denied():
		return fmt.Sprintf("permission denied: the socket %s admits its owner and root; use sudo, or give the agent "+
			"a port with api { token_file = … } and name that with -address and -token", e.socket)
	}
	text := fmt.Sprintf("the agent at %s cannot be reached: %s", e.Address, e.Err)
	switch {
	case errors.Is(e.Err, http.ErrSchemeMismatch):
		return text + "; it speaks no TLS: write http:// in its address"
	case errors.Is(e.Err, io.EOF):
		return text + "; what listens there may be no agent: name one with -address or BERTH_ADDR"
	}
	return text
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Refused reports whether nobody listens at the address.
func (e *UnreachableError) Refused() bool {
	return errors.Is(e.Err, syscall.ECONNREFUSED) || errors.Is(e.Err, os.ErrNotExist)
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

// maxErrorText bounds what is read of a reply that is an error.
const maxErrorText = 64 << 10

func statusError(r *call, resp *http.Response) *StatusError {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorText))
	text := strings.TrimSpace(string(data))
	if err != nil && text == "" {
		text = fmt.Sprintf("the agent answered %d and broke off", resp.StatusCode)
	}
	return &StatusError{Code: resp.StatusCode, Body: text, Method: r.method, Path: r.path}
}
