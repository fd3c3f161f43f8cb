package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/internal/httpapi/access"
)

// stopping is a world whose agent can be stopped, as far as its API shows that: every request ends.
func stopping(t *testing.T) (w *world, stop func()) {
	t.Helper()
	w = newWorld(t)
	ctx, stop := context.WithCancel(context.Background())
	web := httptest.NewUnstartedServer(w.handler.Handler(access.Network{}))
	web.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	web.Start()
	t.Cleanup(web.Close)
	t.Cleanup(stop)
	w.url = web.URL
	return w, stop
}

// TestAStreamThatItsAgentEndsIsCut: given who follows logs or events, when the agent that is asked stops, then the
// reply is no whole one: its reader would take the silence for the end of what it follows.
func TestAStreamThatItsAgentEndsIsCut(t *testing.T) {
	for name, at := range map[string]func(w *world) string{
		"of a task": func(w *world) string {
			return "/v1/client/fs/logs/" + w.alloc + "?task=t&type=stdout&follow=true"
		},
		"of a file": func(w *world) string {
			return "/v1/client/fs/stream/" + w.alloc + "?path=/alloc/data/readme"
		},
		"of this agent":       func(*world) string { return "/v1/agent/monitor" },
		"of events, the last": func(*world) string { return "/v1/event/stream?index=1" },
	} {
		t.Run(name, func(t *testing.T) {
			w, stop := stopping(t)
			body := bufio.NewReader(w.open(at(w)).Body)
			if _, err := body.Peek(1); err != nil {
				t.Fatal(err)
			}
			stop()
			all, err := io.ReadAll(body)
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("it ends with %v", err)
			}
			if events := strings.HasSuffix(name, "last"); strings.Contains(string(all), "context canceled") ||
				events != strings.Contains(string(all), "this agent stops") {
				t.Errorf("the last that its reader hears is %q", all[max(0, len(all)-200):])
			}
		})
	}
}

// TestACommandThatItsAgentEndsSaysSo: given a command in a task, when the agent that is asked stops, then who gave it
// reads that in the close frame.
func TestACommandThatItsAgentEndsSaysSo(t *testing.T) {
	w, stop := stopping(t)
	c := w.dial("t", `["shout"]`)
	send(t, c, `{"stdin":{"data":"aGk="}}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, _, err := c.Read(ctx); err != nil {
		t.Fatal(err)
	}
	stop()
	_, _, err := c.Read(ctx)
	var closed websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != websocket.StatusInternalError ||
		!strings.Contains(closed.Reason, "this agent stops") {
		t.Errorf("it ends with %v", err)
	}
}
