package api_test

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/api"
)

// Given a log with heartbeats, when it is read, then the frames come in order, the heartbeats do not, and the end
// differs from a stream that breaks off.
func TestLogsStream(t *testing.T) {
	c, last := agent(t, func(w http.ResponseWriter, r *http.Request) {
		for _, frame := range []string{`{"Data":"b25l","File":"f","Offset":3}`, `{}`,
			`{"Data":"dHdv","File":"f","Offset":6}`} {
			_, _ = io.WriteString(w, frame)
		}
		if r.URL.Query().Get("follow") == "true" {
			panic(http.ErrAbortHandler)
		}
	})
	frames, err := c.Allocations().Logs(t.Context(), "x",
		api.LogOptions{Task: "t", Type: "stdout", Origin: api.OriginEnd, Offset: 9}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer frames.Close()
	var text strings.Builder
	if err := frames.CopyTo(&text); err != nil || text.String() != "onetwo" {
		t.Errorf("%q %v", text.String(), err)
	}
	if want := "GET /v1/client/fs/logs/x?follow=false&offset=9&origin=end&task=t&type=stdout"; last.line != want {
		t.Errorf("asked %s", last.line)
	}
	broken, err := c.Allocations().Logs(t.Context(), "x", api.LogOptions{Follow: true}, nil)
	if err != nil {
		return // the connection may break before the first frame
	}
	defer broken.Close()
	if err := broken.CopyTo(io.Discard); err == nil {
		t.Error("a stream that breaks off is no end")
	}
}

// Given a socket, when the address names it, then it is spoken to.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `"1.2.3.4:5"`)
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	leader, err := client(t, api.Config{Address: "unix://" + path}).Cluster().Leader(t.Context(), "")
	if err != nil || leader != "1.2.3.4:5" {
		t.Errorf("%q %v", leader, err)
	}
}

// shell is a fake of the exec endpoint: it echoes its input, and ends as the command says.
func shell(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var command []string
		if err := json.Unmarshal([]byte(r.URL.Query().Get("command")), &command); err != nil {
			t.Error(err)
		}
		if command[0] == "forbidden" {
			http.Error(w, "Permission denied", http.StatusForbidden)
			return
		}
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.CloseNow()
		ws.SetReadLimit(1 << 20)
		if command[0] == "missing" {
			_ = ws.Close(websocket.StatusPolicyViolation, "Unknown allocation")
			return
		}
		for {
			_, data, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			var in api.ExecStreamingInput
			if err := json.Unmarshal(data, &in); err != nil {
				t.Error(err)
			}
			out := api.ExecStreamingOutput{Stdout: in.Stdin}
			if in.Stdin != nil && in.Stdin.Close {
				out = api.ExecStreamingOutput{Exited: true, Result: &api.ExecStreamingExitResult{ExitCode: 7}}
			}
			if in.TTYSize != nil {
				out.Stderr = &api.ExecStreamingIOOperation{Data: []byte(fmt.Sprint(in.TTYSize.Width))}
			}
			answer, err := json.Marshal(out)
			if err != nil {
				t.Error(err)
			}
			if ws.Write(r.Context(), websocket.MessageText, answer) != nil {
				return
			}
			if out.Exited {
				_ = ws.Close(websocket.StatusNormalClosure, "")
				return
			}
		}
	}
}

