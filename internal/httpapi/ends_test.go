package httpapi_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"berth/internal/httpapi/access"
)

// TestWhatEndsWithItsAgentIsNoSuccess: given a write whose context ends before it was done, as that of an agent that
// stops does, then it is answered as failed: whoever waits would take an empty answer for a success. It says that
// the agent stops, and not what became of a context.
func TestWhatEndsWithItsAgentIsNoSuccess(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := httptest.NewRequestWithContext(ctx, "PUT", "/v1/namespace", strings.NewReader(`{"Name":"lost"}`))
	req.Host = "127.0.0.1"
	out := httptest.NewRecorder()
	r.handler.Handler(access.Network{}).ServeHTTP(out, req)
	if out.Code < 500 {
		t.Errorf("it is answered with %d %s", out.Code, out.Body)
	}
	if out.Header().Get("Connection") != "close" {
		t.Error("its client may ask for more by the same connection, which is about to be closed")
	}
	said := out.Body.String()
	if strings.Contains(said, "context canceled") || !strings.Contains(said, "this agent stops") ||
		!strings.Contains(said, "may be done or not") {
		t.Errorf("who asked reads %q", said)
	}
}
