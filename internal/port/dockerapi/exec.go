package dockerapi

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"berth/internal/base/fault"
)

// Exec says what is run in a container.
type Exec struct {
	AttachStdin  bool     `json:",omitempty"`
	AttachStdout bool     `json:",omitempty"`
	AttachStderr bool     `json:",omitempty"`
	Tty          bool     `json:",omitempty"`
	Env          []string `json:",omitempty"`
	Cmd          []string
}

// Ran is how a command in a container stands.
type Ran struct {
	Running  bool
	ExitCode *int
	Pid      int
}

// NewExec prepares a command in a container, and returns its id.
func (c *Client) NewExec(ctx context.Context, id string, e *Exec) (string, error) {
	var out struct {
		ID string `json:"Id"`
	}
	err := c.call(ctx, http.MethodPost, "/containers/"+id+"/exec", nil, e, &out)
	return out.ID, err
}

// Ran says how a command stands.
func (c *Client) Ran(ctx context.Context, id string) (*Ran, error) {
	var out Ran
	if err := c.call(ctx, http.MethodGet, "/exec/"+id+"/json", nil, nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Resize gives a command's terminal a size.
func (c *Client) Resize(ctx context.Context, id string, height, width int) error {
	query := url.Values{"h": {strconv.Itoa(height)}, "w": {strconv.Itoa(width)}}
	return c.call(ctx, http.MethodPost, "/exec/"+id+"/resize", query, nil, nil)
}

// Attached is a running command with its streams.
type Attached struct {
	conn net.Conn
	r    *bufio.Reader
	tty  bool
}

// StartExec starts a prepared command and takes its connection over. Ending ctx does not end it: Close does.
func (c *Client) StartExec(ctx context.Context, id string, tty bool) (*Attached, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // the error is that of what waits for it
	defer stop()
	s, err := c.hijack(conn, id, tty)
	if err != nil {
		_ = conn.Close() // that it failed says err
		var known *fault.Error
		if ctx.Err() == nil && errors.As(err, &known) {
			return nil, err
		}
		return nil, c.unreachable(ctx, err)
	}
	return s, nil
}

func (c *Client) hijack(conn net.Conn, id string, tty bool) (*Attached, error) {
	body, err := json.Marshal(map[string]bool{"Detach": false, "Tty": tty})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(http.MethodPost, c.address("/exec/"+id+"/start", nil),
		strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "tcp")
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return nil, refusal(res)
	}
	return &Attached{conn: conn, r: r, tty: tty}, nil
}

// Write gives the command input.
func (s *Attached) Write(p []byte) (int, error) { return s.conn.Write(p) }

// CloseWrite says that no input follows.
func (s *Attached) CloseWrite() error {
	if u, ok := s.conn.(*net.UnixConn); ok {
		return u.CloseWrite()
	}
	return nil
}

// Close gives the connection back; the command goes on.
func (s *Attached) Close() error { return s.conn.Close() }

// Copy passes on what the command writes, until it writes no more.
func (s *Attached) Copy(stdout, stderr io.Writer) error {
	if s.tty {
		_, err := io.Copy(orDiscard(stdout), s.r)
		return err
	}
	return Split(s.r, orDiscard(stdout), orDiscard(stderr))
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// Split takes apart the two streams that a daemon sends as one: a frame has eight bytes in front, of which the first
// says which stream, and the last four how long it is.
func Split(r io.Reader, stdout, stderr io.Writer) error {
	var head [8]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		to := stdout
		if head[0] == 2 {
			to = stderr
		}
		if _, err := io.CopyN(to, r, int64(binary.BigEndian.Uint32(head[4:]))); err != nil {
			return err
		}
	}
}
