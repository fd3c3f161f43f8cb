// Package terminal owns the talk between a client's WebSocket and a command in a task: input and window sizes one way,
// output and the end the other, in the messages that clients of this API know. Only httpapi imports it.
package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/coder/websocket"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/wire"
)

// Run starts a command and talks until it has ended, or ctx; a client that goes takes its command with it. What reads
// the client runs in g and ends with open, which must live until the close frame is out: ending it cuts the connection.
func Run(
	ctx, open context.Context, g *lifecycle.Group, ws *websocket.Conn, servers wire.Conn, req *wire.AllocExecRequest,
) error {
	runCtx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stream, err := wire.AllocExec.Open(runCtx, servers, req)
	if err != nil {
		return err
	}
	g.Go("input", func() error {
		end(readInput(open, ws, stream))
		return nil
	})
	err = writeOutput(open, ws, stream)
	if cause := context.Cause(runCtx); err != nil && cause != nil {
		return cause
	}
	return err
}

// readInput hands the client's messages to the command, and tells what ended that. A client that goes takes its command
// with it.
func readInput(ctx context.Context, ws *websocket.Conn, stream *wire.Stream[wire.ExecInput, wire.ExecOutput]) error {
	for {
		_, data, err := ws.Read(ctx)
		if err != nil {
			return fault.Wrap(err, fault.Canceled, "read from", "client")
		}
		var in api.ExecStreamingInput
		if err := json.Unmarshal(data, &in); err != nil {
			return fault.Wrap(fmt.Errorf("a message is no JSON object: %w", err), fault.Invalid, "", "")
		}
		var out wire.ExecInput
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

func writeOutput(ctx context.Context, ws *websocket.Conn, stream *wire.Stream[wire.ExecInput, wire.ExecOutput]) error {
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
			if err := send(
				&api.ExecStreamingOutput{
					Stdout: &api.ExecStreamingIOOperation{Data: m.Stdout, Close: m.CloseStdout},
				}); err != nil {
				return err
			}
		}
		if len(m.Stderr) > 0 || m.CloseStderr {
			if err := send(
				&api.ExecStreamingOutput{
					Stderr: &api.ExecStreamingIOOperation{Data: m.Stderr, Close: m.CloseStderr},
				}); err != nil {
				return err
			}
		}
		if m.Exited {
			return send(
				&api.ExecStreamingOutput{Exited: true, Result: &api.ExecStreamingExitResult{ExitCode: m.ExitCode}})
		}
	}
}

// Short fits a text into a close frame (RFC 6455: 123 bytes).
func Short(s string) string {
	if len(s) > 120 {
		return s[:117] + "..."
	}
	return s
}
