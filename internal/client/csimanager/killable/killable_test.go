package killable

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// shell is a helper program that does what its arguments say.
func shell() *Helpers {
	return &Helpers{
		Program: func() (*os.File, error) { return os.Open("/bin/sh") },
		Path:    func(*os.File) string { return "/bin/sh" },
	}
}

// TestAHelperThatTakesTooLongIsKilled: its end is not known to be a success.
func TestAHelperThatTakesTooLongIsKilled(t *testing.T) {
	h := shell()
	_, err := h.Run(t.Context(), "a thing", time.Nanosecond, "-c", "exec sleep 1000") // a child would keep the pipes
	if !fault.Has(err, fault.Timeout) {
		t.Errorf("%v", err)
	}
	if len(h.stuck) > 0 {
		t.Errorf("left behind: %v", h.stuck)
	}
}

// TestAHelperEndsWithItsContext: an agent that stops waits for none; what it had written counts, and it is gone.
func TestAHelperEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fifo := t.TempDir() + "/fifo"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer cancel()
		if _, err := os.ReadFile(fifo); err != nil { // until the helper has opened and closed it
			t.Error(err)
		}
	}()
	out, err := shell().Run(ctx, "a thing", time.Hour, "-c", "echo $$; : > "+fifo+"; exec sleep 1000")
	if !fault.Has(err, fault.Timeout) || strings.TrimSpace(out) == "" {
		t.Fatalf("%q, %v", out, err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(out)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it lives: %v", err)
	}
}

// TestOneThatCannotBeKilledIsWaitedFor: nobody else works on the same thing meanwhile.
func TestOneThatCannotBeKilledIsWaitedFor(t *testing.T) {
	h := shell()
	first, err := h.start([]string{"-c", "echo first; exec sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	h.stuck = map[string]*helper{"a thing": first}
	if err := unix.Kill(first.cmd.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), "a thing", time.Hour, "-c", "echo second"); !fault.Has(err, fault.Unavailable) {
		t.Errorf("the end of the first is not the answer: %v", err)
	}
	if out, err := h.Run(t.Context(), "a thing", time.Hour, "-c", "echo second"); err != nil || out != "second\n" {
		t.Errorf("after its end: %q, %v", out, err)
	}
}

// TestAHelperSaysWhyItFailed: in its own words, without its name.
func TestAHelperSaysWhyItFailed(t *testing.T) {
	out, err := shell().Run(t.Context(), "a thing", time.Hour, "-c", "echo half; echo berth-helper -c: no >&2; exit 1")
	if out != "half\n" || err == nil || err.Error() != "-c a thing: no" {
		t.Errorf("%q, %v", out, err)
	}
}
