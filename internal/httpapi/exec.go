package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/coder/websocket"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/wire"
)

// exec runs a command in a task over a WebSocket. The upgrade always succeeds; errors come as a close frame.
func (s *Server) exec(w http.ResponseWriter, r *request) error {
	ws, err := websocket.Accept(w, r.Request, &websocket.AcceptOptions{InsecureSkipVerify: true}) // origins are checked by the guard
	if err != nil {
		return nil //nolint:nilerr // Accept has answered
	}
	defer ws.CloseNow()
	ws.SetReadLimit(1 << 20)
	if err := s.execOver(ws, r); err != nil {
		code := websocket.StatusInternalError
		if k := fault.KindOf(err); k == fault.NotFound || k == fault.Invalid || k == fault.Denied {
			code = websocket.StatusPolicyViolation
		}
		var coded *statusError
		if errors.As(err, &coded) && coded.status < 500 {
			code = websocket.StatusPolicyViolation
		}
		_ = ws.Close(code, short(err.Error()))
		return nil
	}
	_ = ws.Close(websocket.StatusNormalClosure, "")
	return nil
}

// short fits a text into a close frame (RFC 6455: 123 bytes).
func short(s string) string {
	if len(s) > 120 {
		return s[:117] + "..."
	}
	return s
}

func (s *Server) execOver(ws *websocket.Conn, r *request) error {
	var command []string
	if err := json.Unmarshal([]byte(r.arg("command")), &command); err != nil || len(command) == 0 {
		return badRequest("command must be a JSON list of strings that is not empty")
	}
	if r.flag("ws_handshake") {
		if _, _, err := ws.Read(r.Context()); err != nil {
			return err
		}
	}
	ref, err := s.runRef(r)
	if err != nil {
		return err
	}
	g, ctx := lifecycle.NewGroup(r.Context())
	stream, err := wire.RunExec.Open(ctx, s.cfg.Servers, &wire.RunExecRequest{RunRef: ref, Task: r.arg("task"), Command: command, TTY: r.flag("tty")})
	if err != nil {
		g.Stop()
		return err
	}
	g.Go("input", func() error {
		readInput(ctx, ws, stream)
		return nil
	})
	err = writeOutput(ctx, ws, stream)
	g.Stop()
	// The input side ends with the connection, which the caller closes; waiting for it here would wait for the client.
	return err
}

func readInput(ctx context.Context, ws *websocket.Conn, stream *wire.Stream[wire.RunExecIn, wire.RunExecOut]) {
	for {
		_, data, err := ws.Read(ctx)
		if err != nil {
			_ = stream.CloseSend()
			return
		}
		var in api.ExecStreamingInput
		if json.Unmarshal(data, &in) != nil {
			continue
		}
		var out wire.RunExecIn
		if in.Stdin != nil {
			out.Stdin, out.CloseStdin = in.Stdin.Data, in.Stdin.Close
		}
		if in.TTYSize != nil {
			out.Height, out.Width = in.TTYSize.Height, in.TTYSize.Width
		}
		if len(out.Stdin) == 0 && !out.CloseStdin && out.Height == 0 {
			continue // a heartbeat
		}
		if stream.Send(&out) != nil {
			return
		}
	}
}

func writeOutput(ctx context.Context, ws *websocket.Conn, stream *wire.Stream[wire.RunExecIn, wire.RunExecOut]) error {
	send := func(v *api.ExecStreamingOutput) error {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return ws.Write(ctx, websocket.MessageText, data)
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return fault.New(fault.Internal, "exec", "", "the node ended the stream without an exit code")
		}
		if err != nil {
			return err
		}
		if len(m.Stdout) > 0 || m.CloseStdout {
			if err := send(&api.ExecStreamingOutput{Stdout: &api.ExecStreamingIOOperation{Data: m.Stdout, Close: m.CloseStdout}}); err != nil {
				return err
			}
		}
		if len(m.Stderr) > 0 || m.CloseStderr {
			if err := send(&api.ExecStreamingOutput{Stderr: &api.ExecStreamingIOOperation{Data: m.Stderr, Close: m.CloseStderr}}); err != nil {
				return err
			}
		}
		if m.Exited {
			return send(&api.ExecStreamingOutput{Exited: true, Result: &api.ExecStreamingExitResult{ExitCode: m.ExitCode}})
		}
	}
}
