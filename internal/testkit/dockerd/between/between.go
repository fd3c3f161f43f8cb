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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Call is one, seen before or after the daemon has answered it.
type Call struct {
	Method, Path string
	Before       bool
}

// Tap listens in the daemon's place.
type Tap struct {
	dir      string
	outlives atomic.Bool
	under    sync.WaitGroup // calls that outlive their callers
}

// Socket is where it listens.
func (t *Tap) Socket() string { return filepath.Join(t.dir, "s") }

// Outlive has calls that change something go on when their callers are gone, as a daemon's own work may do.
func (t *Tap) Outlive() { t.outlives.Store(true) }

// Rest waits until the daemon has answered all such calls. Nobody may make one meanwhile.
func (t *Tap) Rest() { t.under.Wait() }

// outlive has a call go on to its end, if it is one of those.
func (t *Tap) outlive(r *http.Request) (same *http.Request, over func()) {
	if !t.outlives.Load() || r.Method == http.MethodGet || r.Header.Get("Upgrade") != "" ||
		strings.HasSuffix(r.URL.Path, "/wait") {
		return r, func() {}
	}
	t.under.Add(1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) // without, the proxy watches for the caller
	return r.WithContext(ctx), func() {
		cancel()
		t.under.Done()
	}
}

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
		r, over := tap.outlive(r)
		defer over()
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
