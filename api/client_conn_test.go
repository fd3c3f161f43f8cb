package api

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// Given a connection at whose other end something speaks first, then that is heard when something was asked; one that
// ends is not waited for.
func TestNothingIsHeardBeforeItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		c := &askedConn{Conn: here, asked: make(chan struct{})}
		heard := make(chan error, 1)
		go func() { _, _ = io.WriteString(there, "hello") }()
		go func() {
			_, err := io.ReadFull(c, make([]byte, 5))
			heard <- err
		}()
		synctest.Wait()
		if len(heard) > 0 {
			t.Error("it was heard before anything was asked")
		}
		go func() { _, _ = io.WriteString(c, "who?") }()
		if _, err := io.ReadFull(there, make([]byte, 4)); err != nil {
			t.Error(err)
		}
		if err := <-heard; err != nil {
			t.Error(err)
		}
		unused, other := net.Pipe()
		c = &askedConn{Conn: unused, asked: make(chan struct{})}
		go func() {
			_, err := c.Read(make([]byte, 1))
			heard <- err
		}()
		synctest.Wait()
		if err := errors.Join(c.Close(), other.Close()); err != nil {
			t.Error(err)
		}
		if err := <-heard; err == nil {
			t.Error("something was read of a connection that was closed")
		}
	})
}

// Given something that answers before it is asked, then its reason arrives, each time; given something that is no
// agent, then what that said is shown.
func TestWhatSpeaksFirstIsUnderstood(t *testing.T) {
	for _, c := range []struct{ says, want string }{
		{"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfull", "full"},
		{"SSH-2.0-OpenSSH_9.9\r\n", `malformed HTTP response "SSH-2.0-OpenSSH_9.9"`},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return // the test is over
				}
				_, _ = io.WriteString(conn, c.says)
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				_ = conn.Close()
			}
		}()
		client, err := NewClient(Config{Address: "http://" + l.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			_, _, err := client.Nodes().List(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "%!") {
				t.Fatalf("%v; want %s", err, c.want)
			}
		}
	}
}