// Given another's implementation of WebSockets, when a session is held, then small and large messages arrive whole in
// both directions, sizes and exit code too, and the end is an end.
func TestExec(t *testing.T) {
	c, last := agent(t, shell(t))
	s, err := c.Allocations().Exec(t.Context(), "x",
		api.ExecOptions{Task: "t", Command: []string{"cat", "a b"}, TTY: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if want := "GET /v1/client/allocation/x/exec?command=%5B%22cat%22%2C%22a+b%22%5D&task=t&tty=true"; last.line !=
		want {
		t.Errorf("asked %s", last.line)
	}
	for _, n := range []int{1, 125, 126, 60_000, 200_000} {
		data := slices.Repeat([]byte("x"), n)
		if err := s.Send(&api.ExecStreamingInput{Stdin: &api.ExecStreamingIOOperation{Data: data}}); err != nil {
			t.Fatal(err)
		}
		out, err := s.Recv()
		if err != nil || out.Stdout == nil || len(out.Stdout.Data) != n {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if err := s.Send(&api.ExecStreamingInput{TTYSize: &api.TerminalSize{Height: 24, Width: 80}}); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Recv(); err != nil || string(out.Stderr.Data) != "80" {
		t.Errorf("size: %+v %v", out, err)
	}
	if err := s.Send(&api.ExecStreamingInput{Stdin: &api.ExecStreamingIOOperation{Close: true}}); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Recv(); err != nil || !out.Exited || out.Result.ExitCode != 7 {
		t.Errorf("exit: %+v %v", out, err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

// Given refusals before and after the upgrade, and a caller who gives up, when a session is begun, then the error says
// so.
func TestExecRefused(t *testing.T) {
	c, _ := agent(t, shell(t))
	_, err := c.Allocations().Exec(t.Context(), "x", api.ExecOptions{Command: []string{"forbidden"}}, nil)
	var status *api.StatusError
	if !errors.As(err, &status) || status.Code != http.StatusForbidden || err.Error() != "Permission denied" {
		t.Errorf("forbidden: %v", err)
	}
	s, err := c.Allocations().Exec(t.Context(), "x", api.ExecOptions{Command: []string{"missing"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.As(err, &status) || err.Error() != "Unknown allocation" {
		t.Errorf("missing: %v", err)
	}
	s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err = c.Allocations().Exec(ctx, "x", api.ExecOptions{Command: []string{"cat"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	time.AfterFunc(30*time.Millisecond, cancel)
	if _, err := s.Recv(); err == nil {
		t.Error("the end of the context must end the session")
	}
}

// Given an agent that speaks TLS, when its authority is known, then calls and sessions work; when it is not, they say
// so.
func TestTLS(t *testing.T) {
	sh := shell(t)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/exec") {
			sh(w, r)
			return
		}
		_, _ = io.WriteString(w, `"l"`)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, config := range []api.TLSConfig{{CACert: ca}, {CAPath: filepath.Dir(ca)}, {SkipVerify: true},
		{CACert: ca, ServerName: "example.com"}} {
		c := client(t, api.Config{Address: s.URL, TLS: config})
		if leader, err := c.Cluster().Leader(t.Context(), ""); err != nil || leader != "l" {
			t.Errorf("%+v: %v", config, err)
		}
		session, err := c.Allocations().Exec(t.Context(), "x", api.ExecOptions{Command: []string{"cat"}}, nil)
		if err != nil {
			t.Errorf("%+v: %v", config, err)
			continue
		}
		session.Close()
	}
	var away *api.UnreachableError
	if _, err := client(t, api.Config{Address: s.URL}).Cluster().Leader(t.Context(), ""); !errors.As(err, &away) ||
		away.Refused() {
		t.Errorf("an unknown authority: %v", err)
	}
}

// raw answers the upgrade by hand, writes frames as they are and then hands over the connection.
func raw(t *testing.T, frames string, then func(c net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn,
			"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
				"%s\r\n\r\n%s",
			base64.StdEncoding.EncodeToString(sum[:]), frames)
		if then != nil {
			then(conn)
		}
	}
}

// Given a message in fragments with a ping between them, when it is read, then it is whole and the ping was answered.
func TestFragmentsAndPings(t *testing.T) {
	pong := make(chan []byte, 1)
	c, _ := agent(t, raw(t, "\x01\x0a{\"exited\":\x89\x02hi\x80\x05true}", func(c net.Conn) {
		frame := make([]byte, 8)
		if _, err := io.ReadFull(c, frame); err != nil {
			t.Error(err)
		}
		pong <- frame
	}))
	s, err := c.Allocations().Exec(t.Context(), "x", api.ExecOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if out, err := s.Recv(); err != nil || !out.Exited {
		t.Fatalf("%+v %v", out, err)
	}
	frame := <-pong
	if frame[0] != 0x8a || frame[1] != 0x82 || frame[6]^frame[2] != 'h' || frame[7]^frame[3] != 'i' {
		t.Errorf("pong % x", frame)
	}
}

// Given a session that the agent closes without a reason, when it is read, then that is its end; it carried the token.
func TestASessionEndsWellAndCarriesTheToken(t *testing.T) {
	var token string
	answer := raw(t, "\x88\x00", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token = r.Header.Get("X-Nomad-Token")
		answer(w, r)
	}))
	defer server.Close()
	c := client(t, api.Config{Address: server.URL, Token: "open sesame"})
	s, err := c.Allocations().Exec(t.Context(), "x", api.ExecOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if out, err := s.Recv(); !errors.Is(err, io.EOF) || token != "open sesame" {
		t.Errorf("%+v, %v; the token was %q", out, err, token)
	}
}

// Given frames that break the protocol, when they are read, then that is an error and nothing is believed.
func TestFramesThatAreRefused(t *testing.T) {
	for name, frames := range map[string]string{
		"masked by the server":           "\x81\x82abcdxx",
		"reserved bits":                  "\xc1\x02{}",
		"continuation without beginning": "\x80\x02{}",
		"message within a message":       "\x01\x01{\x81\x02{}",
		"unknown kind":                   "\x83\x02{}",
		"fragmented ping":                "\x09\x01x",
		"too large":                      "\x81\x7f\x00\x00\x00\x00\x7f\xff\xff\xff",
		"larger than there is":           "\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
		"broken off":                     "\x81\x05{",
		"no JSON":                        "\x81\x01x",
	} {
		c, _ := agent(t, raw(t, frames, nil))
		s, err := c.Allocations().Exec(t.Context(), "x", api.ExecOptions{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := s.Recv(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %+v %v", name, out, err)
		}
		s.Close()
	}
}
