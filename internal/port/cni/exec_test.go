package cni

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"
)

// script is a plugin.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Given plugins that hang with a child that holds their output, and that end and leave such a child, when their time is
// over, or they have ended, then the call ends, and so has all that they started.
func TestWhatAPluginHasStartedEndsWithItsCall(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		out  string
	}{
		"hangs":          {text: "sleep 300 & echo $! >$CNI_PIDS; sleep 300"},
		"leaves a child": {text: "sleep 300 & echo $! >$CNI_PIDS; echo done", out: "done\n"},
	} {
		t.Run(name, func(t *testing.T) {
			pids := filepath.Join(t.TempDir(), "pids")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // runs out while the plugin hangs
			defer cancel()
			out, err := newExec().ExecPlugin(ctx, script(t, c.text), nil,
				[]string{"CNI_PIDS=" + pids, "PATH=/usr/bin:/bin", "SECRET=x"})
			if string(out) != c.out || errors.Is(err, context.DeadlineExceeded) != (c.out == "") {
				t.Errorf("it answers %q, %v", out, err)
			}
			text, err := os.ReadFile(pids)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			for range 200 { // it is reaped by another
				if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Errorf("its child %d lives on", pid)
		})
	}
}

// Given a plugin that fails, then what it says is the error, as the specification has it or as it is.
func TestAPluginsErrorIsWhatItSays(t *testing.T) {
	for text, want := range map[string]string{
		`echo '{"code": 7, "msg": "no address left"}'; exit 1`: "no address left",
		`echo broken; exit 1`:        "exit status 1: broken",
		`echo its words >&2; exit 3`: "exit status 3: its words",
		`echo "$SECRET" >&2; exit 4`: "exit status 4: ",
	} {
		_, err := newExec().ExecPlugin(t.Context(), script(t, text), nil, []string{"PATH=/usr/bin:/bin", "SECRET=x"})
		if err == nil || !strings.Contains(err.Error(), want) || strings.HasSuffix(err.Error(), "x") {
			t.Errorf("%s: %v", text, err)
		}
		var said *types.Error
		if errors.As(err, &said) != strings.Contains(text, "code") {
			t.Errorf("%s: of type %T", text, err)
		}
	}
}
