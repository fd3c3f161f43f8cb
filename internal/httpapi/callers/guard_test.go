package callers_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/httpapi/callers"
)

// Given a route whose answer panics, then the client hears of the route and not of the place, which is in the log.
func TestAPanicIsAnAnswer(t *testing.T) {
	var log bytes.Buffer
	_, err := callers.Guard(slog.New(slog.NewTextHandler(&log, nil)), "PUT", "/v1/x", func() (any, error) {
		panic("broken")
	})
	if !fault.Has(err, fault.Internal) || !strings.Contains(err.Error(), "PUT /v1/x") ||
		strings.Contains(err.Error(), ".go") {
		t.Errorf("the client hears of %v", err)
	}
	if !strings.Contains(log.String(), "guard_test.go") {
		t.Errorf("the log does not say where: %s", log.String())
	}
}
