// Package between owns a place between a client of a Docker daemon and the daemon: a test sees each call there, before
// the daemon has it and after it has answered, and can hold it up or cut it off.
package between

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// Call is one, seen before or after the daemon has answered it.
type Call struct {
	Method, Path string
	Before       bool
}

// Tap listens in the daemon's place.
type Tap struct{ dir string }

// Socket is where it listens.
func (t *Tap) Socket() string { return filepath.Join(t.dir, "s") }

// New passes calls on to the daemon at a socket, until the test has ended. see is called for each, twice, from many
// goroutines; a call waits for it.
func New(t testing.TB, daemon string, see func(Call)) *Tap {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "tap")
	if err != nil {
		t.Fatal(err)
	}
	tap := &Tap{dir: dir}
	l, err := net.Listen("unix", tap.Socket())
	if err != nil {
		t.Fatal(err)
	}
	dialer := &net.Dialer{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "docker"})
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", daemon)
	}}
	proxy.ErrorLog = log.New(io.Discard, "", 0) // what is cut off is meant to be
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := Call{Method: r.Method, Path: r.URL.Path, Before: true}
		see(c)
		proxy.ServeHTTP(w, r)
		c.Before = false
		see(c)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // it ends by Close
	}()
	t.Cleanup(func() {
		_ = server.Close() // what is held up is cut off
		<-done
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return tap
}
