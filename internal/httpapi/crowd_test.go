package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"berth/internal/base/redact"
	"berth/internal/httpapi"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/conns"
)

// Given a port that asks for a token, with as many connections as it takes: silent ones, such as send half a request,
// and such as show a wrong token again and again. When a client shows the right one, then it is served, and its
// connection stays, an idle one too.
func TestProgramsWithoutATokenKeepNobodyOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := httpapi.New(httpapi.Config{
		Region: "global",
		Log:    slog.New(slog.DiscardHandler),
		Bounds: conns.Bounds{Total: 16, PerClient: 8},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- h.Run(ctx, httpapi.Entry{Listener: l, Guard: access.Network{Token: redact.New("right")}})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	open := func(text string) (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return c, bufio.NewReader(c)
	}
	// A path that is not there asks nobody: what is tried is the way in.
	const request = "GET /v1/nowhere HTTP/1.1\r\nHost: localhost\r\nX-Nomad-Token: %s\r\n\r\n"
	asks := func(what string, r *bufio.Reader, want int) {
		t.Helper()
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", what, answer.StatusCode, want)
		}
	}
	kept, reader := open("GET /v1/nowhere HTTP/1.1\r\nHost: localhost\r\nX-Nomad-Token: right\r\n\r\n")
	asks("the first of all", reader, http.StatusNotFound)
	for range 3 {
		for range 5 {
			open("")
			open("GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Nomad-Token: wr")
			_, r := open(fmt.Sprintf(request, "wrong"))
			asks("a wrong token", r, http.StatusForbidden)
			if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("the connection of a wrong token stays: %v", err)
			}
		}
		_, r := open(fmt.Sprintf(request, "right"))
		asks("the right token", r, http.StatusNotFound)
	}
	if _, err := fmt.Fprintf(kept, request, "right"); err != nil {
		t.Fatal(err)
	}
	asks("the connection that was there before", reader, http.StatusNotFound)
}
