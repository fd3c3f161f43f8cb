package api_test

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"berth/api"
)

// Given somebody at an address who is no agent, or asks for another scheme, when a call is made, then the error names
// the address and the way out, and is no answer to what was asked.
func TestWhoIsNoAgentIsSaidToBeNone(t *testing.T) {
	page := func(code int, kind, text string) string {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		})
	}
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	open := "http://" + secure.Listener.Addr().String()
	none := "; what listens there may be no agent: name one with -address or BERTH_ADDR"
	for name, c := range map[string]struct{ address, want string }{
		"a page": {page(502, "text/html; charset=utf-8", "<html>gone</html>"),
			"it answered 502 Bad Gateway to GET /v1/volume/csi/x, and not as agents do" + none},
		"another API": {page(404, "text/plain", "404 page not found\n"),
			"it answered 404 Not Found to GET /v1/volume/csi/x, and not as agents do" + none},
		"another protocol": {serve(t, says("SSH-2.0-x\r\n")), `malformed HTTP response "SSH-2.0-x"` + none},
		"no HTTP":          {strings.Replace(serve(t, says("x")), "http", "https", 1), "write http:// in its address"},
		"TLS":              {open, "it speaks TLS: write https:// in its address"},
		"not trusted":      {secure.URL, "name who has issued it with -ca-cert or BERTH_CACERT"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := client(t, api.Config{Address: c.address}).Volumes().Get(t.Context(), "x", nil)
			var away *api.UnreachableError
			if !errors.As(err, &away) || away.Refused() || api.IsNotFound(err) ||
				!strings.Contains(err.Error(), c.address) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// serve answers every request by h and gives its address.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// says answers whatever it is asked by a line and hangs up.
func says(line string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, line)
	}
}

// Given somebody who points elsewhere, when a call is made or a program started, then nobody is asked there, who would
// be shown the token.
func TestWhoPointsElsewhereIsNotFollowed(t *testing.T) {
	var shown atomic.Int32
	other := serve(t, func(http.ResponseWriter, *http.Request) { shown.Add(1) })
	first := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other+r.URL.Path, http.StatusTemporaryRedirect)
	})
	c := client(t, api.Config{Address: first, Token: "secret"})
	_, call := c.Cluster().Self(t.Context())
	_, session := c.Allocations().Exec(t.Context(), "x", api.ExecOptions{Command: []string{"true"}}, nil)
	for _, err := range []error{call, session} {
		if err == nil || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), other) {
			t.Errorf("%v", err)
		}
	}
	if shown.Load() > 0 {
		t.Error("the other was asked")
	}
}

// Given a proxy that is away, when a call is made by it, then the error names the proxy and does not say that no agent
// listens.
func TestAProxyThatIsAwayIsNamed(t *testing.T) {
	err := &api.UnreachableError{Address: "http://a:1", Err: &net.OpError{Op: "proxyconnect", Net: "tcp",
		Err: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}}
	if err.Refused() || !strings.Contains(err.Error(), "name the agent's host in NO_PROXY") {
		t.Error(err)
	}
}
