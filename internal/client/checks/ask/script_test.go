package ask_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"berth/internal/client/checks/ask"
	"berth/internal/derive/service"
	"berth/internal/model/consul"
	"berth/internal/model/job"
)

// TestWhatAScriptPrintsIsBounded: however much it is, and without what no terminal should be sent.
func TestWhatAScriptPrintsIsBounded(t *testing.T) {
	c := &service.Check{Of: &job.ServiceCheck{Type: job.CheckScript, Timeout: time.Minute}}
	a := ask.Script(t.Context(), c, func(_ context.Context, _ *service.Check, out io.Writer) (int, error) {
		for range 1000 {
			if _, err := io.WriteString(out, "\x1b"+strings.Repeat("x", 1000)); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	if !a.Passed || len(a.Output) > ask.MaxOutput+len("…") || strings.Contains(a.Output, "\x1b") {
		t.Errorf("passed %v, %d bytes", a.Passed, len(a.Output))
	}
	a = ask.Script(t.Context(), c, func(context.Context, *service.Check, io.Writer) (int, error) {
		return 0, errors.New("it does not run")
	})
	if a.Passed || a.Output != "it does not run" || a.At.IsZero() {
		t.Errorf("one that cannot be run: %+v", a)
	}
	if a.Unknown {
		t.Error("one that cannot be run has failed")
	}
	ends := func(code int) ask.Run {
		return func(context.Context, *service.Check, io.Writer) (int, error) { return code, nil }
	}
	if a := ask.Script(t.Context(), c, ends(1)); a.Passed || a.Warned {
		t.Errorf("code 1, where the servers tell of the service: %+v", a)
	}
	c.Consul = &consul.Check{}
	for code, warned := range map[int]bool{1: true, 2: false, 0: false} {
		if a := ask.Script(t.Context(), c, ends(code)); a.Passed != (code == 0) || a.Warned != warned {
			t.Errorf("code %d of a script of Consul: %+v", code, a)
		}
	}
	a = ask.Script(t.Context(), c, func(context.Context, *service.Check, io.Writer) (int, error) {
		return 0, errors.New("the task has yet to be found")
	})
	if a.Passed || !a.Unknown {
		t.Errorf("one of Consul that cannot be run: %+v", a)
	}
}
