package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/httpapi/audit"
	"berth/internal/httpapi/callers"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/terminal"
	"berth/internal/wire"
)

// farewell is how long a client has to take the close frame of an agent that stops.
const farewell = time.Second

// exec runs a command in a task over a WebSocket. The upgrade succeeds unless the origin is a foreign one; what is
// wrong after it comes as a close frame.
func (s *Server) exec(w http.ResponseWriter, r *calls.Request) error {
	ws, err := websocket.Accept(w, r.Request, nil)
	if err != nil {
		return nil // Accept has answered
	}
	ws.SetReadLimit(1 << 20)
	// The context of what reads and writes must live until the close frame is out, also when the agent stops: ending it
	// cuts the connection.
	g, open := lifecycle.NewGroup(context.WithoutCancel(r.Context()))
	defer context.AfterFunc(r.Context(), func() { time.AfterFunc(farewell, g.Stop) })()
	err = calls.Ended(r.Context(), s.execOver(open, g, ws, r))
	if err == nil {
		_ = ws.Close(websocket.StatusNormalClosure, "")
	} else {
		status := statusOf(err)
		audit.Of(r.Context()).Failed(err, status)
		_ = ws.Close(closeCode(err), terminal.Short(err.Error()))
	}
	_ = ws.CloseNow() // closed already; this is for a peer that did not answer
	g.Stop()
	return g.Wait()
}

// closeCode tells mistakes of the caller from failures.
func closeCode(err error) websocket.StatusCode {
	var coded *calls.Refused
	if errors.As(err, &coded) && coded.Status < http.StatusInternalServerError {
		return websocket.StatusPolicyViolation
	}
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Invalid, fault.Denied:
		return websocket.StatusPolicyViolation
	}
	return websocket.StatusInternalError
}

func (s *Server) execOver(open context.Context, g *lifecycle.Group, ws *websocket.Conn, r *calls.Request) error {
	ctx := r.Context()
	var command []string
	if err := json.Unmarshal([]byte(r.Arg("command")), &command); err != nil || len(command) == 0 {
		return calls.BadRequest("command must be a JSON list of strings that is not empty")
	}
	if r.Flag("ws_handshake") {
		_, hello, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		if ctx, err = callers.Showing(ctx, r.Request, hello); err != nil {
			return calls.BadRequest(err.Error())
		}
		if err := audit.Of(ctx).Shown(callers.Named(ctx, s.cfg.Servers)); err != nil {
			return err
		}
	}
	r.Request = r.WithContext(ctx)
	ref, err := target(r, r.Arg("task"))
	if err != nil {
		return err
	}
	return terminal.Run(ctx, open, g, ws, s.cfg.Servers,
		&wire.AllocExecRequest{AgentRef: ref, Task: r.Arg("task"), Command: command, TTY: r.Flag("tty")})
}
