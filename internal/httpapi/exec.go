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

// exec runs a command in a task over a WebSocket. The upgrade succeeds unless the origin is a foreign one; what is wrong
// after it comes as a close frame.
func (s *Server) exec(w http.ResponseWriter, r *request) error {
	ws, err := websocket.Accept(w, r.Request, nil)
	if err != nil {
		return nil // Accept has answered
	}
	ws.SetReadLimit(1 << 20)
	g, ctx := lifecycle.NewGroup(r.Context())
	err = s.execOver(ctx, g, ws, r)
	// The reader's context must live until the close frame is out: ending it cuts the connection.
	if err == nil {
		_ = ws.Close(websocket.StatusNormalClosure, "")
	} else {
		_ = ws.Close(closeCode(err), short(err.Error()))
	}
	_ = ws.CloseNow() // closed already; this is for a peer that did not answer
	g.Stop()
	return g.Wait()
}

// closeCode tells mistakes of the caller from failures.
func closeCode(err error) websocket.StatusCode {
	var coded *statusError
	if errors.As(err, &coded) && coded.status < http.StatusInternalServerError {
		return websocket.StatusPolicyViolation
	}
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Invalid, fault.Denied:
		return websocket.StatusPolicyViolation
	}
	return websocket.StatusInternalError
}

// short fits a text into a close frame (RFC 6455: 123 bytes).
func short(s string) string {
	if len(s) > 120 {
		return s[:117] + "..."
	}
	return s
}

func (s *Server) execOver(ctx context.Context, g *lifecycle.Group, ws *websocket.Conn, r *request) error {
	var command []string
	if err := json.Unmarshal([]byte(r.arg("command")), &command); err != nil || len(command) == 0 {
		return badRequest("command must be a JSON list of strings that is not empty")
	}
	if r.flag("ws_handshake") {
		if _, _, err := ws.Read(ctx); err != nil {
			return err
		}
	}
	ref, err := s.runTask(r, r.arg("task"))
	if err != nil {
		return err
	}
	runCtx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stream, err := wire.RunExec.Open(runCtx, s.cfg.Servers, &wire.RunExecRequest{RunRef: ref, Task: r.arg("task"), Command: command, TTY: r.flag("tty")})
	if err != nil {
		return err
	}
	g.Go("input", func() error {
		end(readInput(ctx, ws, stream))
		return nil
	})
	err = writeOutput(ctx, ws, stream)
	if cause := context.Cause(runCtx); err != nil && cause != nil {
		return cause
	}
	return err
}

// readInput hands the client's messages to the command, and tells what ended that. A client that goes takes its command
// with it.
func readInput(ctx context.Context, ws *websocket.Conn, stream *wire.Stream[wire.RunExecIn, wire.RunExecOut]) error {
	for {
		_, data, err := ws.Read(ctx)
		if err != nil {
			return fault.Wrap(err, fault.Canceled, "read from", "client")
		}
		var in api.ExecStreamingInput
		if err := json.Unmarshal(data, &in); err != nil {
			return badRequest("a message is no JSON object: " + err.Error())
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
		if err := stream.Send(&out); err != nil {
			return nil // the command has ended; what it said is under way
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
