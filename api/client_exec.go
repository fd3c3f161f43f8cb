package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/coder/websocket"
)

// ExecSession is a program that runs in a task, with its input and output. Send and Recv may be called at the same
// time, each by one caller.
type ExecSession struct {
	conn net.Conn // a WebSocket; each write is a message
	in   *json.Decoder
}

// maxMessage bounds a message in bytes.
const maxMessage = 4 << 20

// ExecOptions say what to run where.
type ExecOptions struct {
	Task    string
	Command []string
	TTY     bool
}

// Exec starts a program in a task. The end of ctx ends the session.
func (a Allocations) Exec(ctx context.Context, id string, e ExecOptions, o *QueryOptions) (*ExecSession, error) {
	command, err := json.Marshal(e.Command)
	if err != nil {
		return nil, fmt.Errorf("the command cannot be encoded: %w", err)
	}
	r := newCall(http.MethodGet, "client", "allocation", id, "exec").set("task", e.Task).
		set("command", string(command)).setBool("tty", e.TTY).read(o)
	u, err := a.c.url(r)
	if err != nil {
		return nil, err
	}
	a.c.authorize(r.header)
	ws, resp, err := websocket.Dial(ctx, u.String(),
		&websocket.DialOptions{HTTPClient: a.c.upgrading, HTTPHeader: r.header})
	switch {
	case err == nil:
	case resp == nil:
		return nil, a.c.unreachable(err)
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil, fmt.Errorf("the agent did not open a WebSocket: %w", err)
	default:
		return nil, a.c.refused(r, resp)
	}
	conn := websocket.NetConn(ctx, ws, websocket.MessageText)
	ws.SetReadLimit(maxMessage)
	return &ExecSession{conn: conn, in: json.NewDecoder(conn)}, nil
}

// Send sends input, a change of the terminal's size, or with the zero value a heartbeat.
func (s *ExecSession) Send(in *ExecStreamingInput) error {
	data, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("the input cannot be encoded: %w", err)
	}
	if _, err := s.conn.Write(data); err != nil {
		return fmt.Errorf("the connection broke: %w", err)
	}
	return nil
}

// Recv returns the next output. The last has Exited set; a regular end is io.EOF. A refusal of the agent is a
// *StatusError; its Code is 0.
func (s *ExecSession) Recv() (*ExecStreamingOutput, error) {
	var out ExecStreamingOutput
	err := s.in.Decode(&out)
	var closed websocket.CloseError
	switch {
	case err == nil:
		return &out, nil
	case err == io.EOF: // itself: a connection that breaks wraps it
		return nil, io.EOF
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("the session broke off: %w", io.ErrUnexpectedEOF)
	case !errors.As(err, &closed):
		return nil, fmt.Errorf("the session broke off: %w", err)
	case closed.Code == websocket.StatusNoStatusRcvd:
		return nil, io.EOF
	case closed.Reason == "":
		closed.Reason = fmt.Sprintf("the agent ended the session with code %d", closed.Code)
	}
	return nil, &StatusError{Body: closed.Reason}
}

// Close ends the session and with it the program.
func (s *ExecSession) Close() error { return s.conn.Close() }
